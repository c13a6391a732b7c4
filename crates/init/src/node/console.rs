// SPDX-License-Identifier: Apache-2.0
//! Writes node-init's messages: to standard error, and as PID 1 of a machine to the kernel's log
//! too.
//!
//! A line is written at once or dropped: a console that doesn't take it must not block init. In the
//! initramfs there is nothing to block, and it gets a moment; so do the few lines that people were
//! promised ([`Console::promise`]).

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

/// How long a line that was promised may take on a busy machine.
const PROMISED: Duration = Duration::from_millis(250);

/// The node-init's own lines.
#[derive(Default)]
pub(crate) struct Console {
    kmsg: Option<File>,
    /// How long one that takes nothing now is waited for.
    timeout: Duration,
}

impl Console {
    /// With the kernel's log, if it can be opened.
    pub(crate) fn of_machine() -> Console {
        let open = std::fs::OpenOptions::new().write(true).open("/dev/kmsg");
        Console {
            kmsg: open.ok(),
            timeout: Duration::ZERO,
        }
    }

    /// For where nothing runs yet that could be held up: a slow line gets every word.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Writes one line, or drops it where the console doesn't take it.
    pub(crate) fn say(&self, line: &str) {
        self.say_within(line, self.timeout);
    }

    /// The same, of which a console that is busy is no reason to drop it: the bound of a shutdown,
    /// and its end.
    pub(crate) fn promise(&self, line: &str) {
        self.say_within(line, self.timeout.max(PROMISED));
    }

    fn say_within(&self, line: &str, timeout: Duration) {
        if let Some(mut kmsg) = self.kmsg.as_ref() {
            // Priority 30: daemon, informational. The kernel puts it on its console by its own
            // level. Each write is a record: formatted in place, a line would be several.
            let _ = kmsg.write_all(format!("<30>auraed: {line}\n").as_bytes());
        }
        let stderr = rustix::stdio::stderr();
        let timeout = Timespec::try_from(timeout).unwrap_or_default();
        let mut ready = [PollFd::from_borrowed_fd(stderr.as_fd(), PollFlags::OUT)];
        if rustix::event::poll(&mut ready, Some(&timeout)) == Ok(1) {
            let _ = rustix::io::write(stderr, format!("auraed: {line}\n").as_bytes());
        }
    }
}
