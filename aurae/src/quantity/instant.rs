// SPDX-License-Identifier: Apache-2.0
//! Points in time: `10m` (ago), RFC 3339, a date (UTC), `@SECONDS`.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::parse_duration;

const EXPECTED: &str =
    "write a point in time as 10m (ago), 2026-01-31T12:00:00Z, 2026-01-31 or @SECONDS";

/// Parses a point in time, relative to now.
pub(crate) fn parse_instant(text: &str) -> Result<prost_types::Timestamp, String> {
    parse_at(text, SystemTime::now()).map(prost_types::Timestamp::from)
}

fn parse_at(text: &str, now: SystemTime) -> Result<SystemTime, String> {
    let fail = || EXPECTED.to_owned();
    if text == "now" {
        return Ok(now);
    }
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds: i64 = seconds.parse().map_err(|_| fail())?;
        return Timestamp::from_second(seconds)
            .map(Into::into)
            .map_err(|_| fail());
    }
    let plain_number = text.bytes().all(|b| b.is_ascii_digit());
    if let Some(span) = parse_duration(text).ok().filter(|_| !plain_number) {
        return now.checked_sub(span).ok_or_else(fail);
    }
    let parsed = text
        .parse::<Timestamp>()
        .or_else(|_| utc(text.parse::<DateTime>()?))
        .or_else(|_| {
            utc(text
                .parse::<Date>()?
                .to_datetime(jiff::civil::Time::midnight()))
        });
    parsed.map(Into::into).map_err(|_: jiff::Error| fail())
}

fn utc(time: DateTime) -> Result<Timestamp, jiff::Error> {
    TimeZone::UTC.to_timestamp(time)
}

/// RFC 3339 in UTC, to the millisecond; `-` when absent or out of range.
pub(crate) fn format_instant(time: Option<&prost_types::Timestamp>) -> String {
    time.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok())
        .map_or_else(|| "-".to_owned(), |time| format!("{time:.3}"))
}

/// How long ago; zero for the future.
pub(crate) fn since(time: &prost_types::Timestamp) -> Duration {
    SystemTime::try_from(*time)
        .ok()
        .and_then(|time| time.elapsed().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn seconds(text: &str) -> Result<u64, String> {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        parse_at(text, now).map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn points_in_time_as_people_write_them() {
        assert_eq!(seconds("now"), Ok(1_800_000_000));
        assert_eq!(seconds("10m"), Ok(1_799_999_400));
        assert_eq!(seconds("@12"), Ok(12));
        assert_eq!(seconds("1970-01-02T00:00:00Z"), Ok(86_400));
        assert_eq!(seconds("1970-01-02T01:00:00+01:00"), Ok(86_400));
        assert_eq!(seconds("1970-01-02 00:00:01"), Ok(86_401));
        assert_eq!(seconds("1970-01-02"), Ok(86_400));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "yesterday",
            "10",
            "@x",
            "2026-13-01",
            "2026-01-01T25:00:00Z",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_printed_in_utc() {
        let time = prost_types::Timestamp {
            seconds: 0,
            nanos: 5_000_000,
        };
        assert_eq!(format_instant(Some(&time)), "1970-01-01T00:00:00.005Z");
        assert_eq!(format_instant(None), "-");
    }
}
