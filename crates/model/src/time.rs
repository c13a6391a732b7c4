// SPDX-License-Identifier: Apache-2.0
//! A moment, as data. Nothing here reads a clock: the caller that makes a value has read one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

impl From<SystemTime> for Timestamp {
    /// 0 before 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_time_is_counted_from_1970() {
        let time = |since| Timestamp::from(UNIX_EPOCH + since);
        assert_eq!(time(Duration::from_millis(1_500)), Timestamp(1_500_000_000));
        assert_eq!(
            Timestamp::from(UNIX_EPOCH - Duration::from_secs(1)),
            Timestamp(0)
        );
        assert_eq!(
            time(Duration::from_secs(u64::MAX >> 2)),
            Timestamp(u64::MAX)
        );
    }
}
