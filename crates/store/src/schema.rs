// SPDX-License-Identifier: Apache-2.0
//! The database's shape, and how an older one becomes today's. Migrations only go forward; each is
//! one transaction together with the new `user_version`, so an interrupted one has not happened.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};

use super::StoreError;

/// `MIGRATIONS[n]` leads from schema `n` to `n + 1`. Never change one that was released; append.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE facts (
        key   TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE users (
        tenant     TEXT NOT NULL,
        name       TEXT NOT NULL,
        role       TEXT,
        disabled   INTEGER NOT NULL DEFAULT 0,
        created_ns INTEGER NOT NULL,
        PRIMARY KEY (tenant, name)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE grants (
        id            TEXT PRIMARY KEY,
        tenant        TEXT NOT NULL,
        user          TEXT NOT NULL,
        effect        TEXT NOT NULL CHECK (effect IN ('allow', 'deny')),
        action        TEXT NOT NULL,
        target_tenant TEXT NOT NULL,
        path          TEXT,
        created_ns    INTEGER NOT NULL,
        FOREIGN KEY (tenant, user) REFERENCES users (tenant, name)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX grants_by_user ON grants (tenant, user);

    CREATE TABLE issued (
        serial     TEXT PRIMARY KEY,
        tenant     TEXT NOT NULL,
        user       TEXT NOT NULL,
        until_ns   INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX issued_by_end ON issued (until_ns);

    CREATE TABLE revocations (
        serial     TEXT PRIMARY KEY,
        reason     TEXT NOT NULL,
        until_ns   INTEGER NOT NULL,
        created_ns INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE finished (
        uid         BLOB PRIMARY KEY CHECK (length(uid) = 16),
        tenant      TEXT NOT NULL,
        path        TEXT NOT NULL,
        kind        TEXT NOT NULL,
        finished_ns INTEGER NOT NULL,
        request_id  TEXT,
        record      BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX finished_by_path ON finished (tenant, path);
    CREATE INDEX finished_by_time ON finished (finished_ns);
    CREATE INDEX finished_by_request ON finished (tenant, request_id) WHERE request_id IS NOT NULL;
",
    "
    CREATE TABLE tenants (
        name       TEXT PRIMARY KEY,
        quotas     TEXT NOT NULL,
        created_ns INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    ALTER TABLE issued ADD COLUMN parent TEXT;
    ALTER TABLE issued ADD COLUMN issued_ns INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX issued_by_user ON issued (tenant, user);
    CREATE INDEX issued_by_parent ON issued (parent) WHERE parent IS NOT NULL;

    CREATE TABLE valid_from (
        tenant     TEXT NOT NULL,
        user       TEXT NOT NULL,
        from_ns    INTEGER NOT NULL,
        PRIMARY KEY (tenant, user)
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE sets (
        tenant     TEXT NOT NULL,
        name       TEXT NOT NULL,
        revision   INTEGER NOT NULL,
        changed_ns INTEGER NOT NULL,
        changed_by TEXT NOT NULL,
        manifest   BLOB NOT NULL,
        PRIMARY KEY (tenant, name)
    ) STRICT, WITHOUT ROWID;
",
    // No query looks for a finished run by anything but its uid; every end wrote a page of each.
    "
    DROP INDEX finished_by_path;
    DROP INDEX finished_by_time;
    DROP INDEX finished_by_request;
",
    "
    CREATE TABLE schedules (
        tenant       TEXT NOT NULL,
        name         TEXT NOT NULL,
        uid          TEXT NOT NULL,
        generation   INTEGER NOT NULL,
        owner_tenant TEXT NOT NULL,
        owner        TEXT NOT NULL,
        created_ns   INTEGER NOT NULL,
        changed_ns   INTEGER NOT NULL,
        spec         BLOB NOT NULL,
        state        BLOB NOT NULL,
        PRIMARY KEY (tenant, name)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE schedule_entries (
        tenant TEXT NOT NULL,
        name   TEXT NOT NULL,
        number INTEGER NOT NULL,
        entry  BLOB NOT NULL,
        PRIMARY KEY (tenant, name, number)
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE units (
        name  TEXT PRIMARY KEY,
        state BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE schedule_revisions (
        tenant TEXT NOT NULL,
        name   TEXT NOT NULL,
        number INTEGER NOT NULL,
        work   BLOB NOT NULL,
        PRIMARY KEY (tenant, name, number)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE schedule_configs (
        tenant       TEXT NOT NULL,
        kind         TEXT NOT NULL,
        name         TEXT NOT NULL,
        generation   INTEGER NOT NULL,
        owner_tenant TEXT NOT NULL,
        owner        TEXT NOT NULL,
        changed_ns   INTEGER NOT NULL,
        immutable    INTEGER NOT NULL,
        data         BLOB NOT NULL,
        PRIMARY KEY (tenant, kind, name)
    ) STRICT, WITHOUT ROWID;
",
];

/// The schema that this daemon writes.
pub(super) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Above this size a whole check would be felt at start; then the reader makes it while serving.
pub(super) const CHECK_AT_START_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes of a page. A row takes a page of its own, and one of the list of free ones, for what is
/// beyond a quarter of it: the record of an ordinary run is to fit.
pub(super) const PAGE: u16 = 8192;

/// Where the index of the log of writes is, which all connections share.
///
/// <https://www.sqlite.org/vfs.html#standard_unix_vfses>
#[derive(Clone, Copy)]
pub(super) enum Index {
    /// In a file beside the database: another process can read it, for a backup.
    Shared,
    /// In memory of this process, which has the database for itself meanwhile. The file of the
    /// other is made anew by each daemon, and can't be where the disk is full.
    Own,
}

impl Index {
    fn open(self, file: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
        let vfs = match self {
            Self::Shared => c"unix",
            Self::Own => c"unix-excl",
        };
        Connection::open_with_flags_and_vfs(file, flags, vfs)
    }
}

/// The writer's connection.
pub(super) fn connect(file: &Path, index: Index) -> Result<Connection, StoreError> {
    let fail = |e: rusqlite::Error| StoreError::opening(file, &e);
    private_file(file)?;
    let connection = index.open(file, OpenFlags::default()).map_err(fail)?;
    connection
        .busy_timeout(Duration::from_secs(2))
        .map_err(fail)?;
    // Checked before anything is written: a newer daemon's database stays untouched.
    version(&connection, file)?;
    // Of a new file; an older one keeps its own.
    connection
        .pragma_update(None, "page_size", PAGE)
        .map_err(fail)?;
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .map_err(fail)?;
    connection
        .pragma_update(None, "foreign_keys", true)
        .map_err(fail)?;
    // The writer does it itself, when no caller waits.
    connection
        .pragma_update(None, "wal_autocheckpoint", 0)
        .map_err(fail)?;
    small(&connection).map_err(fail)?;
    Ok(connection)
}

/// The reader's connection: can't write.
pub(super) fn connect_reader(file: &Path, index: Index) -> Result<Connection, StoreError> {
    let fail = |e: rusqlite::Error| StoreError::opening(file, &e);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = index.open(file, flags).map_err(fail)?;
    connection
        .busy_timeout(Duration::from_secs(2))
        .map_err(fail)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(fail)?;
    small(&connection).map_err(fail)?;
    Ok(connection)
}

/// A node's database is small, and so is the daemon to be: 256 KiB of pages instead of 2 MB.
fn small(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -256)?;
    connection.pragma_update(None, "journal_size_limit", 4 * 1024 * 1024)
}

/// Makes a new file 0600 from its first byte on (SQLite gives `-wal` and `-shm` the same mode).
fn private_file(file: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(file)
        .map(drop)
        .map_err(|e| StoreError::Open {
            file: file.display().to_string(),
            problem: e.to_string(),
        })
}

fn version(connection: &Connection, file: &Path) -> Result<i64, StoreError> {
    let found: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|e| StoreError::opening(file, &e))?;
    if found > newest() {
        return Err(StoreError::NewerSchema {
            file: file.display().to_string(),
            found,
            known: newest(),
        });
    }
    Ok(found)
}

/// Brings an older schema forward, a step a transaction.
pub(super) fn migrate(connection: &mut Connection, file: &Path) -> Result<(), StoreError> {
    let found = version(connection, file)?;
    let done = usize::try_from(found).unwrap_or(0);
    let fail = |e: rusqlite::Error| StoreError::opening(file, &e);
    for (step, sql) in (1_i64..).zip(MIGRATIONS).skip(done) {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(fail)?;
        transaction.execute_batch(sql).map_err(fail)?;
        transaction
            .pragma_update(None, "user_version", step)
            .map_err(fail)?;
        transaction.commit().map_err(fail)?;
        tracing::info!(file = %file.display(), schema = step, "the database was migrated");
    }
    Ok(())
}

/// Looks for corruption; a large file is checked later, see [`CHECK_AT_START_BYTES`].
pub(super) fn check(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    let large = std::fs::metadata(file).is_ok_and(|m| m.len() > CHECK_AT_START_BYTES);
    if large {
        return Ok(());
    }
    match quick_check(connection) {
        Ok(None) => Ok(()),
        Ok(Some(detail)) => Err(StoreError::Corrupt {
            file: file.display().to_string(),
            detail,
        }),
        Err(e) => Err(StoreError::opening(file, &e)),
    }
}

/// The first thing that is wrong with the file, if any.
pub(super) fn quick_check(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let verdict: Option<String> = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .optional()?;
    Ok(verdict.filter(|v| v != "ok"))
}

/// A write that reaches the disk, and changes nothing that is ever read.
pub(super) fn probe(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute(
        "INSERT INTO facts (key, value) VALUES ('probe', '1')
         ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1",
        [],
    )?;
    Ok(())
}
