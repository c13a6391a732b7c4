// SPDX-License-Identifier: Apache-2.0
//! A shell on the console for a user that knows root's password: sulogin(8), the root's own, be it
//! of util-linux or busybox. It is run where nothing else can ask a person: without a root
//! (`initramfs::rescue`), where a file system can't be repaired (`node::disk`), and where no daemon
//! comes up (`node::rescue`). What comes of its end is theirs to say.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kernel::clone::{self, Cloned};
use kernel::signal::{self, SignalSet};
use kernel::wait::{self, ExitStatus, Reap, Target};
use kernel::{Result, process, sched, tty};
use rustix::stdio::stdin;

use crate::node::Console;

/// Where the program may be; busybox has its links in `/bin`, too.
const PROGRAMS: [&str; 4] = [
    "/sbin/sulogin",
    "/usr/sbin/sulogin",
    "/bin/sulogin",
    "/usr/bin/sulogin",
];
/// The exit status where it can't be executed, as a shell has it.
const NOT_EXECUTED: u8 = 127;
/// One that ends sooner has asked no user: its console can't be read.
pub(crate) const ASKED: Duration = Duration::from_secs(1);

/// The program, where the root has one.
fn program() -> Option<&'static str> {
    let mut places = PROGRAMS.into_iter();
    places.find(|place| Path::new(place).exists())
}

/// Starts it in a session of its own, with the console as its terminal. Answers its pid.
pub(crate) fn start() -> Result<i32> {
    match clone::clone(clone::Options::default())? {
        Cloned::Child => become_it(),
        Cloned::Parent(pid, _) => Ok(pid),
    }
}

/// The same, and waits for its end. How long it was there; `None`: there is none.
pub(crate) fn run(console: &Console) -> Option<Duration> {
    if program().is_none() {
        console.say("no shell: there is no sulogin");
        return None;
    }
    let begun = Instant::now();
    match start().and_then(|pid| wait::wait(Target::Pid(pid), Reap::Yes)) {
        // A shell ends so, too, whose last command wasn't there.
        Ok(ended) => {
            let (none, lasted) = (ExitStatus::Code(NOT_EXECUTED), begun.elapsed());
            (ended.status != none || lasted >= ASKED).then_some(lasted)
        }
        Err(error) => {
            console.say(&format!("no shell: {error}"));
            None
        }
    }
}

fn become_it() -> ! {
    // It is no part of what must not end.
    let _ = sched::set_own_oom_score_adj(0);
    let _ = process::new_session();
    // Without it a shell has no job control; a console that is no terminal has none to give.
    let _ = tty::make_controlling(stdin());
    let _ = process::cloexec_from(3);
    // Signals are PID 1's own business; a shell gets those of its terminal.
    let _ = signal::reset_dispositions();
    let _ = signal::set_mask(SignalSet::EMPTY);
    let program = program().unwrap_or("sulogin");
    let error = Command::new(program)
        .env("TERM", "linux")
        .current_dir("/")
        .exec();
    Console::default().say(&format!("{program}: {error}"));
    process::exit(NOT_EXECUTED.into())
}
