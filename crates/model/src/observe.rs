// SPDX-License-Identifier: Apache-2.0
//! The requests of `Observe` and its answers: output and usage. Mirrors `observe.proto`, checked,
//! with the caller's tenant filled in. How output is kept on disk is `observe`'s alone.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::name::Tenant;
use crate::object::ObjectRef;
use crate::time::Timestamp;

/// The most objects of one `Observe.Logs`.
pub const MAX_LOGS_REFS: usize = 64;

/// An output of an executable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output, or the terminal.
    Stdout,
    /// Standard error; with a terminal, everything is standard output.
    Stderr,
}

/// Why output is not there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// Older than the policy keeps, or more than it keeps.
    Retention,
    /// The disk was full.
    DiskFull,
    /// The machine stopped before it was on the disk.
    PowerLoss,
    /// The disk refused it.
    IoError,
}

impl GapReason {
    /// As on the wire, e.g. `DISK_FULL`.
    pub fn as_str(self) -> &'static str {
        match self {
            GapReason::Retention => "RETENTION",
            GapReason::DiskFull => "DISK_FULL",
            GapReason::PowerLoss => "POWER_LOSS",
            GapReason::IoError => "IO_ERROR",
        }
    }
}

/// The checked request of `Observe.Logs`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogsQuery {
    /// Executables, or cells (then every executable in them). 1 to [`MAX_LOGS_REFS`].
    pub refs: Vec<ObjectRef>,
    /// The streams; empty: both.
    pub streams: BTreeSet<Stream>,
    /// Only output that the node read at this time or later.
    pub since: Option<Timestamp>,
    /// Only output that the node read at this time or earlier.
    pub until: Option<Timestamp>,
    /// Only this number of last lines.
    pub tail: Option<u64>,
    /// Go on until the executable has ended and its last byte is sent.
    pub follow: bool,
    /// Go on after the message that carried it; with exactly one ref.
    pub cursor: Option<String>,
}

/// One message of `Observe.Logs`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogItem {
    /// The executable whose output it is, with its uid and kind.
    pub object: ObjectRef,
    /// Data, a gap, or the end.
    pub message: LogMessage,
    /// Goes on after this message.
    pub cursor: String,
}

/// The content of a [`LogItem`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogMessage {
    /// Bytes that the executable printed.
    Data(LogData),
    /// Output that is not there, in its place.
    Gap(LogGap),
    /// Everything was sent; none follows.
    End,
}

/// A piece of output as it was read; a line may be spread over several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogData {
    /// The stream that the bytes were printed to.
    pub stream: Stream,
    /// When the batch was read, to 2 ms under load.
    pub time: Timestamp,
    /// At most 64 KiB.
    pub data: Vec<u8>,
    /// The offset of the first byte in the executable's whole output, in bytes, dropped output
    /// included.
    pub offset: u64,
}

/// Output that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogGap {
    /// Bytes of both streams. 0: the number isn't known, because the machine stopped before
    /// anything of it was written.
    pub bytes: u64,
    /// Why the bytes aren't there.
    pub reason: GapReason,
    /// The offset of its first byte in the executable's whole output, in bytes.
    pub offset: u64,
}

/// Matches of one `Observe.Journal`.
pub const MAX_JOURNAL_MATCHES: usize = 64;
/// Last entries of one `Observe.Journal`.
pub const MAX_JOURNAL_TAIL: u32 = 10_000;

/// The checked request of `Observe.Journal`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JournalQuery {
    /// Fields and values: those of one field are alternatives.
    pub matches: Vec<(String, Vec<u8>)>,
    /// Not what was received before.
    pub since: Option<Timestamp>,
    /// Not what was received after.
    pub until: Option<Timestamp>,
    /// Only so many last ones.
    pub tail: Option<u32>,
    /// Go on with what comes.
    pub follow: bool,
    /// Go on behind this offset of the journal.
    pub cursor: Option<u64>,
    /// First see to it that what was said before is on the disk.
    pub sync: bool,
    /// Not the journal, but what units have printed in runs whose records are gone.
    pub past: bool,
}

/// The checked request of `Observe.Usage`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageQuery {
    /// The objects; empty: all of the tenant's.
    pub refs: Vec<ObjectRef>,
    /// The tenant of all the objects.
    pub tenant: Tenant,
}

/// The checked request of `Observe.WatchUsage`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchUsageQuery {
    /// The objects, and their tenant.
    pub query: UsageQuery,
    /// The time from one answer to the next, 100 ms to 1 h.
    pub interval: Duration,
}

/// The usage of several objects at one time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageSample {
    /// When it was measured, by the node's clock.
    pub time: Timestamp,
    /// A row per object.
    pub usage: Vec<Usage>,
}

/// The resources that an object uses. `None` is unknown on this node, not zero; `unavailable` says
/// why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    /// The object, with its uid and kind.
    pub object: ObjectRef,
    /// CPU time since the start, in microseconds.
    pub cpu_usage_us: Option<u64>,
    /// CPU time in user mode, in microseconds.
    pub cpu_user_us: Option<u64>,
    /// CPU time in the kernel, in microseconds.
    pub cpu_system_us: Option<u64>,
    /// How long it was throttled because it had used up its quota, in microseconds.
    pub cpu_throttled_us: Option<u64>,
    /// Memory now, in bytes.
    pub memory_bytes: Option<u64>,
    /// The most there ever was.
    pub memory_peak_bytes: Option<u64>,
    /// Swap now, in bytes.
    pub swap_bytes: Option<u64>,
    /// Processes killed by the OOM killer.
    pub oom_kills: Option<u64>,
    /// Processes and threads now.
    pub pids: Option<u64>,
    /// The most there ever were.
    pub pids_peak: Option<u64>,
    /// Bytes read from block devices.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to block devices.
    pub io_write_bytes: Option<u64>,
    /// Bytes of log on disk.
    pub log_bytes: Option<u64>,
    /// Why the absent fields are absent, e.g. `memory controller not available`.
    pub unavailable: Vec<String>,
}

impl Usage {
    /// A row in which every number is unknown.
    pub fn unknown(object: ObjectRef) -> Self {
        Self {
            object,
            cpu_usage_us: None,
            cpu_user_us: None,
            cpu_system_us: None,
            cpu_throttled_us: None,
            memory_bytes: None,
            memory_peak_bytes: None,
            swap_bytes: None,
            oom_kills: None,
            pids: None,
            pids_peak: None,
            io_read_bytes: None,
            io_write_bytes: None,
            log_bytes: None,
            unavailable: Vec::new(),
        }
    }
}
