// SPDX-License-Identifier: Apache-2.0
//! Tries a step again that failed for lack of memory, space or descriptors: it may work a moment
//! later, and a boot has no second chance.
//!
//! Only for the steps that are done once, before the loops. In the loops of the inits a failure is
//! answered, and nothing waits.

use kernel::Result;
use rustix::event::Timespec;
use rustix::io::Errno;

/// The pause between two attempts.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// How often [`again`] tries.
const ATTEMPTS: u32 = 4;

/// The errors that may pass by themselves.
const PASSING: [Errno; 6] = [
    Errno::NOMEM,
    Errno::NOSPC,
    Errno::MFILE,
    Errno::NFILE,
    Errno::AGAIN,
    Errno::INTR,
];

/// Tries up to four times, as long as it fails for lack of memory, space or descriptors.
///
/// # Errors
/// That of the last attempt: the fourth, or the first with a cause that doesn't pass by itself.
pub(crate) fn again<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if PASSING.contains(&Errno::from_raw_os_error(error.errno())) => {}
            result => return result,
        }
        pause();
    }
    attempt()
}

/// Tries until it works: for steps that PID 1 can't do without. `say` gets the first failure.
///
/// # Errors
/// The first attempt's, where this isn't PID 1: it may end, and its parent gets the error.
pub(crate) fn insist<T>(
    mut say: impl FnMut(&str),
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let mut said = false;
    loop {
        match attempt() {
            Err(error) if kernel::process::id() == 1 => {
                if !std::mem::replace(&mut said, true) {
                    say(&format!("{error}; init needs this, and tries again"));
                }
                pause();
            }
            result => return result,
        }
    }
}

/// Not the standard library's sleep, which panics where the kernel refuses.
fn pause() {
    let _ = rustix::thread::nanosleep(&PAUSE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Error;

    #[test]
    fn what_passes_is_tried_again_and_what_does_not_is_told_at_once() {
        let mut attempts = 0;
        let result = again(|| {
            attempts += 1;
            match attempts {
                3 => Ok("there"),
                _ => Err(Error::new("mmap", Errno::NOMEM)),
            }
        });
        assert_eq!((result, attempts), (Ok("there"), 3));
        let mut attempts = 0;
        let result: Result<()> = again(|| {
            attempts += 1;
            Err(Error::new("mount", Errno::NODEV))
        });
        assert_eq!((result.unwrap_err().errno(), attempts), (19, 1));
        let result: Result<()> = again(|| Err(Error::new("mount", Errno::NOSPC)));
        assert_eq!(result.unwrap_err().errno(), 28);
    }
}
