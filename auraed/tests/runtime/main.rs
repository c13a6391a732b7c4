// SPDX-License-Identifier: Apache-2.0
//! Stories of the runtime on this host's own kernel, as root, with real inits: cells, executables,
//! their ends, and daemons that are killed at any moment.
//!
//! The binary plays every role. With the arguments of a test it tells the stories; `init DIR` is
//! node-init, which starts the spawner from it and `serve DIR`, the daemon, which obeys what the
//! stories ask over a socket.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a test binary without the test harness: what fails here is a failed story, and a story may be long"
)]

mod again;
mod aged;
mod chaos;
mod client;
mod groups;
mod held;
mod host;
mod killed;
mod liars;
mod serve;
mod slow;
mod stories;
mod updates;

use std::process::ExitCode;

fn main() -> ExitCode {
    init::be_spawner_if_named();
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["init", dir] => host::be_init(dir),
        ["serve", dir, "--init-fd", fd] => serve::run(dir, fd),
        _ => return stories::tell(),
    }
    ExitCode::SUCCESS
}
