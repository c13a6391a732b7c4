// SPDX-License-Identifier: Apache-2.0
//! The clock of rows: what `identity`, `tenants` and the service of sets write as the time of a
//! change. The functions of the store itself read no clock, they are told the time. Crates that
//! have `kernel` and no rows read `kernel::time`: `store` knows nothing of Linux, `kernel` nothing
//! of rows, so there are these two. A `Timestamp` of the standard library's clock is made by
//! `model`, which reads none itself.

use std::time::SystemTime;

use model::time::Timestamp;

/// Nanoseconds since 1970, as the node's clock is set: it can jump. 0 before 1970.
pub fn now_ns() -> i64 {
    i64::try_from(Timestamp::from(SystemTime::now()).0).unwrap_or(i64::MAX)
}
