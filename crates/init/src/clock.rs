// SPDX-License-Identifier: Apache-2.0
//! The clocks of the protocol, in nanoseconds.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

fn now(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// `CLOCK_REALTIME`.
pub(crate) fn real_ns() -> u64 {
    now(ClockId::Realtime)
}

/// `CLOCK_BOOTTIME`.
pub(crate) fn boot_ns() -> u64 {
    now(ClockId::Boottime)
}

/// The shorter of two waits, where `None` is for ever.
pub(crate) fn sooner(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
