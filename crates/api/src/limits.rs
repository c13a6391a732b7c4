// SPDX-License-Identifier: Apache-2.0
//! The limits of single fields, for the types, documents and editors of the client, which check a
//! field before a node does. The conversions (`convert`) and `model` refuse requests; this table
//! says the same of each field alone, and a test compares each of its ends with them. Rules between
//! fields (a minimum below a maximum) aren't here.

use std::time::Duration;

use model::cell::{MAX_ID_RANGE, MIN_ID_RANGE};
use model::executable::MAX_STOP_GRACE;
use model::resources::{MAX_CPUS, MIN_MEMORY};

use crate::convert::request::MAX_PAGE;

/// The values that a field takes, both ends included. Of a list: each of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// Limits of a number.
    Number {
        /// Absent: what its type takes.
        least: Option<i64>,
        /// Absent: what its type takes.
        most: Option<i64>,
    },
    /// A duration; an absent end is its type's.
    Time {
        /// At least so long.
        least: Option<Duration>,
        /// At most so long.
        most: Option<Duration>,
    },
}

/// One row: the message's full name, the field's in it, its limits.
type Row = (&'static str, &'static str, Limits);

const fn from(least: i64, most: i64) -> Limits {
    Limits::Number {
        least: Some(least),
        most: Some(most),
    }
}

const fn at_least(least: i64) -> Limits {
    Limits::Number {
        least: Some(least),
        most: None,
    }
}

const fn at_most(most: i64) -> Limits {
    Limits::Number {
        least: None,
        most: Some(most),
    }
}

const fn lasting(least: Duration, most: Duration) -> Limits {
    Limits::Time {
        least: Some(least),
        most: Some(most),
    }
}

const fn no_longer_than(most: Duration) -> Limits {
    Limits::Time {
        least: None,
        most: Some(most),
    }
}

const EXECUTABLE: &str = "aurae.runtime.v0.ExecutableSpec";
const TERMINAL: &str = "aurae.runtime.v0.Terminal";
const VOLUME: &str = "aurae.runtime.v0.Volume";
const CPU: &str = "aurae.runtime.v0.Cpu";
const MEMORY: &str = "aurae.runtime.v0.Memory";
const IO_MAX: &str = "aurae.runtime.v0.IoMax";

/// The shortest quota and period, and the longest period.
const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// All fields that have limits of their own.
pub const ALL: &[Row] = &[
    (EXECUTABLE, "umask", from(0, 0o777)),
    (EXECUTABLE, "nice", from(-20, 19)),
    (EXECUTABLE, "oom_score_adj", from(-1000, 1000)),
    (EXECUTABLE, "cpu_affinity", from(0, MAX_CPUS as i64 - 1)),
    (EXECUTABLE, "stop_grace", no_longer_than(MAX_STOP_GRACE)),
    (TERMINAL, "rows", from(0, u16::MAX as i64)),
    (TERMINAL, "columns", from(0, u16::MAX as i64)),
    ("aurae.runtime.v0.LogPolicy", "max_bytes", at_least(4096)),
    (
        "aurae.runtime.v0.CellSpec",
        "id_range",
        from(MIN_ID_RANGE as i64, MAX_ID_RANGE as i64),
    ),
    (VOLUME, "size_bytes", from(4096, i64::MAX)),
    (VOLUME, "mode", from(0, 0o7777)),
    (VOLUME, "uid", from(0, u32::MAX as i64 - 1)),
    (VOLUME, "gid", from(0, u32::MAX as i64 - 1)),
    ("aurae.runtime.v0.Resources", "pids_max", at_least(1)),
    (
        CPU,
        "quota",
        lasting(MILLISECOND, Duration::from_secs(MAX_CPUS as u64)),
    ),
    (CPU, "period", lasting(MILLISECOND, SECOND)),
    (CPU, "weight", from(1, 10_000)),
    (MEMORY, "min", at_most(i64::MAX)),
    (MEMORY, "low", at_most(i64::MAX)),
    (MEMORY, "high", at_most(i64::MAX)),
    (MEMORY, "max", from(MIN_MEMORY as i64, i64::MAX)),
    (MEMORY, "swap_max", at_most(i64::MAX)),
    ("aurae.runtime.v0.Io", "weight", from(1, 10_000)),
    (IO_MAX, "read_bytes_per_second", at_least(1)),
    (IO_MAX, "write_bytes_per_second", at_least(1)),
    (IO_MAX, "reads_per_second", at_least(1)),
    (IO_MAX, "writes_per_second", at_least(1)),
    (
        "aurae.runtime.v0.ListRequest",
        "page_size",
        from(0, MAX_PAGE as i64),
    ),
    (
        "aurae.runtime.v0.StopRequest",
        "grace",
        no_longer_than(MAX_STOP_GRACE),
    ),
    (
        "aurae.observe.v0.WatchUsageRequest",
        "interval",
        lasting(Duration::from_millis(100), Duration::from_secs(3600)),
    ),
];

/// The limits of a field, by its message's full name and its own.
pub fn of(message: &str, field: &str) -> Option<Limits> {
    let mut rows = ALL.iter();
    let row = rows.find(|(of, name, _)| *of == message && *name == field);
    row.map(|(_, _, limits)| *limits)
}
