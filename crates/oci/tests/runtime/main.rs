// SPDX-License-Identifier: Apache-2.0
//! x
fn main() -> std::process::ExitCode {
    let all: Vec<_> = std::env::args_os().collect();
    match oci::words(&all) {
        Some(words) => oci::main(&all, &words),
        None => std::process::ExitCode::SUCCESS,
    }
}
