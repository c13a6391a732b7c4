// SPDX-License-Identifier: Apache-2.0
//! The two processes that node-init executes and keeps alive: the daemon and the spawner.

use std::ffi::{CString, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use kernel::clone::{self, Cloned};
use kernel::exec::{self, Prepared};
use kernel::rlimit::{self, Limit, Resource};
use kernel::seqpacket::{self, Mode};
use kernel::signal::{self, Signal, SignalSet};
use kernel::{Result, process, sched};

use crate::link::Link;
use crate::poll::Interest;

/// The socket's number in the child.
pub(super) const CHILD_SOCKET: i32 = 3;
/// The first delay between two starts, after one that comes at once.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause before a restart.
const LONGEST: Duration = Duration::from_secs(5);

/// When to start the next one.
#[derive(Debug)]
pub(super) struct BackOff {
    next: Duration,
}

impl BackOff {
    pub(super) const NEW: BackOff = BackOff {
        next: Duration::ZERO,
    };

    /// How long to wait now; the next time it is longer: 0, 100 ms, 200 ms and so on to 5 s.
    pub(super) fn step(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).clamp(FIRST, LONGEST);
        now
    }
}

/// A process that was started, and the conversation with it.
pub(super) struct Child {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    pub(super) link: Link,
    pub(super) interest: Interest,
    /// The conversation is over; the process is still to be reaped.
    pub(super) closed: bool,
}

/// A program that node-init executes, with its arguments, cgroup and OOM score.
pub(super) struct Recipe<'a> {
    pub(super) program: &'a Path,
    /// It is executed from where its file can't be written by what it clones.
    pub(super) unwritable: bool,
    pub(super) argv: Vec<OsString>,
    pub(super) cgroup: Option<BorrowedFd<'a>>,
    /// It is in node-init's process group, which outlives it: what the kernel knows by the group
    /// (autofs) is the next daemon's, too.
    pub(super) in_our_group: bool,
    /// It ends with node-init, by `SIGKILL`.
    pub(super) dies_with_us: bool,
    pub(super) oom_score_adj: Option<i16>,
    /// The limit of descriptors that node-init itself was started with.
    pub(super) descriptors: Option<Limit>,
}

/// Starts it, with one end of a socket pair at [`CHILD_SOCKET`].
pub(super) fn start(recipe: &Recipe<'_>) -> Result<Child> {
    let (ours, theirs) = seqpacket::pair(Mode::Nonblocking)?;
    seqpacket::pass_credentials(&ours)?;
    // Every cell of a node in one packet.
    let _ = seqpacket::reserve_send_buffer(&ours, crate::protocol::MAX_PACKET);
    let _ = seqpacket::reserve_send_buffer(&theirs, crate::protocol::MAX_PACKET);
    let argv: Vec<&[u8]> = recipe.argv.iter().map(|word| word.as_bytes()).collect();
    let env: Vec<Vec<u8>> = std::env::vars_os()
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    let prepared = Prepared::new(&argv, &env)?;
    let program = CString::new(recipe.program.as_os_str().as_bytes())
        .map_err(|_| kernel::Error::invalid("execve", "NUL in the program's path"))?;
    // Out of the way of the socket.
    let file = match recipe.unwritable {
        true => {
            let file = exec::unwritable(recipe.program)?;
            Some(process::duplicate_above(file.as_fd(), CHILD_SOCKET + 1)?)
        }
        false => None,
    };
    let us = process::id();
    let options = clone::Options {
        cgroup: recipe.cgroup,
        ..Default::default()
    };
    match clone::clone(options)? {
        Cloned::Child => {
            let execute = || match &file {
                Some(file) => prepared.exec_fd(file.as_fd()),
                None => prepared.exec(&program),
            };
            let error = match become_child(recipe, &theirs, us).and_then(|()| execute()) {
                Err(error) => error,
                Ok(never) => match never {},
            };
            super::console::Console::default()
                .say(&format!("{}: {error}", program.to_string_lossy()));
            process::exit(127)
        }
        Cloned::Parent(pid, pidfd) => Ok(Child {
            pid,
            pidfd,
            link: Link::new(ours),
            interest: Interest::READ,
            closed: false,
        }),
    }
}

fn become_child(recipe: &Recipe<'_>, socket: &OwnedFd, parent: i32) -> Result<()> {
    if !recipe.in_our_group {
        process::new_session()?;
    }
    if recipe.dies_with_us {
        process::set_parent_death_signal(Some(Signal::KILL))?;
        if process::parent_id() != parent {
            process::exit(1)
        }
    }
    if let Some(value) = recipe.oom_score_adj {
        // Not permitted in a container: then it stays as it is.
        let _ = sched::set_own_oom_score_adj(value);
    }
    if let Some(limit) = recipe.descriptors {
        rlimit::set(Resource::NOFILE, limit)?;
    }
    process::place_fd(socket.as_fd(), CHILD_SOCKET)?;
    process::cloexec_from(CHILD_SOCKET + 1)?;
    signal::reset_dispositions()?;
    signal::set_mask(SignalSet::EMPTY).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_before_restarts_grow_to_five_seconds_and_no_further() {
        let mut back_off = BackOff::NEW;
        let pauses: Vec<u128> = (0..12).map(|_| back_off.step().as_millis()).collect();
        assert_eq!(pauses[..7], [0, 100, 200, 400, 800, 1600, 3200]);
        assert_eq!(pauses[7..], [5000; 5]);
    }
}
