// SPDX-License-Identifier: Apache-2.0
//! How long a call may take: the client's `grpc-timeout`, else the configured default for unary
//! calls that answer at once. Pure; `layer` keeps the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::action::{self, Action};

/// Calls that answer when an object has ended, or when a disk has read or freed what may be large,
/// so they have no default. Run calls answer at once or
/// at the end, as their request says, and apply the default themselves.
const UNBOUNDED: [&str; 9] = [
    action::runtime::RUN_EXECUTABLE,
    action::runtime::RUN_CELL,
    action::runtime::WAIT,
    action::runtime::STOP,
    action::runtime::REMOVE,
    action::image::REMOVE,
    action::image::PRUNE,
    action::image::VERIFY,
    action::schedule::REMOVE,
];

/// The default of unary calls that come without a deadline; clones share it, and it may change at
/// any time.
#[derive(Clone, Debug)]
pub(crate) struct DefaultDeadline(Arc<AtomicU64>);

impl DefaultDeadline {
    /// A default of `bound` for each such call.
    pub(crate) fn new(bound: Duration) -> Self {
        let deadline = Self(Arc::default());
        deadline.set(bound);
        deadline
    }

    /// Changes it for calls that begin from now on.
    pub(crate) fn set(&self, bound: Duration) {
        let ms = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        self.0.store(ms, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// The bound of a call to `action` (`None`: not one of ours); `None` where it has none.
pub(super) fn of_call(
    action: Option<&Action>,
    asked: Option<Duration>,
    default: Duration,
) -> Option<Duration> {
    match action {
        _ if asked.is_some() => asked,
        Some(a) if a.client_streams || a.server_streams || UNBOUNDED.contains(&a.name) => None,
        Some(_) => Some(default),
        // Health and reflection: their streams last.
        None => None,
    }
}

/// The value of a `grpc-timeout` header: at most eight digits and a unit. `None` where it is
/// malformed, which the specification has servers ignore.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let unit_at = text.len().checked_sub(1)?;
    let (digits, unit) = text.split_at_checked(unit_at)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Duration = Duration::from_secs(30);

    fn of(name: &str) -> Option<&'static Action> {
        api::action::ACTIONS.iter().find(|a| a.name == name)
    }

    #[test]
    fn what_the_client_says_counts() {
        assert_eq!(parse("100m"), Some(Duration::from_millis(100)));
        assert_eq!(parse("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(parse("99999999S"), Some(Duration::from_secs(99_999_999)));
        for bad in ["", "S", "1", "-1S", "123456789S", "1x", "1 S", "1ü"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        let asked = Some(Duration::from_secs(1));
        for call in ["runtime.Get", "runtime.Wait", "runtime.Watch"] {
            assert_eq!(of_call(of(call), asked, DEFAULT), asked);
        }
    }

    #[test]
    fn calls_that_answer_at_once_have_the_default_and_the_others_none() {
        for call in [
            "runtime.Get",
            "identity.WhoAmI",
            "node.Shutdown",
            "observe.Usage",
        ] {
            assert_eq!(of_call(of(call), None, DEFAULT), Some(DEFAULT), "{call}");
        }
        for call in [
            "runtime.Wait",
            "runtime.Attach",
            "observe.Logs",
            "runtime.Stop",
            "schedule.Remove",
        ] {
            assert_eq!(of_call(of(call), None, DEFAULT), None, "{call}");
        }
        assert_eq!(of_call(None, None, DEFAULT), None);
    }

    #[test]
    fn the_unbounded_calls_exist() {
        assert!(UNBOUNDED.iter().all(|name| of(name).is_some()));
    }
}
