// SPDX-License-Identifier: Apache-2.0
//! Times, durations and enumerations: the parts that every message has.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use model::error::{Error, Result};
use model::time::Timestamp;

/// The most seconds a duration may have: 100 years.
const MAX_SECONDS: u64 = 100 * 366 * 86_400;

/// A duration from 0 to 100 years.
///
/// # Errors
/// `INVALID_FIELD`, naming `field`: it is negative, longer, or has 10⁹ nanoseconds or more.
pub fn duration(field: &str, wire: &prost_types::Duration) -> Result<Duration> {
    let seconds = u64::try_from(wire.seconds);
    let nanos = u32::try_from(wire.nanos);
    match (seconds, nanos) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 && seconds <= MAX_SECONDS => {
            Ok(Duration::new(seconds, nanos))
        }
        (Ok(seconds), Ok(_)) if seconds > MAX_SECONDS => {
            Err(Error::invalid(field, "must be at most 100 years"))
        }
        (Ok(_), Ok(_)) => Err(Error::invalid(
            field,
            "must have less than 10^9 nanoseconds",
        )),
        _ => Err(Error::invalid(field, "must not be negative")),
    }
}

/// [`duration`] of a field that may be absent.
///
/// # Errors
/// Those of [`duration`].
pub fn maybe_duration(
    field: &str,
    wire: Option<&prost_types::Duration>,
) -> Result<Option<Duration>> {
    wire.map(|wire| duration(field, wire)).transpose()
}

/// A duration for the wire; more than it can hold is the most that it can.
pub fn to_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// A moment from 1970 to 2554.
///
/// # Errors
/// `INVALID_FIELD`, naming `field`: it is outside of that, or has 10⁹ nanoseconds or more.
pub fn timestamp(field: &str, wire: &prost_types::Timestamp) -> Result<Timestamp> {
    let parts = u64::try_from(wire.seconds).ok().zip(
        u32::try_from(wire.nanos)
            .ok()
            .filter(|n| *n < 1_000_000_000),
    );
    parts
        .and_then(|(seconds, nanos)| Timestamp::from_parts(seconds, nanos))
        .ok_or_else(|| Error::invalid(field, "must be a moment from 1970 to 2554"))
}

/// [`timestamp`] of a field that may be absent.
///
/// # Errors
/// Those of [`timestamp`].
pub fn maybe_timestamp(
    field: &str,
    wire: Option<&prost_types::Timestamp>,
) -> Result<Option<Timestamp>> {
    wire.map(|wire| timestamp(field, wire)).transpose()
}

/// A moment for the wire.
pub fn to_timestamp(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(time.seconds()).unwrap_or(i64::MAX),
        nanos: i32::try_from(time.subsecond_nanos()).unwrap_or(0),
    }
}

/// The value of an enumeration. An unknown number is not taken for the default.
///
/// # Errors
/// `INVALID_FIELD`, naming `field`: this node doesn't know the number.
pub fn enumeration<E: TryFrom<i32>>(field: &str, number: i32) -> Result<E> {
    E::try_from(number).map_err(|_| {
        Error::invalid(field, format!("is {number}, which this node does not know"))
            .hint("the client may be newer than the node; compare `aurae version`")
    })
}

/// A value that is written as text.
///
/// # Errors
/// `INVALID_FIELD`, naming `field`: what `T` says of the text.
pub fn parse<T>(field: &str, text: &str) -> Result<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    text.parse().map_err(|e: T::Err| Error::invalid(field, e))
}

/// [`parse`] of a field in which an empty text means absent.
///
/// # Errors
/// Those of [`parse`].
pub fn maybe_parse<T>(field: &str, text: &str) -> Result<Option<T>>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    if text.is_empty() {
        return Ok(None);
    }
    parse(field, text).map(Some)
}

/// A message that the request must have.
///
/// # Errors
/// `INVALID_FIELD`, naming `field`: it is absent.
pub fn required<T>(field: &str, message: Option<T>) -> Result<T> {
    message.ok_or_else(|| Error::invalid(field, "is required"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_moments_that_cant_be_are_refused() {
        let wire = |seconds, nanos| prost_types::Duration { seconds, nanos };
        assert_eq!(duration("f", &wire(1, 5)).unwrap(), Duration::new(1, 5));
        for bad in [
            wire(-1, 0),
            wire(0, -1),
            wire(0, 1_000_000_000),
            wire(i64::MAX, 0),
        ] {
            assert!(duration("f", &bad).is_err(), "{bad:?}");
        }
        let wire = |seconds, nanos| prost_types::Timestamp { seconds, nanos };
        let time = timestamp("f", &wire(1_700_000_000, 5)).unwrap();
        assert_eq!(to_timestamp(time), wire(1_700_000_000, 5));
        for bad in [
            wire(-1, 0),
            wire(0, -1),
            wire(i64::MAX, 0),
            wire(0, i32::MAX),
        ] {
            assert!(timestamp("f", &bad).is_err(), "{bad:?}");
        }
    }
}
