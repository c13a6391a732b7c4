// SPDX-License-Identifier: Apache-2.0
//! How much each sender may say: a number of messages and of bytes in a span of time, for each unit
//! or executable apart, as systemd's `RateLimitIntervalSec=` and `RateLimitBurst=`. What is beyond
//! that is counted, and told once the span is over. Pure: the time is given.

use std::collections::HashMap;
use std::time::Duration;

/// The settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateLimit {
    /// The span.
    pub interval: Duration,
    /// Messages of one sender in it.
    pub burst: u32,
    /// Bytes of one sender in it.
    pub bytes: u64,
}

impl Default for RateLimit {
    /// systemd's: 10,000 in 30 s; bytes are ours.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            burst: 10_000,
            bytes: 64 << 20,
        }
    }
}

/// Senders that are counted apart. Half of the places are the tenant `system`'s alone; a sender
/// that finds none shares one with all others of its kind.
const MOST: usize = 2048;

#[derive(Debug)]
struct Count {
    since: Duration,
    messages: u32,
    bytes: u64,
    suppressed: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Limiter {
    limit: RateLimit,
    counts: HashMap<String, Count>,
    of_system: usize,
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is taken; so many before it were not.
    Taken {
        /// The number of messages that were not taken.
        after: u64,
    },
    /// It isn't.
    Suppressed,
}

impl Limiter {
    pub(super) fn new(limit: RateLimit) -> Limiter {
        Limiter {
            limit,
            counts: HashMap::new(),
            of_system: 0,
        }
    }

    /// A message of that many bytes; `system`: of the node's own tenant. `now` is a clock that
    /// only goes forwards.
    pub(super) fn take(&mut self, who: &str, system: bool, bytes: usize, now: Duration) -> Verdict {
        let key = self.key(who, system, now);
        let limit = self.limit;
        let count = self.counts.entry(key).or_insert(Count {
            since: now,
            messages: 0,
            bytes: 0,
            suppressed: 0,
        });
        if now.saturating_sub(count.since) >= limit.interval {
            (count.since, count.messages, count.bytes) = (now, 0, 0);
        }
        let size = u64::try_from(bytes).unwrap_or(u64::MAX);
        if count.messages >= limit.burst || count.bytes.saturating_add(size) > limit.bytes {
            count.suppressed = count.suppressed.saturating_add(1);
            return Verdict::Suppressed;
        }
        count.messages = count.messages.saturating_add(1);
        count.bytes = count.bytes.saturating_add(size);
        let after = std::mem::take(&mut count.suppressed);
        Verdict::Taken { after }
    }

    /// By what it is counted.
    fn key(&mut self, who: &str, system: bool, now: Duration) -> String {
        let key = format!("{}{who}", if system { "+" } else { "-" });
        if self.counts.contains_key(&key) {
            return key;
        }
        let has_room = |it: &Self| {
            let mine = match system {
                true => it.of_system,
                false => it.counts.len().saturating_sub(it.of_system),
            };
            mine < MOST / 2
        };
        if !has_room(self) {
            self.forget(now);
        }
        if !has_room(self) {
            return if system { "+" } else { "-" }.to_owned();
        }
        self.of_system += usize::from(system);
        key
    }

    /// Forgets the senders that said nothing of late.
    fn forget(&mut self, now: Duration) {
        let interval = self.limit.interval;
        self.counts
            .retain(|_, it| now.saturating_sub(it.since) < interval || it.suppressed > 0);
        self.of_system = self.counts.keys().filter(|it| it.starts_with('+')).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(burst: u32) -> Limiter {
        Limiter::new(RateLimit {
            interval: Duration::from_secs(10),
            burst,
            bytes: 100,
        })
    }

    const START: Duration = Duration::from_secs(100);

    #[test]
    fn one_that_says_too_much_is_cut_alone_and_its_loss_is_told() {
        let mut limiter = limiter(2);
        let taken = Verdict::Taken { after: 0 };
        assert_eq!(limiter.take("loud", false, 1, START), taken);
        assert_eq!(limiter.take("loud", false, 1, START), taken);
        for _ in 0..5 {
            assert_eq!(limiter.take("loud", false, 1, START), Verdict::Suppressed);
        }
        assert_eq!(limiter.take("other", false, 1, START), taken);
        let later = START + Duration::from_secs(10);
        assert_eq!(
            limiter.take("loud", false, 1, later),
            Verdict::Taken { after: 5 }
        );
        assert_eq!(limiter.take("loud", false, 1, later), taken);
    }

    #[test]
    fn bytes_count_too() {
        let mut limiter = limiter(10);
        assert_eq!(
            limiter.take("a", false, 60, START),
            Verdict::Taken { after: 0 }
        );
        assert_eq!(limiter.take("a", false, 60, START), Verdict::Suppressed);
        assert_eq!(
            limiter.take("a", false, 40, START),
            Verdict::Taken { after: 1 }
        );
    }

    #[test]
    fn many_names_take_no_place_of_the_systems() {
        let mut limiter = limiter(1);
        for name in 0..10_000 {
            limiter.take(&name.to_string(), false, 1, START);
        }
        assert!(
            limiter.counts.len() <= MOST / 2 + 1,
            "{}",
            limiter.counts.len()
        );
        // Others share the place that is left.
        assert_eq!(limiter.take("new", false, 1, START), Verdict::Suppressed);
        assert_eq!(
            limiter.take("ssh", true, 1, START),
            Verdict::Taken { after: 0 }
        );
    }
}
