// SPDX-License-Identifier: Apache-2.0
//! Skips a test that this machine can't run, or fails it where skipping isn't allowed. Called by
//! the tests of any crate.

/// Says that a test is left out, and why: without root, say, or without a tool.
///
/// # Panics
/// With `AURAE_NO_SKIP` in the environment, which `./x test` sets where it is root's: nothing is to
/// pass there that was never run.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("AURAE_NO_SKIP").is_none(),
        "a test would have been left out: {why}"
    );
    println!("skipped: {why}");
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether the test runs as root; it is left out otherwise, and `why` says what needs root. A
/// binary with a `main` of its own asks [`crate::stories::by_root`].
///
/// # Panics
/// As [`skip`].
pub fn needs_root(why: &str) -> bool {
    let root = is_root();
    if !root {
        skip(why);
    }
    root
}
