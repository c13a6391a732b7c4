// SPDX-License-Identifier: Apache-2.0
//! How often something may happen within a time (`StartLimitBurst=`, `TriggerLimitBurst=`).

use units::time::Span;

/// No more times than that are remembered, whatever a file says.
const MOST: usize = 10_000;

/// Counts one more, and says whether it is within the limit. Times of earlier boots are never kept.
pub(crate) fn take(times: &mut Vec<u64>, now: u64, interval: Span, burst: u32) -> bool {
    if interval == Span::ZERO || burst == 0 {
        return true;
    }
    let span = super::service::nanos(interval);
    let within = |at: &u64| span.is_none_or(|span| now.saturating_sub(*at) < span);
    times.retain(within);
    let burst = usize::try_from(burst).unwrap_or(MOST).min(MOST);
    if times.len() >= burst {
        return false;
    }
    times.push(now);
    true
}
