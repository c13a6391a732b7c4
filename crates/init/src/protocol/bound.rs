// SPDX-License-Identifier: Apache-2.0
//! How a shutdown's bound is shared by init and the daemon.

use std::time::Duration;

/// The part of a shutdown's bound that the daemon has before the cells end, where it wants it.
pub const FIRST_PART: f64 = 0.4;

/// By how much a shutdown's bound becomes longer where the daemon needs this long in its part: in
/// whole seconds, as people read it.
pub fn longer_by(bound: Duration, needs: Duration) -> Duration {
    let exact = needs.saturating_sub(bound.mul_f64(FIRST_PART));
    let part = u64::from(exact.subsec_millis() > 0);
    Duration::from_secs(exact.as_secs().saturating_add(part))
}
