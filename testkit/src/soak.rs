// SPDX-License-Identifier: Apache-2.0
//! The length of tests that search: a fault at every call, kills at any moment. Called by such
//! tests.

/// Set by `./x soak`.
const SOAK: &str = "AURAE_SOAK";

/// `short` in ordinary runs, which shows that the search works and finds what is common; `full`
/// under `./x soak`.
pub fn how_much<T>(short: T, full: T) -> T {
    match std::env::var_os(SOAK) {
        Some(_) => full,
        None => short,
    }
}
