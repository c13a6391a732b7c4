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

mod adopted;
mod bed;
mod boots;
mod containers;
mod crashes;
mod creation;
mod escapes;
mod faults;
mod figures;
mod hostile;
mod images;
mod kept;
mod light;
mod listeners;
mod machine;
mod nesting;
mod records;
mod root;
mod workloads;
mod wrong;

use std::process::ExitCode;

use testkit::stories::Told;

#[global_allocator]
static ALLOCATOR: kernel::oom_wait::WaitForMemory = kernel::oom_wait::WaitForMemory;

type Story = (&'static str, fn());

fn stories() -> Vec<Story> {
    [
        workloads::STORIES,
        records::STORIES,
        nesting::STORIES,
        escapes::STORIES,
        root::STORIES,
        crashes::STORIES,
        creation::STORIES,
        containers::STORIES,
        hostile::STORIES,
        faults::STORIES,
        light::STORIES,
        listeners::STORIES,
        adopted::STORIES,
        kept::STORIES,
        boots::STORIES,
        machine::STORIES,
        wrong::STORIES,
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
        _ => return run(),
    }
    ExitCode::SUCCESS
}

fn run() -> ExitCode {
    let root = || testkit::stories::by_root("cells can be made by root alone");
    testkit::stories::run(&stories(), root, |_, story| Told::by(story))
}
