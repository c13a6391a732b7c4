// SPDX-License-Identifier: Apache-2.0
//! How long a container that has ended waits until it is started again: not at all the first time,
//! then 10 s, doubling to 5 minutes; a run of 10 minutes begins anew (Kubernetes, "How Pods handle
//! problems with containers").

use std::time::Duration;

/// The first wait.
pub const FIRST: Duration = Duration::from_secs(10);
/// The longest one.
pub const MOST: Duration = Duration::from_secs(300);
/// A run of that length was none that fails at once.
pub const FORGIVEN: Duration = Duration::from_secs(600);

/// The wait before a container is started again: `restarts` in a row so far, the last run lasted
/// for `ran`. Returns the number in a row that the next run has, too.
pub fn next(restarts: u32, ran: Duration) -> (Duration, u32) {
    let before = if ran >= FORGIVEN { 0 } else { restarts };
    let wait = match before {
        0 => Duration::ZERO,
        n => {
            let doubled = FIRST.saturating_mul(1 << (n - 1).min(16));
            doubled.min(MOST)
        }
    };
    (wait, before.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_five_minutes_and_begin_anew_after_ten() {
        let mut restarts = 0;
        let mut waits = Vec::new();
        for _ in 0..8 {
            let (wait, next) = next(restarts, Duration::from_secs(1));
            waits.push(wait.as_secs());
            restarts = next;
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(next(restarts, FORGIVEN), (Duration::ZERO, 1));
        assert_eq!(next(u32::MAX, Duration::ZERO), (MOST, u32::MAX));
    }
}
