// SPDX-License-Identifier: Apache-2.0
//! The clock of rows: what `identity`, `tenants` and the service of sets write as the time of a
//! change. The functions of the store itself read no clock, they are told the time. Crates that
//! have `kernel` and no rows read `kernel::time`.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970, as the node's clock is set: it can jump. 0 before 1970.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}
