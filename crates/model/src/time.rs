// SPDX-License-Identifier: Apache-2.0
//! A moment, as data. Nothing here reads a clock: the caller that makes a value has read one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds since 1970-01-01T00:00:00Z, as `CLOCK_REALTIME` counts them; good until the year
/// 2554.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Nanoseconds within the second.
    pub fn subsecond_nanos(self) -> u32 {
        u32::try_from(self.0 % 1_000_000_000).unwrap_or(0)
    }

    /// From seconds and nanoseconds within the second; `None` where it can't be expressed.
    pub fn from_parts(seconds: u64, nanos: u32) -> Option<Self> {
        seconds
            .checked_mul(1_000_000_000)?
            .checked_add(u64::from(nanos))
            .map(Self)
    }

    /// How much later `self` is; zero where it isn't.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
