// SPDX-License-Identifier: Apache-2.0
//! The inits on a real kernel: node-init as a service, real cells, real executables. Needs root.
//!
//! The binary is its own cast: executed again it is node-init (`init`), the daemon that node-init
//! starts (`serve`), the spawner (by `argv[0]`) and a workload that tries things (`workload`). So
//! it has a `main` of its own, and runs its stories one after the other: `cargo test -p init --test
//! inits [NAME]`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails says so by panicking"
)]

mod bed;
mod boots;
mod crashes;
mod creation;
mod escapes;
mod faults;
mod figures;
mod machine;
mod nesting;
mod root;
mod workloads;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: kernel::oom_wait::Patient = kernel::oom_wait::Patient;

type Story = (&'static str, fn());

fn stories() -> Vec<Story> {
    [
        workloads::STORIES,
        nesting::STORIES,
        escapes::STORIES,
        root::STORIES,
        crashes::STORIES,
        creation::STORIES,
        faults::STORIES,
        boots::STORIES,
        machine::STORIES,
    ]
    .concat()
}

fn main() -> ExitCode {
    init::be_spawner_if_named();
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next();
    if std::process::id() == 1 {
        match first.as_deref() {
            Some("boxed") => boots::be_boxed(arguments.collect()),
            _ => machine::be_init(),
        }
    }
    match first.as_deref() {
        Some("init") => bed::be_init(arguments.collect()),
        Some("serve") => bed::be_daemon(arguments.collect()),
        Some("serve-boxed") => boots::be_daemon(arguments.collect()),
        Some("serve-machine") => machine::be_daemon(arguments.collect()),
        Some("workload") => escapes::be_workload(arguments.collect()),
        Some("--figures") => figures::measure(),
        filter => return run(filter.filter(|word| !word.starts_with('-'))),
    }
    ExitCode::SUCCESS
}

fn run(filter: Option<&str>) -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        testkit::skip("cells can be made by root alone");
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, story) in stories() {
        if filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let start = std::time::Instant::now();
        let passed = std::panic::catch_unwind(story).is_ok();
        let word = if passed { "ok" } else { "FAILED" };
        println!(
            "story {name} ... {word} ({} ms)",
            start.elapsed().as_millis()
        );
        failed += u32::from(!passed);
    }
    println!("{failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
