// SPDX-License-Identifier: Apache-2.0
//! The workloads of a cell, as its init keeps them until the daemon has stored their end.
//!
//! ```text
//!            exec                    main process ended              Ack
//! Starting ────────▶ Running ──────────────────────────────▶ Ended ─────▶ (gone)
//!    │ exec failed                                             ▲
//!    └─────────▶ Failing ── reaped ──▶ (gone, `Failed`)        │ the start was
//!                   └──────────────────────────────────────────┘ given up: 127 or 126
//! ```
//!
//! Where the executed process is only the first one, its exit with 0 leads to `Headless`; from
//! there the daemon's word, which process is the main one, leads back to `Running`. So it does from
//! `Ended`, where another process has taken the main one's place.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kernel::cgroup::Cgroup;
use kernel::pidfd;
use kernel::poll::Deadline;
use kernel::signal::Signal;
use kernel::wait::{Exit, ExitStatus};

use crate::codec::StartHead;
use crate::protocol::{
    ExitHow, ExitRecord, Failure, MAX_RECORDS, MAX_WORKLOADS, Pids, Stdio, Uid, WorkloadState,
};
use crate::record::KeptRecord;
use kernel::time;

/// Where a workload is on its way.
pub(super) enum State {
    /// Cloned; it says on the pipe why it could not be executed, or the pipe closes with the exec.
    Starting {
        request: Option<u64>,
        status: OwnedFd,
    },
    /// It could not be executed and waits to be reaped.
    Failing {
        request: Option<u64>,
        failure: Failure,
    },
    Running,
    /// The first process has exited with 0; which one is the main one isn't known.
    Headless(ExitRecord),
    Ended(ExitRecord),
}

/// One executable, as its cell-init keeps it.
pub(super) struct Workload {
    pub(super) uid: Uid,
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    pub(super) state: State,
    /// The pid namespace that it was started in.
    pub(super) pids: Pids,
    pub(super) stdio: Stdio,
    /// The kept read ends, or the terminal's master.
    pub(super) output: Vec<OwnedFd>,
    pub(super) stdin: Option<OwnedFd>,
    /// `memory.events` of its leaf, where the controller is.
    pub(super) memory_events: Option<OwnedFd>,
    /// Its group, where it may be without a main process: see [`Workload::signal`].
    pub(super) leaf: Option<Cgroup>,
    pub(super) record: KeptRecord,
    pub(super) started_ns: u64,
    /// The executed process is only the first one.
    pub(super) forks: bool,
    /// How the first process ended, where that wasn't to be the main one.
    pub(super) first: Option<ExitRecord>,
    pub(super) stop_signal: u8,
    pub(super) grace_ms: u32,
    /// The present daemon knows of it.
    pub(super) told: bool,
    /// Its pidfd is among what the loop waits for: see `Cell::main_ended`.
    pub(super) is_watched: bool,
    /// It has ended, and node-init is about to say how: see [`super::adopted`].
    pub(super) is_awaited: bool,
    /// The present daemon knows of its end, or of that of its first process.
    pub(super) end_told: bool,
    /// In a shutdown: when it is killed.
    pub(super) kill_at: Option<Deadline>,
}

impl Workload {
    pub(super) fn new(
        head: StartHead,
        (pid, pidfd): (i32, OwnedFd),
        status: OwnedFd,
        record: KeptRecord,
    ) -> Workload {
        Workload {
            uid: head.uid,
            pid,
            pidfd,
            state: State::Starting {
                request: Some(head.request),
                status,
            },
            pids: head.pids,
            stdio: head.stdio,
            output: Vec::new(),
            stdin: None,
            memory_events: None,
            leaf: None,
            record,
            started_ns: time::realtime_ns(),
            forks: head.forks,
            first: None,
            stop_signal: head.stop_signal,
            grace_ms: head.grace_ms,
            told: true,
            is_watched: false,
            is_awaited: false,
            end_told: false,
            kill_at: None,
        }
    }

    /// Whether its process, the first or the main one, is still there.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, State::Ended(_) | State::Headless(_))
    }

    /// Whether the daemon may name its main process. Of what has forked also once that has ended,
    /// until it is acknowledged: another process may have taken its place.
    pub(super) fn takes_main(&self) -> bool {
        match self.state {
            State::Running | State::Headless(_) => true,
            State::Ended(_) => self.first.is_some(),
            State::Starting { .. } | State::Failing { .. } => false,
        }
    }

    /// Whether something of it runs: its process, or without a main process what is in its leaf.
    pub(super) fn runs(&self) -> bool {
        match (&self.state, &self.leaf) {
            (State::Headless(_), Some(leaf)) => leaf.events().is_ok_and(|events| events.populated),
            _ => self.is_alive(),
        }
    }

    /// Signals its process, or without a main process what is in its leaf.
    pub(super) fn signal(&self, signal: Signal) {
        let headless = matches!(self.state, State::Headless(_));
        let Some(leaf) = self.leaf.as_ref().filter(|_| headless) else {
            // Ended already: it will be reaped.
            let _ = pidfd::send_signal(&self.pidfd, signal);
            return;
        };
        // A number that is another process's by now is one of this cell's all the same, which is
        // being stopped.
        for pid in leaf.processes().unwrap_or_default() {
            let pidfd = pidfd::open(pid);
            let _ = pidfd.and_then(|pidfd| pidfd::send_signal(&pidfd, signal));
        }
    }

    /// As the protocol says it.
    pub(super) fn report(&self) -> WorkloadState {
        WorkloadState {
            uid: self.uid,
            pid: self.pid,
            stdio: self.stdio,
            has_stdin: self.stdin.is_some(),
            record: self.record.say(),
            started_ns: self.started_ns,
            exit: match self.state {
                State::Ended(exit) => Some(exit),
                _ => None,
            },
            first: self.first,
            has_process: self.is_alive(),
        }
    }

    /// The descriptors that go with [`Workload::report`].
    pub(super) fn report_fds(&self) -> Vec<BorrowedFd<'_>> {
        let pidfd = self.is_alive().then(|| self.pidfd.as_fd());
        let output = self.output.iter().map(AsFd::as_fd);
        pidfd
            .into_iter()
            .chain(output)
            .chain(self.stdin.as_ref().map(AsFd::as_fd))
            .chain(self.record.descriptor())
            .collect()
    }

    /// Its process has ended so. Where that was only the first one and went well, the workload goes
    /// on without a main process.
    pub(super) fn conclude(&mut self, exit: ExitRecord) {
        let is_first = self.forks && self.first.is_none();
        self.end_told = false;
        self.state = match exit.how {
            ExitHow::Code(0) if is_first && matches!(self.state, State::Running) => {
                self.first = Some(exit);
                State::Headless(exit)
            }
            _ => State::Ended(exit),
        };
    }

    /// The record of its end.
    pub(super) fn exit_record(&self, exit: &Exit) -> ExitRecord {
        self.end(exit_record(exit, self.started_ns))
    }

    /// The record of its end, of a process that another one has waited for.
    pub(super) fn end(&self, exit: ExitRecord) -> ExitRecord {
        let oom_kills = self
            .memory_events
            .as_ref()
            .and_then(|file| oom_kills(file.as_fd()));
        ExitRecord {
            oom_kills,
            started_ns: self.started_ns,
            ..exit
        }
    }
}

/// The record of a process's end, without what its cgroup knows.
pub(crate) fn exit_record(exit: &Exit, started_ns: u64) -> ExitRecord {
    let usage = exit.usage;
    ExitRecord {
        how: match exit.status {
            ExitStatus::Code(code) => ExitHow::Code(code),
            ExitStatus::Signal { signal, core } => ExitHow::Signal { signal, core },
        },
        started_ns,
        finished_ns: time::realtime_ns(),
        user_ns: usage.user_ns,
        system_ns: usage.system_ns,
        max_rss_bytes: usage.max_rss_bytes,
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
        voluntary_switches: usage.voluntary_switches,
        involuntary_switches: usage.involuntary_switches,
        oom_kills: None,
    }
}

/// The end of a process that was reaped before the init knew whose it was.
pub(super) fn unknown_end(started_ns: u64) -> ExitRecord {
    ExitRecord {
        how: ExitHow::Unknown,
        started_ns,
        finished_ns: time::realtime_ns(),
        user_ns: 0,
        system_ns: 0,
        max_rss_bytes: 0,
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        oom_kills: None,
    }
}

/// The `oom_kill` line of a `memory.events` file.
fn oom_kills(file: BorrowedFd<'_>) -> Option<u64> {
    let mut buffer = [0; 512];
    let length = rustix::io::pread(file, &mut buffer, 0).ok()?;
    let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?
        .trim()
        .parse()
        .ok()
}

/// All of a cell's workloads, at most [`MAX_WORKLOADS`].
///
/// A plain vector: a cell has a handful, and 4,096 are searched in microseconds.
#[derive(Default)]
pub(super) struct Workloads(pub(super) Vec<Workload>);

impl Workloads {
    /// Makes room for one more: `false` where there is none, in the table or in memory.
    pub(super) fn reserve(&mut self) -> bool {
        self.0.len() < MAX_WORKLOADS && self.0.try_reserve(1).is_ok()
    }

    /// Whether another record of that length may be kept: what a daemon reads when it comes has a
    /// bound.
    pub(super) fn has_room_for(&self, record: &KeptRecord) -> bool {
        let kept = self.0.iter().map(|workload| workload.record.length());
        kept.sum::<usize>().saturating_add(record.length()) <= MAX_RECORDS
    }

    pub(super) fn find(&mut self, uid: Uid) -> Option<&mut Workload> {
        self.0.iter_mut().find(|workload| workload.uid == uid)
    }

    /// Where the living one is whose process has that number.
    pub(super) fn at_process(&self, pid: i32) -> Option<usize> {
        let mut all = self.0.iter();
        all.position(|workload| workload.pid == pid && workload.is_alive())
    }

    pub(super) fn remove(&mut self, uid: Uid) {
        if let Some(at) = self.0.iter().position(|workload| workload.uid == uid) {
            self.0.swap_remove(at);
        }
        if self.0.len() < self.0.capacity() / 4 {
            self.0.shrink_to(self.0.len() * 2);
        }
    }

    /// Whether there is one whose end has not come.
    pub(super) fn any_unended(&self) -> bool {
        let ended = |workload: &Workload| matches!(workload.state, State::Ended(_));
        !self.0.iter().all(ended)
    }

    pub(super) fn any_runs(&self) -> bool {
        self.0.iter().any(Workload::runs)
    }
}
