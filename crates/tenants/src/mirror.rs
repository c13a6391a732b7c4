// SPDX-License-Identifier: Apache-2.0
//! `tenants.json` in the state directory: the rows of the database's table once more, so that a
//! lost or replaced database loosens no tenant's quotas. Replaced as a whole at each change.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use model::error::Error;
use serde::{Deserialize, Serialize};
use store::TenantRow;

/// The largest file that is read: 4,096 tenants with every quota set take about 2 MiB.
const MAX_BYTES: u64 = 8 << 20;

#[derive(Serialize, Deserialize)]
struct Row {
    name: String,
    quotas: String,
    created_ns: i64,
}

/// The file.
pub(super) struct Mirror(PathBuf);

impl Mirror {
    pub(super) fn at(state_dir: &Path) -> Self {
        Self(state_dir.join("tenants.json"))
    }

    /// What it holds; nothing where it isn't there.
    pub(super) fn read(&self) -> Result<Vec<TenantRow>, Error> {
        let bytes = match fs::metadata(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed("can't be read", &error)),
            Ok(meta) if meta.len() > MAX_BYTES => {
                return Err(Error::internal(format!(
                    "{} is too large",
                    self.0.display()
                )));
            }
            Ok(_) => fs::read(&self.0).map_err(|e| self.failed("can't be read", &e))?,
        };
        let rows: Vec<Row> = serde_json::from_slice(&bytes).map_err(|e| {
            let path = self.0.display();
            Error::internal(format!("{path} is damaged ({e})"))
                .hint("move it away to start with the default quotas")
        })?;
        let row = |row: Row| TenantRow {
            name: row.name,
            quotas: row.quotas,
            created_ns: row.created_ns,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Writes it anew, where it is damaged or says anything else than `rows`, which hold. A disk
    /// that refuses is on record: the next change, or the next start, tries again.
    pub(super) fn follow(&self, rows: &[TenantRow]) {
        let written = match self.read() {
            Ok(kept) if kept == rows => return,
            Ok(_) => self.write(rows.to_vec()),
            Err(error) => {
                tracing::warn!(%error, "the quotas of the database hold");
                self.write(rows.to_vec())
            }
        };
        if let Err(error) = written {
            tracing::error!(%error, "a lost database would lose quotas");
        }
    }

    /// Replaces it; readers and a crash see the old or the new one.
    pub(super) fn write(&self, rows: Vec<TenantRow>) -> Result<(), Error> {
        let row = |row: TenantRow| Row {
            name: row.name,
            quotas: row.quotas,
            created_ns: row.created_ns,
        };
        let rows: Vec<Row> = rows.into_iter().map(row).collect();
        let bytes = serde_json::to_vec_pretty(&rows)
            .map_err(|e| Error::internal(format!("tenants.json: {e}")))?;
        self.replace(&bytes)
            .map_err(|e| self.failed("can't be written", &e))
    }

    fn replace(&self, bytes: &[u8]) -> std::io::Result<()> {
        let new = self.0.with_extension("json.new");
        Self::write_new(&new, bytes).inspect_err(|_| {
            // A part of a file takes room on a disk that has none.
            let _ = fs::remove_file(&new);
        })?;
        fs::rename(&new, &self.0)?;
        match self.0.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    fn write_new(new: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(new)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn failed(&self, what: &str, error: &std::io::Error) -> Error {
        let failed = Error::internal(format!("{} {what}: {error}", self.0.display()));
        match error.raw_os_error() {
            Some(errno) => failed.errno(errno),
            None => failed,
        }
    }
}
