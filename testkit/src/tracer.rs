// SPDX-License-Identifier: Apache-2.0
//! Another process's system calls, counted or failed: `ptrace` on one process, none of its
//! children.
//!
//! A call that is to fail never reaches the kernel: it is made no call at its entry, and the errno
//! is put where its result belongs. It knows nothing of inits: the story says which call is to
//! fail, and what must hold then.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "called by tests alone: what fails here is a failed test"
)]

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use syscalls::Sysno;

/// What is to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Every call is let through.
    None,
    /// The `at`-th call from now (the first is 0), whichever it is.
    Nth {
        /// The number of the call, from 0.
        at: u64,
        /// The errno that it returns.
        errno: Errno,
    },
    /// The next `times` calls of these kinds.
    Kinds {
        /// The calls that fail, both of them counted together.
        calls: [Sysno; 2],
        /// The errno that they return.
        errno: Errno,
        /// How many of them.
        times: u64,
    },
}

/// Calls that never return an error: they end a process, return from a signal, or only answer a
/// fact.
const INFALLIBLE: [Sysno; 12] = [
    Sysno::exit,
    Sysno::exit_group,
    Sysno::rt_sigreturn,
    Sysno::restart_syscall,
    Sysno::getpid,
    Sysno::getppid,
    Sysno::gettid,
    Sysno::getuid,
    Sysno::geteuid,
    Sysno::getgid,
    Sysno::getegid,
    Sysno::umask,
];

#[derive(Debug)]
struct State {
    fault: Fault,
    /// Calls since the fault was set.
    calls: u64,
    /// What failed since then.
    failed: Vec<Sysno>,
    /// Every kind that can fail, and how often it was made.
    seen: BTreeMap<Sysno, u64>,
    ended: Option<WaitStatus>,
    leave: bool,
}

/// A process that is being traced until this is dropped.
pub struct Tracer {
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

impl Tracer {
    /// Stops the process, and lets it go on under a tracer.
    pub fn attach(pid: i32) -> Tracer {
        let state = State {
            fault: Fault::None,
            calls: 0,
            failed: Vec::new(),
            seen: BTreeMap::new(),
            ended: None,
            leave: false,
        };
        let state = Arc::new(Mutex::new(state));
        let (attached, is_attached) = channel();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || trace(Pid::from_raw(pid), &shared, &attached));
        is_attached.recv().expect("the tracer attaches");
        Tracer {
            state,
            thread: Some(thread),
        }
    }

    /// From now on this fault holds, and no earlier one.
    pub fn set(&self, fault: Fault) {
        let mut state = self.state.lock().unwrap();
        state.fault = fault;
        state.calls = 0;
        state.failed.clear();
    }

    /// How many calls there were since the last [`Tracer::set`].
    pub fn calls(&self) -> u64 {
        self.state.lock().unwrap().calls
    }

    /// The calls that failed since then.
    pub fn failed(&self) -> Vec<Sysno> {
        self.state.lock().unwrap().failed.clone()
    }

    /// Forgets what was seen so far.
    pub fn forget(&self) {
        self.state.lock().unwrap().seen.clear();
    }

    /// All kinds of calls since then.
    pub fn seen(&self) -> BTreeMap<Sysno, u64> {
        self.state.lock().unwrap().seen.clone()
    }

    /// How the process ended, if it has.
    pub fn ended(&self) -> Option<WaitStatus> {
        self.state.lock().unwrap().ended
    }

    /// Lets it go with its next call, which `poke` has it make.
    pub fn detach(mut self, poke: impl FnOnce()) {
        self.state.lock().unwrap().leave = true;
        poke();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// The life of the tracing thread: only it may trace the process.
fn trace(pid: Pid, shared: &Mutex<State>, attached: &Sender<()>) {
    ptrace::seize(pid, Options::PTRACE_O_TRACESYSGOOD).expect("ptrace(SEIZE)");
    ptrace::interrupt(pid).expect("ptrace(INTERRUPT)");
    let mut inside = None;
    loop {
        let status = match waitpid(pid, Some(WaitPidFlag::__WALL)) {
            Ok(status) => status,
            Err(Errno::EINTR) => continue,
            // Reaped by its parent elsewhere.
            Err(_) => return,
        };
        let signal = match status {
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                shared.lock().unwrap().ended = Some(status);
                return;
            }
            WaitStatus::PtraceSyscall(_) => {
                inside = step(pid, &mut shared.lock().unwrap(), inside);
                None
            }
            WaitStatus::PtraceEvent(..) => {
                let _ = attached.send(());
                None
            }
            WaitStatus::Stopped(_, signal) => Some(signal),
            _ => None,
        };
        // Between two calls: nothing of it is changed.
        if inside.is_none() && shared.lock().unwrap().leave {
            let _ = ptrace::detach(pid, signal);
            return;
        }
        // ESRCH: it was killed meanwhile, and that is what comes next.
        let _ = ptrace::syscall(pid, signal);
    }
}

/// A call that was entered, and the errno that it shall return.
type Inside = Option<Option<Errno>>;

/// At the entry of a call decides, at its end carries out.
fn step(pid: Pid, state: &mut State, inside: Inside) -> Inside {
    let Ok(mut registers) = ptrace::getregs(pid) else {
        return None;
    };
    if let Some(fate) = inside {
        if let Some(errno) = fate {
            registers.rax = -i64::from(errno as i32) as u64;
            let _ = ptrace::setregs(pid, registers);
        }
        return None;
    }
    let Some(call) = usize::try_from(registers.orig_rax)
        .ok()
        .and_then(Sysno::new)
    else {
        return Some(None);
    };
    if INFALLIBLE.contains(&call) {
        return Some(None);
    }
    *state.seen.entry(call).or_default() += 1;
    let at = state.calls;
    state.calls += 1;
    let errno = match state.fault {
        Fault::None => None,
        Fault::Nth { at: which, errno } => (at == which).then_some(errno),
        Fault::Kinds {
            calls,
            errno,
            times,
        } => (calls.contains(&call) && (state.failed.len() as u64) < times).then_some(errno),
    };
    if errno.is_some() {
        state.failed.push(call);
    }
    // Linux closes a descriptor whatever `close` returns.
    if errno.is_some() && call != Sysno::close {
        registers.orig_rax = u64::MAX;
        let _ = ptrace::setregs(pid, registers);
    }
    Some(errno)
}
