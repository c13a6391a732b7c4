// SPDX-License-Identifier: Apache-2.0
//! What an init says of a workload, and of the end of a process.

use super::{Record, Uid};

/// One workload, as its cell-init knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkloadState {
    /// The workload's run.
    pub uid: Uid,
    /// The process id in the cell-init's pid namespace. The fdinfo of the descriptor has it in the
    /// receiver's.
    pub pid: i32,
    /// The kind of its standard streams.
    pub stdio: Stdio,
    /// The write end of standard input is kept, and among the descriptors.
    pub has_stdin: bool,
    /// The last `PutRecord`, or what it was started with.
    pub record: Record,
    /// When it was cloned, `CLOCK_REALTIME` in nanoseconds.
    pub started_ns: u64,
    /// Not there while the main process runs.
    pub exit: Option<ExitRecord>,
    /// How its first process ended, where that wasn't to be the main one.
    pub first: Option<ExitRecord>,
    /// It has a process of that pid, whose pidfd is among the descriptors: `false` once it has
    /// ended, and where the first process has and the main one isn't known.
    pub has_process: bool,
}

/// The kind of a workload's standard streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stdio {
    /// A pipe each for standard output and standard error.
    Pipes,
    /// One terminal, the workload's controlling one, of the cell's own devpts.
    Terminal {
        /// Lines, at the start.
        rows: u16,
        /// Characters per line, at the start.
        columns: u16,
    },
}

/// How a process ended. Times are `CLOCK_REALTIME` nanoseconds, durations nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExitRecord {
    /// Exit code or signal.
    pub how: ExitHow,
    /// When it was cloned.
    pub started_ns: u64,
    /// When it was reaped.
    pub finished_ns: u64,
    /// CPU time in user mode, of it and its waited-for children.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// The largest resident set.
    pub max_rss_bytes: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Times it gave up the CPU.
    pub voluntary_switches: u64,
    /// Times it was taken off the CPU.
    pub involuntary_switches: u64,
    /// `memory.events` `oom_kill` of the leaf when the main process ended; absent without the
    /// controller.
    pub oom_kills: Option<u64>,
}

/// The end of a process that node-init is the parent of because its own parent has died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// Its process id in node-init's pid namespace. 0 is none's: what is remembered is said, and
    /// from now on each end is, before the process is reaped.
    pub pid: i32,
    /// How it ended. When it was cloned and what its leaf counts isn't known there: 0 and none.
    pub exit: ExitRecord,
}

/// The status of [`ExitRecord`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitHow {
    /// It exited with this code.
    Code(u8),
    /// A signal ended it.
    Signal {
        /// The signal's number, 1 to 64.
        signal: u8,
        /// Whether a core was dumped.
        core: bool,
    },
    /// Not known: the process was reaped by another parent.
    Unknown,
}
