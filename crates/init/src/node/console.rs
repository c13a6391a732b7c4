// SPDX-License-Identifier: Apache-2.0
//! Writes node-init's messages: to standard error, and as PID 1 of a machine to the kernel's log
//! too.
//!
//! A line is written at once or dropped: a console that doesn't take it must not block init.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec};

/// The node-init's own lines.
#[derive(Default)]
pub(crate) struct Console {
    kmsg: Option<File>,
}

impl Console {
    /// With the kernel's log, if it can be opened.
    pub(crate) fn of_machine() -> Console {
        let open = std::fs::OpenOptions::new().write(true).open("/dev/kmsg");
        Console { kmsg: open.ok() }
    }

    /// Writes one line, or drops it where the console doesn't take it.
    pub(crate) fn say(&self, line: &str) {
        if let Some(mut kmsg) = self.kmsg.as_ref() {
            // Priority 30: daemon, informational. The kernel puts it on its console by its own
            // level. Each write is a record: formatted in place, a line would be several.
            let _ = kmsg.write_all(format!("<30>auraed: {line}\n").as_bytes());
        }
        let stderr = rustix::stdio::stderr();
        let mut ready = [PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::OUT)];
        if rustix::event::poll(&mut ready, Some(&Timespec::default())) == Ok(1) {
            let _ = rustix::io::write(stderr, format!("auraed: {line}\n").as_bytes());
        }
    }
}
