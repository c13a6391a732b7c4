// SPDX-License-Identifier: Apache-2.0
//! A process that waits for memory goes on when there is some.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use kernel::clone::{Cloned, Options, clone};
use kernel::oom_wait::wait_for_memory;
use kernel::poll::{self, Deadline, Interest};
use kernel::rlimit::{self, Limit, Resource};
use kernel::wait::{ExitStatus, Reap, Target, wait};
use kernel::{pipe, process};
use rustix::process::{Pid, Rlimit, prlimit};

use crate::Story;

pub(crate) const STORIES: &[Story] = &[(
    "who_waits_for_memory_goes_on_when_there_is_some",
    who_waits_for_memory_goes_on_when_there_is_some,
)];

/// Far more than a process has left after [`use_up`].
const MUCH: usize = 32 << 20;

/// Nothing more is to be had than the allocator holds already, and a little.
fn use_up() {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let space: Resource = "AS".parse().unwrap();
    let soft = pages * 4096 + (1 << 20);
    let hard = rlimit::get(space).unwrap().hard;
    rlimit::set(space, Limit { soft, hard }).unwrap();
}

/// A process without memory that wants much, and the end of its stderr.
fn in_want(waits: bool) -> (i32, File) {
    let (reader, writer) = pipe::pipe().unwrap();
    match clone(Options::default()).unwrap() {
        Cloned::Child => {
            process::place_fd(writer.as_fd(), 2).unwrap();
            use_up();
            if waits {
                wait_for_memory();
            }
            let much = vec![1_u8; MUCH];
            process::exit(i32::from(much[MUCH - 1]) + 6);
        }
        Cloned::Parent(pid, _) => (pid, File::from(reader)),
    }
}

fn who_waits_for_memory_goes_on_when_there_is_some() {
    let (pid, _silent) = in_want(false);
    let aborted = wait(Target::Pid(pid), Reap::Yes).unwrap().status;
    assert!(
        matches!(aborted, ExitStatus::Signal { signal: 6, .. }),
        "{aborted:?}"
    );
    let (pid, mut said) = in_want(true);
    let soon = Deadline::after(std::time::Duration::from_secs(10));
    assert!(poll::wait(&said, Interest::Readable, soon).unwrap());
    let mut line = [0; 256];
    let length = said.read(&mut line).unwrap();
    let line = String::from_utf8_lossy(&line[..length]);
    assert!(line.contains("no memory is left"), "{line}");
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    prlimit(Pid::from_raw(pid), rustix::process::Resource::As, unlimited).unwrap();
    let ended = wait(Target::Pid(pid), Reap::Yes).unwrap().status;
    assert_eq!(ended, ExitStatus::Code(7));
}
