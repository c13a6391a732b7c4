// SPDX-License-Identifier: Apache-2.0
//! What can be set about logs, with the defaults and the bounds of each.

use std::time::Duration;

/// Where the daemon keeps output and for how long. `auraed` fills it from its configuration.
#[derive(Clone, Debug)]
pub struct LogsConfig {
    /// Bytes on disk per executable, unless its own policy says otherwise.
    pub max_bytes: u64,
    /// Age of a segment, unless the executable's own policy says otherwise.
    pub max_age: Duration,
    /// Bytes on disk of all executables together.
    pub node_max_bytes: u64,
    /// Share of the file system, in percent, that logs leave free: the oldest go before it is used.
    pub keep_free_percent: u8,
    /// The longest that output stays in memory alone: what a power loss can cost. `kill -9` costs
    /// nothing.
    pub sync_every: Duration,
    /// How often age, total and free space are looked at, beside whenever a segment is full.
    pub keep_every: Duration,
    /// The longest that output waits in its pipe for more, so that it is moved in one go.
    pub batch_pause: Duration,
    /// A busy pipe grows to this size.
    pub pipe_bytes: usize,
    /// All grown pipes together.
    pub pipes_max_bytes: usize,
}

impl Default for LogsConfig {
    fn default() -> Self {
        Self {
            max_bytes: 1 << 30,
            max_age: Duration::from_secs(30 * 24 * 3600),
            node_max_bytes: 16 << 30,
            keep_free_percent: 5,
            sync_every: Duration::from_secs(5),
            keep_every: Duration::from_secs(30),
            batch_pause: Duration::from_millis(1),
            pipe_bytes: 1 << 20,
            pipes_max_bytes: 256 << 20,
        }
    }
}

/// The smallest log that is kept: one segment that can be dropped beside one that is written.
pub const MIN_LOG_BYTES: u64 = 128 << 10;
/// The largest data file.
const MAX_SEGMENT_BYTES: u64 = 64 << 20;
/// The smallest, so that a tiny limit doesn't make a file per line.
const MIN_SEGMENT_BYTES: u64 = 32 << 10;
/// The most records of a segment: its index is read at once (512 KiB).
pub(super) const MAX_SEGMENT_RECORDS: u64 = 32 << 10;

/// How much of one executable is kept; every field filled in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RetentionLimits {
    /// Bytes on disk, index included.
    pub(super) max_bytes: u64,
    /// Age of a segment.
    pub(super) max_age: Duration,
}

impl LogsConfig {
    pub(super) fn retention(&self, policy: &model::executable::LogPolicy) -> RetentionLimits {
        RetentionLimits {
            max_bytes: policy
                .max_bytes
                .unwrap_or(self.max_bytes)
                .max(MIN_LOG_BYTES),
            max_age: policy.max_age.unwrap_or(self.max_age),
        }
    }
}

impl RetentionLimits {
    /// A segment is full at this size. An eighth of the whole: what retention drops at a time.
    pub(super) fn segment_bytes(self) -> u64 {
        (self.max_bytes / 8).clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES)
    }
}
