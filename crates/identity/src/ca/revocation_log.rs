// SPDX-License-Identifier: Apache-2.0
//! Who is refused, kept a second time: `STATE_DIR/pki/refused.jsonl`, beside the CA whose
//! certificates it is about. A database that is lost or set back must not let anybody in again.
//!
//! A line is on disk before the database has the row, and before the answer. At the start both are
//! made to say the same, and lines that no longer matter are left out. It is not read while the
//! daemon runs; `directory` is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use model::error::{Error, Reason};
use serde::{Deserialize, Serialize};

use super::pki::{Pki, PkiError};
use store::{RevocationRow, Store, StoreError, UserRow};

const FILE: &str = "refused.jsonl";

/// A line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
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
}

impl Line {
    /// What it is about: the last line about the same counts.
    fn key(&self) -> (u8, &str, &str) {
        match self {
            Line::Revoked { serial, .. } => (0, serial, ""),
            Line::Disabled { tenant, user, .. } => (1, tenant, user),
        }
    }

    fn is_over(&self, now_ns: i64) -> bool {
        matches!(self, Line::Revoked { until_ns, .. } if *until_ns < now_ns)
    }

    fn revoked(row: &RevocationRow) -> Self {
        Line::Revoked {
            serial: row.serial.clone(),
            reason: row.reason.clone(),
            until_ns: row.until_ns,
            created_ns: row.created_ns,
        }
    }
}

/// The file, open for lines to be added.
#[derive(Clone, Debug)]
pub(crate) struct RevocationLog {
    path: PathBuf,
    file: Arc<Mutex<File>>,
}

impl RevocationLog {
    /// Reads the file, and has it and the database say the same.
    ///
    /// # Errors
    /// The file can't be read or written, or the database can't.
    pub(crate) async fn reconcile(
        pki: &Pki,
        store: &Store,
        now_ns: i64,
    ) -> Result<Self, crate::StartError> {
        let kept = lines(pki)?;
        let stored = stored(store).await?;
        let all = kept.iter().chain(&stored);
        let all = all.filter(|line| !line.is_over(now_ns));
        let by_key: BTreeMap<_, _> = all.map(|line| (line.key(), line)).collect();
        let text: String = by_key.values().filter_map(|line| seal(line)).collect();
        if pki.read(FILE)?.as_deref() != Some(&text) {
            pki.write(FILE, &text)?;
        }
        let known: BTreeSet<_> = stored.iter().map(Line::key).collect();
        let missing = by_key.into_iter().filter(|(key, _)| !known.contains(key));
        restore(store, missing.map(|(_, line)| line)).await?;
        Ok(Self::open(pki)?)
    }

    fn open(pki: &Pki) -> Result<Self, PkiError> {
        let path = pki.file(FILE);
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.map_err(|source| PkiError::Io {
            file: path.clone(),
            what: "opened",
            source,
        })?;
        Ok(Self {
            path,
            file: Arc::new(Mutex::new(file)),
        })
    }

    /// A certificate is refused from now on, also by a daemon that finds no database.
    ///
    /// # Errors
    /// `DEGRADED`: it is not on disk.
    pub(crate) async fn revoked(&self, row: &RevocationRow) -> Result<(), Error> {
        self.add(Line::revoked(row)).await
    }

    /// A user is refused from now on.
    ///
    /// # Errors
    /// `DEGRADED`: it is not on disk.
    pub(crate) async fn disabled(
        &self,
        tenant: String,
        user: String,
        created_ns: i64,
    ) -> Result<(), Error> {
        self.add(Line::Disabled {
            tenant,
            user,
            created_ns,
        })
        .await
    }

    async fn add(&self, line: Line) -> Result<(), Error> {
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || append(&file, &line)).await;
        let failed = match written {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(error) => io::Error::other(error),
        };
        let message = format!("{}: {failed}", self.path.display());
        Err(Error::new(Reason::Degraded, message).hint("make room on the disk, and ask again"))
    }
}

fn append(file: &Mutex<File>, line: &Line) -> io::Result<()> {
    let text = seal(line).ok_or_else(|| io::Error::other("a line can't be written as JSON"))?;
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    let before = file.metadata()?.len();
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_data());
    if written.is_err() {
        // Half a line on a full disk: off with it, or the next one would continue it.
        file.set_len(before)?;
    }
    written
}

fn seal(line: &Line) -> Option<String> {
    serde_json::to_string(line).ok().map(|text| text + "\n")
}

/// What the file says. A line that a power loss has torn was answered to nobody.
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

/// What the database says.
async fn stored(store: &Store) -> Result<Vec<Line>, StoreError> {
    let revoked = store.revocations().await?;
    let users = store.users().await?;
    let disabled = users.into_iter().filter(|row| row.disabled);
    let disabled = disabled.map(|row| Line::Disabled {
        tenant: row.tenant,
        user: row.name,
        created_ns: row.created_ns,
    });
    Ok(revoked.iter().map(Line::revoked).chain(disabled).collect())
}

/// Puts what the database lacks back into it.
async fn restore(store: &Store, lines: impl Iterator<Item = &Line>) -> Result<(), StoreError> {
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
                    store.disable_user(tenant, user).await?;
                }
            }
        }
    }
    Ok(())
}
