// SPDX-License-Identifier: Apache-2.0
//! What can go wrong with the database, and how SQLite's codes are sorted into it.

use std::path::Path;

use model::error::{Error, Reason};
use rusqlite::ErrorCode;

/// A failure of the store. `Clone`, because one failed commit answers a whole batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file can't be opened or written at start.
    #[error("the database {file} can't be used: {problem}")]
    Open {
        /// Which file.
        file: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The file is not a database, or a broken one.
    #[error(
        "the database {file} is corrupt ({detail}); move it away and start again: workloads and \
         the node's CA stay, users, grants and the records of finished runs are lost"
    )]
    Corrupt {
        /// Which file.
        file: String,
        /// What SQLite says.
        detail: String,
    },
    /// A newer daemon has written it.
    #[error(
        "the database {file} has schema {found}, this daemon knows up to {known}: start the newer \
         daemon again, or restore the database of before the upgrade"
    )]
    NewerSchema {
        /// Which file.
        file: String,
        /// `user_version` in the file.
        found: i64,
        /// The newest that this daemon knows.
        known: i64,
    },
    /// Writing doesn't work now; reads do.
    #[error("the node's store is degraded: {reason}")]
    Degraded {
        /// In words.
        reason: String,
    },
    /// A statement failed in a way that the disk isn't to blame for.
    #[error("a statement of the store failed: {detail}")]
    Statement {
        /// What SQLite says.
        detail: String,
    },
    /// The store's thread has ended: the daemon is shutting down.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Sorts an error that came while opening.
    pub(super) fn opening(file: &Path, error: &rusqlite::Error) -> Self {
        let file = file.display().to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Corrupt {
                file,
                detail: error.to_string(),
            },
            Some(ErrorCode::DiskFull) => Self::Open {
                file,
                problem: "the disk is full; free some space and start again".to_owned(),
            },
            Some(ErrorCode::ReadOnly) => Self::Open {
                file,
                problem: "it is read-only; mount the state directory writable".to_owned(),
            },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Open {
                file,
                problem: "another process has it locked".to_owned(),
            },
            _ => Self::Open {
                file,
                problem: error.to_string(),
            },
        }
    }

    /// Whether it says that the disk has no room left; then in words.
    pub(super) fn no_room(error: &rusqlite::Error, file: &Path) -> Option<String> {
        let full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
        full.then(|| Self::broken(error, file)).flatten()
    }

    /// Whether this SQLite error says that the disk or the file is to blame, rather than the
    /// statement; then in words.
    pub(super) fn broken(error: &rusqlite::Error, file: &Path) -> Option<String> {
        let what = match error.sqlite_error_code()? {
            ErrorCode::DiskFull => "the disk is full",
            ErrorCode::SystemIoFailure => "the disk fails",
            ErrorCode::ReadOnly => "the file is read-only",
            ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => "the file is corrupt",
            ErrorCode::CannotOpen => "a file can't be opened",
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => "another process has it locked",
            _ => return None,
        };
        Some(format!("{}: {what} ({error})", file.display()))
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::Degraded { .. } => Error::new(Reason::Degraded, text),
            StoreError::Closed => Error::new(Reason::ShuttingDown, "the node shuts down"),
            _ => Error::internal(text),
        }
    }
}
