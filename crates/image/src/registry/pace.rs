// SPDX-License-Identifier: Apache-2.0
//! Whether a host sends too slowly to be waited for. A bound on silence alone can be held off for
//! ever by a byte now and then; the time that we take ourselves does not count. Pure.

use std::time::Duration;

use super::Options;

/// Counts what came while it was waited for.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How long is waited before a rate is looked at.
    window: Duration,
    /// Bytes that must come within it.
    least: u64,
    waited: Duration,
    came: u64,
}

impl Pace {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            window: options.idle,
            least: options
                .slowest
                .saturating_mul(options.idle.as_secs().max(1)),
            waited: Duration::ZERO,
            came: 0,
        }
    }

    /// Notes that so many bytes came after this wait, and says whether the host is too slow.
    pub(crate) fn is_too_slow(&mut self, bytes: usize, wait: Duration) -> bool {
        self.waited += wait;
        self.came = self
            .came
            .saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if self.waited < self.window {
            return false;
        }
        let slow = self.came < self.least;
        self.waited = Duration::ZERO;
        self.came = 0;
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace() -> Pace {
        Pace::new(&Options {
            idle: Duration::from_secs(10),
            slowest: 1000,
            ..Options::default()
        })
    }

    #[test]
    fn a_byte_now_and_then_is_too_slow() {
        let mut pace = pace();
        let late = (1..=100).find(|_| pace.is_too_slow(1, Duration::from_secs(1)));
        assert_eq!(late, Some(10));
    }

    #[test]
    fn who_keeps_the_rate_is_never_too_slow() {
        let mut pace = pace();
        assert!((0..1000).all(|_| !pace.is_too_slow(1000, Duration::from_secs(1))));
        // A burst and then a pause that is shorter than the window.
        assert!((0..100).all(|_| !pace.is_too_slow(100_000, Duration::from_secs(9))));
    }

    #[test]
    fn our_own_time_does_not_count() {
        let mut pace = pace();
        assert!((0..100_000).all(|_| !pace.is_too_slow(1, Duration::ZERO)));
    }
}
