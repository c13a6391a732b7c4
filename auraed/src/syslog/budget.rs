// SPDX-License-Identifier: Apache-2.0
//! How much of what one program prints is passed on: the journal's limit of messages and bytes in a
//! span of time. Pure: the time is given.

use observe::journal::RateLimit;
use tokio::time::Instant;

/// See the module.
pub(super) struct Budget {
    limit: RateLimit,
    since: Instant,
    messages: u32,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(limit: RateLimit, now: Instant) -> Budget {
        Budget {
            limit,
            since: now,
            messages: 0,
            bytes: 0,
        }
    }

    /// A message of so many bytes; when there is none left: when there is again.
    pub(super) fn take(&mut self, bytes: usize, now: Instant) -> Result<(), Instant> {
        let until = self.since + self.limit.interval;
        if now >= until {
            (self.since, self.messages, self.bytes) = (now, 0, 0);
        }
        let size = u64::try_from(bytes).unwrap_or(u64::MAX);
        let sum = self.bytes.saturating_add(size);
        if self.messages >= self.limit.burst || sum > self.limit.bytes {
            return Err(until);
        }
        self.messages = self.messages.saturating_add(1);
        self.bytes = sum;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn so_many_messages_and_bytes_are_passed_on_in_a_span() {
        let limit = RateLimit {
            interval: Duration::from_secs(30),
            burst: 3,
            bytes: 10,
        };
        let begun = Instant::now();
        let mut budget = Budget::new(limit, begun);
        let again = begun + limit.interval;
        for _ in 0..3 {
            assert_eq!(budget.take(2, begun), Ok(()));
        }
        assert_eq!(budget.take(2, begun), Err(again));
        assert_eq!(budget.take(11, again), Err(again), "larger than all of it");
        assert_eq!(budget.take(10, again), Ok(()));
        assert_eq!(budget.take(1, again), Err(again + limit.interval));
    }
}
