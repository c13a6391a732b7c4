// SPDX-License-Identifier: Apache-2.0
//! Stories on the running kernel, as root: clones, namespaces, mounts, groups.
//!
//! No default harness, because that one has threads and `clone` refuses them. Each story runs in a
//! process of its own (a clone of this one), so it may leave its namespaces, credentials and root
//! behind. `cargo test -p kernel --test host -- WORD` runs those whose name contains WORD, `--list`
//! lists all.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "tests"
)]

mod cgroups;
mod clones;
mod devices;
mod filters;
mod limits;
mod mounts;
mod oom_wait;
mod privileges;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use kernel::clone::{Cloned, Options, clone};
use kernel::wait::{Exit, ExitStatus, Reap, Target, wait};
use testkit::stories::Told;

#[global_allocator]
static ALLOCATOR: kernel::oom_wait::WaitForMemory = kernel::oom_wait::WaitForMemory;

/// The exit code of a story that this machine can't tell; it has printed why.
const IGNORED: i32 = 77;

type Story = (&'static str, fn());

/// Runs `body` in a clone and waits for its end. A panic there is exit code 101.
fn in_clone(options: Options<'_>, body: impl FnOnce()) -> Exit {
    match clone(options).unwrap() {
        Cloned::Child => kernel::process::exit(run(body)),
        Cloned::Parent(pid, _pidfd) => wait(Target::Pid(pid), Reap::Yes).unwrap(),
    }
}

fn run(body: impl FnOnce()) -> i32 {
    if catch_unwind(AssertUnwindSafe(body)).is_ok() {
        0
    } else {
        101
    }
}

/// Like `in_clone`, and the child must have ended well.
fn ok_in_clone(options: Options<'_>, body: impl FnOnce()) {
    assert_eq!(in_clone(options, body).status, ExitStatus::Code(0));
}

fn main() -> ExitCode {
    let root = || testkit::stories::by_root("host stories need root");
    let groups: &[&[Story]] = &[
        clones::STORIES,
        cgroups::STORIES,
        mounts::STORIES,
        privileges::STORIES,
        devices::STORIES,
        filters::STORIES,
        limits::STORIES,
        oom_wait::STORIES,
    ];
    testkit::stories::run(&groups.concat(), root, |_, story| {
        match in_clone(Options::default(), story).status {
            ExitStatus::Code(0) => Told::Passed,
            ExitStatus::Code(code) if i32::from(code) == IGNORED => Told::Ignored,
            _ => Told::Failed,
        }
    })
}
