// SPDX-License-Identifier: Apache-2.0
//! Looks again until something is so, for what sends no event. Called by the tests of any crate.

use std::time::{Duration, Instant};

/// Longer than anything takes that a test waits for, on a slow machine, too.
const LIMIT: Duration = Duration::from_secs(60);
/// The first pause; each one is twice as long as the last, up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(20);

/// Waits until it is so.
///
/// # Panics
/// Where it isn't within 60 s; `what` says what it was.
#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    soon(what, || so().then_some(()));
}

/// Waits until there is something, which is returned.
///
/// # Panics
/// As [`until`].
#[track_caller]
pub fn soon<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    let mut pause = FIRST;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        // There is no event: a test asks what only answers, files of the kernel for one.
        std::thread::sleep(pause);
        pause = LONGEST.min(pause * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_again() {
        let mut looks = 0;
        until("the third look", || {
            looks += 1;
            looks == 3
        });
        let found = soon("the fifth look", || {
            looks += 1;
            (looks == 5).then_some(looks)
        });
        assert_eq!(found, 5);
    }
}
