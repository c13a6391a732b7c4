// SPDX-License-Identifier: Apache-2.0
//! The certificates that were issued and those that are refused, the users that are disabled: kept
//! a second time in `STATE_DIR/pki/refused.jsonl`, beside the CA whose certificates it is about.
//! After a database is lost or set back, a refused certificate must stay refused, and revoking a
//! certificate must find all that descend from it.
//!
//! A line that refuses is on disk before the database has the row, and before the answer. At the
//! start both are made to say the same (of two lines about the same, the file's last one counts),
//! and lines that no longer matter are left out; so they are when the file has grown. It is not
//! read while the daemon runs; `directory` is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use model::error::{Error, Reason};
use serde::{Deserialize, Serialize};

use super::pki::{Pki, PkiError};
use crate::UserKey;
use store::{IssuedRow, RevocationRow, Store, StoreError, UserRow, now_ns};

const FILE: &str = "refused.jsonl";

/// One line of the file, as JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Line {
    Revoked {
        serial: String,
        #[serde(default)]
        reason: String,
        until_ns: i64,
        created_ns: i64,
    },
    Disabled {
        tenant: String,
        user: String,
        created_ns: i64,
    },
    Enabled {
        tenant: String,
        user: String,
    },
    Issued {
        serial: String,
        tenant: String,
        user: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<String>,
        issued_ns: i64,
        until_ns: i64,
    },
    /// The user's certificates that were issued before are refused.
    ValidFrom {
        tenant: String,
        user: String,
        from_ns: i64,
    },
}

impl Line {
    /// The certificate or user that the line is about: of two lines about the same, the last
    /// counts.
    fn key(&self) -> (u8, &str, &str) {
        match self {
            Line::Revoked { serial, .. } => (0, serial, ""),
            Line::Disabled { tenant, user, .. } | Line::Enabled { tenant, user } => {
                (1, tenant, user)
            }
            Line::Issued { serial, .. } => (2, serial, ""),
            Line::ValidFrom { tenant, user, .. } => (3, tenant, user),
        }
    }

    /// Whether it counts although another line about the same comes after it.
    fn outlasts(&self, later: &Line) -> bool {
        match (self, later) {
            (Line::ValidFrom { from_ns, .. }, Line::ValidFrom { from_ns: later, .. }) => {
                from_ns >= later
            }
            _ => false,
        }
    }

    fn is_over(&self, now_ns: i64) -> bool {
        matches!(self, Line::Revoked { until_ns, .. } if *until_ns < now_ns)
    }

    pub(crate) fn issued(row: &IssuedRow) -> Self {
        Line::Issued {
            serial: row.serial.clone(),
            tenant: row.tenant.clone(),
            user: row.user.clone(),
            parent: row.parent.clone(),
            issued_ns: row.issued_ns,
            until_ns: row.until_ns,
        }
    }

    pub(crate) fn revoked(row: &RevocationRow) -> Self {
        Line::Revoked {
            serial: row.serial.clone(),
            reason: row.reason.clone(),
            until_ns: row.until_ns,
            created_ns: row.created_ns,
        }
    }
}

/// The lines that still matter: the last one about each certificate or user, none that has ended.
/// An issued certificate matters while it, or one that descends from it, has not ended.
fn pruned<'a>(lines: impl Iterator<Item = &'a Line>, now_ns: i64) -> Vec<&'a Line> {
    let mut by_key: BTreeMap<_, &Line> = BTreeMap::new();
    for line in lines.filter(|line| !line.is_over(now_ns)) {
        let before = by_key.get(&line.key());
        if !before.is_some_and(|before| before.outlasts(line)) {
            by_key.insert(line.key(), line);
        }
    }
    let mut needed = BTreeSet::new();
    for line in by_key.values() {
        let mut next = match line {
            Line::Issued {
                serial, until_ns, ..
            } if *until_ns >= now_ns => Some(serial.as_str()),
            _ => None,
        };
        while let Some(serial) = next.filter(|serial| needed.insert(*serial)) {
            next = match by_key.get(&(2, serial, "")) {
                Some(Line::Issued { parent, .. }) => parent.as_deref(),
                _ => None,
            };
        }
    }
    let matters = |line: &&Line| match line {
        Line::Issued { serial, .. } => needed.contains(serial.as_str()),
        _ => true,
    };
    by_key.into_values().filter(matters).collect()
}

/// The file, open for lines to be added.
#[derive(Clone, Debug)]
pub(crate) struct RevocationLog {
    pki: Pki,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Rewritten without what no longer matters beyond this length, in bytes.
    limit: u64,
}

/// The file is not rewritten below this length, in bytes.
const SMALL: u64 = 4 * 1024 * 1024;

impl RevocationLog {
    /// Reads the file, and makes the file and the database agree.
    ///
    /// # Errors
    /// The file or the database can't be read or written.
    pub(crate) async fn reconcile(
        pki: &Pki,
        store: &Store,
        now_ns: i64,
    ) -> Result<Self, crate::StartError> {
        let kept = lines(pki)?;
        let stored = stored(store).await?;
        let all = pruned(stored.iter().chain(&kept), now_ns);
        let known: BTreeMap<_, _> = stored.iter().map(|line| (line.key(), line)).collect();
        let missing = all
            .iter()
            .filter(|line| known.get(&line.key()) != Some(*line));
        restore(store, missing.copied()).await?;
        // That a user is enabled is what the database says by itself.
        let written = all
            .iter()
            .filter(|line| !matches!(line, Line::Enabled { .. }));
        let text: String = written.filter_map(|line| seal(line)).collect();
        if pki.read(FILE)?.as_deref() != Some(&text) {
            pki.write(FILE, &text)?;
        }
        Ok(Self {
            pki: pki.clone(),
            open: Arc::new(Mutex::new(open(pki)?)),
        })
    }

    /// Adds lines, all or none: what they say holds for every later daemon, also for one that finds
    /// no database.
    ///
    /// # Errors
    /// `DEGRADED`: they are not on disk.
    pub(crate) async fn add(&self, lines: Vec<Line>) -> Result<(), Error> {
        let this = self.clone();
        let written = tokio::task::spawn_blocking(move || this.append(&lines)).await;
        let failed = match written {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(error) => io::Error::other(error),
        };
        let message = format!("{}: {failed}", self.pki.file(FILE).display());
        Err(Error::new(Reason::Degraded, message).hint("make room on the disk, and ask again"))
    }

    fn append(&self, lines: &[Line]) -> io::Result<()> {
        let text: Option<String> = lines.iter().map(seal).collect();
        let text = text.ok_or_else(|| io::Error::other("a line can't be written as JSON"))?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let before = open.file.metadata()?.len();
        let written = open.file.write_all(text.as_bytes());
        if let Err(error) = written.and_then(|()| open.file.sync_data()) {
            // Half a line on a full disk: off with it, or the next one would continue it.
            open.file.set_len(before)?;
            return Err(error);
        }
        if before > open.limit
            && let Err(error) = self.rewrite(&mut open)
        {
            tracing::warn!(%error, "the revocation log keeps lines that no longer matter");
        }
        Ok(())
    }

    fn rewrite(&self, open: &mut Open) -> Result<(), PkiError> {
        let lines = lines(&self.pki)?;
        let matter = pruned(lines.iter(), now_ns());
        let text: String = matter.into_iter().filter_map(seal).collect();
        self.pki.write(FILE, &text)?;
        *open = self::open(&self.pki)?;
        Ok(())
    }
}

fn open(pki: &Pki) -> Result<Open, PkiError> {
    let path = pki.file(FILE);
    let failed = |source| PkiError::Io {
        file: path.clone(),
        what: "opened",
        source,
    };
    let file = OpenOptions::new()
        .append(true)
        .open(&path)
        .map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    Ok(Open {
        file,
        limit: SMALL.max(length.saturating_mul(2)),
    })
}

/// Whether the file says that a user is disabled. For a daemon that doesn't run.
pub(crate) fn says_disabled(pki: &Pki, user: &UserKey) -> Result<bool, PkiError> {
    let about = |line: &Line| line.key() == (1, user.tenant.as_str(), user.name.as_str());
    let lines = lines(pki)?;
    let last = lines.iter().rfind(|line| about(line));
    Ok(matches!(last, Some(Line::Disabled { .. })))
}

/// Has the next daemon enable a user.
pub(crate) fn enable_later(pki: &Pki, user: &UserKey) -> Result<(), PkiError> {
    let line = Line::Enabled {
        tenant: user.tenant.to_string(),
        user: user.name.to_string(),
    };
    let mut file = open(pki)?.file;
    let text = seal(&line).unwrap_or_default();
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_data());
    written.map_err(|source| PkiError::Io {
        file: pki.file(FILE),
        what: "written",
        source,
    })
}

fn seal(line: &Line) -> Option<String> {
    serde_json::to_string(line).ok().map(|text| text + "\n")
}

/// The lines of the file. One that a power loss has torn was never acknowledged.
fn lines(pki: &Pki) -> Result<Vec<Line>, PkiError> {
    let text = pki.read(FILE)?.unwrap_or_default();
    let parsed = text.lines().enumerate().filter_map(|(at, line)| {
        let parsed = serde_json::from_str(line);
        parsed
            .inspect_err(|error| {
                let file = pki.file(FILE);
                let at = at + 1;
                tracing::error!(file = %file.display(), line = at, %error, "left out");
            })
            .ok()
    });
    Ok(parsed.collect())
}

/// The lines that the database would give.
async fn stored(store: &Store) -> Result<Vec<Line>, StoreError> {
    let revoked = store.revocations().await?;
    let issued = store.certificates(None).await?;
    let users = store.users().await?;
    let disabled = users.into_iter().filter(|row| row.disabled);
    let disabled = disabled.map(|row| Line::Disabled {
        tenant: row.tenant,
        user: row.name,
        created_ns: row.created_ns,
    });
    let valid_from = store.valid_from().await?.into_iter();
    let valid_from = valid_from.map(|(tenant, user, from_ns)| Line::ValidFrom {
        tenant,
        user,
        from_ns,
    });
    let certificates = revoked.iter().map(Line::revoked);
    let certificates = certificates.chain(issued.iter().map(Line::issued));
    Ok(certificates.chain(disabled).chain(valid_from).collect())
}

/// Puts what the database lacks back into it.
async fn restore(store: &Store, lines: impl Iterator<Item = &Line>) -> Result<(), StoreError> {
    let mut issued = Vec::new();
    for line in lines {
        match line.clone() {
            Line::Revoked {
                serial,
                reason,
                until_ns,
                created_ns,
            } => {
                tracing::warn!(serial, "a revocation was missing in the database");
                let row = RevocationRow {
                    serial,
                    reason,
                    until_ns,
                    created_ns,
                };
                store.add_revocation(row).await?;
            }
            Line::Disabled {
                tenant,
                user,
                created_ns,
            } => {
                let row = UserRow {
                    tenant: tenant.clone(),
                    name: user.clone(),
                    role: None,
                    disabled: true,
                    created_ns,
                };
                if !store.add_user(row).await? {
                    store.set_disabled(tenant, user, true).await?;
                }
            }
            Line::Enabled { tenant, user } => {
                store.set_disabled(tenant, user, false).await?;
            }
            Line::Issued {
                serial,
                tenant,
                user,
                parent,
                issued_ns,
                until_ns,
            } => issued.push(IssuedRow {
                serial,
                tenant,
                user,
                parent,
                issued_ns,
                until_ns,
            }),
            Line::ValidFrom {
                tenant,
                user,
                from_ns,
            } => store.set_valid_from(tenant, user, from_ns).await?,
        }
    }
    if issued.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        count = issued.len(),
        "issued certificates were missing in the database"
    );
    store.restore_issued(issued).await
}
