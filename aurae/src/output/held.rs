// SPDX-License-Identifier: Apache-2.0
//! Output that is held until the command ends, as the buffer of C's stdio does it for a pipe. A
//! reader that leaves after its line (`systemctl … | grep -q`) then breaks no pipe of a command
//! that still writes, which under `pipefail` would be a failure.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is held at most, in bytes: as much as a pipe takes.
const MOST: usize = 64 << 10;

/// `None`: nothing is held, each print goes out at once.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Vec<u8>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on output is held, unless a person sees it come.
pub(crate) fn hold() {
    if !io::stdout().is_terminal() {
        *lock() = Some(Vec::new());
    }
}

/// Takes bytes where output is held; false: they are to be written.
pub(super) fn keep(bytes: &[u8]) -> io::Result<bool> {
    let mut held = lock();
    let Some(all) = held.as_mut() else {
        return Ok(false);
    };
    all.extend_from_slice(bytes);
    if all.len() >= MOST {
        write(&std::mem::take(all))?;
    }
    Ok(true)
}

/// Writes what is held; later prints go out at once. A reader that has gone has seen what it
/// wanted.
pub(crate) fn release() {
    if let Some(all) = lock().take() {
        let _ = write(&all);
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
