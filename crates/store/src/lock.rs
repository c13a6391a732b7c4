// SPDX-License-Identifier: Apache-2.0
//! One daemon per state directory: a `flock` on `STATE_DIR/lock`, which the kernel drops with its
//! holder, however that dies. The file also says who holds it, for the message to a second one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Why the state directory can't be ours.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another daemon has it.
    #[error(
        "the state directory {dir} is in use by {holder}; stop that daemon, or give this one \
         another (--state-dir, paths.state)"
    )]
    Held {
        /// Which directory.
        dir: PathBuf,
        /// `pid N, started at T`.
        holder: String,
    },
    /// The lock file can't be used.
    #[error("the lock file {file} can't be used")]
    Io {
        /// Which file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// The right to use a state directory; given back when dropped.
#[derive(Debug)]
pub struct StateLock {
    // Held open for the lock that hangs on it.
    _file: File,
}

impl StateLock {
    /// Takes the lock without waiting. `state_dir` must exist.
    ///
    /// # Errors
    /// [`LockError::Held`] names the pid and the start time of who has it.
    pub fn acquire(state_dir: &Path) -> Result<Self, LockError> {
        let path = state_dir.join("lock");
        let fail = |source| LockError::Io {
            file: path.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held {
                    dir: state_dir.to_owned(),
                    holder: holder(&mut file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        }
        if let Err(source) = sign(&mut file) {
            // A full disk must not keep a node from starting: the lock itself holds.
            let file = path.display();
            tracing::warn!(%file, "the lock file can't say who holds it: {source}");
        }
        Ok(Self { _file: file })
    }
}

fn sign(file: &mut File) -> io::Result<()> {
    let text = format!(
        "pid {}, started at {:.0}\n",
        std::process::id(),
        jiff::Timestamp::now()
    );
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(256).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "another process (the lock file doesn't say which)".to_owned(),
    }
}
