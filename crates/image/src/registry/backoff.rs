// SPDX-License-Identifier: Apache-2.0
//! When a failed request is sent again. Pure but for the random number: the pauses are a function
//! of the attempt. Called by `session`, and by `blob` after a download was cut.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// How often and how fast a host is asked again.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// How many requests there are at most, the first one included.
    pub attempts: u32,
    /// The pause after the first failure; each later one is twice as long.
    pub first: Duration,
    /// The longest pause, also of those that a registry asks for by `Retry-After`.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            attempts: 5,
            first: Duration::from_millis(200),
            longest: Duration::from_secs(30),
        }
    }
}

impl Backoff {
    /// The pause after this many failures in a row, or `None` to give up. A registry that wants to
    /// be left alone for longer than [`Backoff::longest`] is not asked again.
    pub(crate) fn pause(&self, failures: u32, wanted: Option<Duration>) -> Option<Duration> {
        self.pause_with(failures, wanted, RandomState::new().build_hasher().finish())
    }

    fn pause_with(&self, failures: u32, wanted: Option<Duration>, random: u64) -> Option<Duration> {
        if failures >= self.attempts {
            return None;
        }
        let doublings = failures.saturating_sub(1).min(20);
        let whole = self.first.saturating_mul(1 << doublings).min(self.longest);
        // Between half of it and the whole, so that clients that failed together come back apart.
        let thousandths = u32::try_from(500 + random % 501).unwrap_or(1000);
        let pause = whole.saturating_mul(thousandths) / 1000;
        match wanted {
            Some(wanted) if wanted > self.longest => None,
            Some(wanted) => Some(wanted.max(pause)),
            None => Some(pause),
        }
    }
}

/// `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date.
pub(crate) fn retry_after(header: &str, now: jiff::Timestamp) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = jiff::fmt::rfc2822::parse(header).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_then_end() {
        let backoff = Backoff {
            attempts: 6,
            first: Duration::from_millis(100),
            longest: Duration::from_millis(350),
        };
        let whole = |failures| backoff.pause_with(failures, None, 500);
        let expected = [100, 200, 350, 350, 350].map(|it| Some(Duration::from_millis(it)));
        assert_eq!([1, 2, 3, 4, 5].map(whole), expected);
        assert_eq!(whole(6), None);
        assert_eq!(
            backoff.pause_with(1, None, 0),
            Some(Duration::from_millis(50))
        );
        assert!(
            Backoff {
                attempts: u32::MAX,
                ..backoff
            }
            .pause(u32::MAX - 1, None)
            .is_some()
        );
    }

    #[test]
    fn what_the_registry_wants_is_waited_for_within_bounds() {
        let backoff = Backoff::default();
        let wanted = Some(Duration::from_secs(7));
        assert_eq!(backoff.pause(1, wanted), wanted);
        assert_eq!(backoff.pause(1, Some(Duration::from_secs(31))), None);
        assert!(backoff.pause(1, Some(Duration::ZERO)) >= Some(Duration::from_millis(100)));
    }

    #[test]
    fn both_forms_of_retry_after_are_read() {
        let now: jiff::Timestamp = "1994-11-06T08:49:30Z".parse().unwrap();
        let read = |header| retry_after(header, now);
        assert_eq!(read(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(
            read("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(Duration::from_secs(7))
        );
        assert_eq!(read("Sun, 06 Nov 1994 08:49:07 GMT"), Some(Duration::ZERO));
        assert_eq!(read("soon"), None);
        assert_eq!(read("-1"), None);
    }
}
