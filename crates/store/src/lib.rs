// SPDX-License-Identifier: Apache-2.0
//! The node's database: identity facts, tenants, users, grants, revocations, sets,
//! schedules, finished runs.
//! SQLite in WAL mode, one file under the state directory.
//!
//! It is not the truth about what runs (the kernel and the inits hold that): deleting the database
//! loses no workload. It knows no policy either; `identity` and `runtime` call the typed functions
//! of this folder, and no SQL exists outside it.
//!
//! ```text
//!  caller ── bounded queue ──> writer thread ── one transaction per batch ──> aurae.db
//!  caller ── bounded queue ──> reader thread ── snapshots of committed state ─────┘
//! ```
//!
//! A failing disk makes the store *degraded* ([`Health`]): reads go on, writes answer
//! [`StoreError::Degraded`], and a probe each second finds out when writing works again.

mod clock;
mod error;
mod facts;
#[cfg(test)]
mod fault_tests;
mod finished;
mod grants;
mod health;
mod issued;
mod lock;
mod revocations;
mod schedule_configs;
mod schedules;
mod schema;
mod sets;
mod tenants;
#[cfg(test)]
mod tests;
mod units;
mod users;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

pub use clock::now_ns;
pub use error::StoreError;
pub use facts::NodeFacts;
pub use finished::Finished;
pub use grants::{GrantEffect, GrantRow};
pub use health::Health;
pub use issued::{IssuedRow, MAX_CERTIFICATES};
pub use lock::{LockError, StateLock};
pub use revocations::RevocationRow;
pub use schedule_configs::ConfigRow;
pub use schedules::{ScheduleEntry, ScheduleRow};
pub use sets::{MAX_SETS_PER_TENANT, SetRow, SetWritten};
pub use tenants::TenantRow;
pub use users::{Role, UserRow};

use schema::Index;
use worker::{Reader, Turn, Writer};

/// The database's file name in the state directory.
pub const FILE: &str = "aurae.db";

/// How much of a power loss a write survives. `kill -9` of the daemon loses no answered write of
/// either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Durability {
    /// Answered after the disk has it.
    Disk,
    /// Answered after the kernel has it; a power loss may take the last moments, in order.
    Kernel,
}

/// A handle to the database; cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    writer: Arc<Writer>,
    reader: Arc<Reader>,
    health: Health,
    file: Arc<Path>,
}

impl Store {
    /// Opens or creates `STATE_DIR/aurae.db`, migrates it forward and proves that it can be
    /// written. Where all that is wrong is that the disk has no room, it is opened as degraded: a
    /// node that doesn't come up is one on which no room can be made.
    ///
    /// Blocks; call it before serving.
    ///
    /// # Errors
    /// A file that is corrupt, of a newer schema, not writable, or a disk that is too full to make
    /// or migrate one: each named with the file and what to do about it.
    pub fn open(state_dir: &Path) -> Result<Self, StoreError> {
        let file: PathBuf = state_dir.join(FILE);
        let (mut connection, index) = match schema::connect(&file, Index::Shared) {
            Ok(connection) => (connection, Index::Shared),
            // Maybe for want of room; anything else is said now, too.
            Err(StoreError::Open { .. }) => (schema::connect(&file, Index::Own)?, Index::Own),
            Err(other) => return Err(other),
        };
        schema::migrate(&mut connection, &file)?;
        schema::check(&connection, &file)?;
        let health = Health::new("store");
        if let Err(error) = schema::probe(&connection) {
            let reason = StoreError::no_room(&error, &file);
            health.fail(&reason.ok_or_else(|| StoreError::opening(&file, &error))?);
        }
        let reading = schema::connect_reader(&file, index)?;
        let writer = Writer::start(connection, file.clone(), health.clone())?;
        let reader = Reader::start(reading, file.clone(), health.clone())?;
        Ok(Self {
            writer: Arc::new(writer),
            reader: Arc::new(reader),
            health,
            file: file.into(),
        })
    }

    /// Whether writing works, and if not, why, in words.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The database's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    async fn write<T, F>(&self, durability: Durability, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.writer.run(durability, Turn::Now, job).await
    }

    /// With the next write that can't wait, and within a second.
    async fn write_later<T, F>(&self, durability: Durability, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.writer.run(durability, Turn::Later, job).await
    }

    async fn read<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.reader.run(job).await
    }
}
