// SPDX-License-Identifier: Apache-2.0
//! Timestamps as of RFC 3339, to the nanosecond, of the years 1 to 9999 that Google's message
//! allows.

use jiff::SignedDuration;
use jiff::civil::{DateTime, Time, date};
use jiff::fmt::temporal::Pieces;

const SECOND: i128 = 1_000_000_000;

/// 0001-01-01T00:00:00Z and the last second of 9999.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

/// Why a text is no timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoTimestamp {
    /// Not of the form, or no such day; what the parser says.
    Form(String),
    /// Before the year 1 or after 9999.
    Range,
}

/// Civil times: an instant of the library's ends a day before 9999 does.
const EPOCH: DateTime = date(1970, 1, 1).to_datetime(Time::midnight());

/// Seconds since 1970 and nanoseconds, the latter never negative.
pub(super) fn parse(text: &str) -> Result<(i64, i32), NoTimestamp> {
    let form = |why: &str| NoTimestamp::Form(why.to_owned());
    let pieces = Pieces::parse(text).map_err(|error| form(&error.to_string()))?;
    let time = pieces.time().ok_or_else(|| form("it has no time of day"))?;
    let offset = pieces.to_numeric_offset();
    let offset = offset.ok_or_else(|| form("it has no offset, such as Z or +01:00"))?;
    let local = pieces.date().to_datetime(time).duration_since(EPOCH);
    let total = local.as_nanos() - i128::from(offset.seconds()) * SECOND;
    let seconds = i64::try_from(total.div_euclid(SECOND)).map_err(|_| NoTimestamp::Range)?;
    let nanos = i32::try_from(total.rem_euclid(SECOND)).map_err(|_| NoTimestamp::Range)?;
    if !(FIRST..=LAST).contains(&seconds) {
        return Err(NoTimestamp::Range);
    }
    Ok((seconds, nanos))
}

/// None where the message is none: another year, or nanoseconds that aren't.
pub(super) fn format(seconds: i64, nanos: i32) -> Option<String> {
    let valid = (FIRST..=LAST).contains(&seconds) && (0..1_000_000_000).contains(&nanos);
    let since = valid.then(|| SignedDuration::new(seconds, nanos))?;
    let time = EPOCH.checked_add(since).ok()?;
    Some(format!("{time}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_keep_their_nanoseconds() {
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("1969-12-31T23:59:59.999999999Z", -1, 999_999_999),
            ("2026-01-31T08:00:00.5Z", 1_769_846_400, 500_000_000),
            ("0001-01-01T00:00:00Z", FIRST, 0),
            ("9999-12-31T23:59:59.999999999Z", LAST, 999_999_999),
        ] {
            assert_eq!(parse(text), Ok((seconds, nanos)), "{text}");
            assert_eq!(format(seconds, nanos).as_deref(), Some(text));
        }
        assert_eq!(
            parse("2026-01-31T09:00:00.5+01:00"),
            parse("2026-01-31T08:00:00.5Z")
        );
    }

    #[test]
    fn what_is_no_timestamp_is_refused() {
        for text in [
            "",
            "now",
            "2026-02-30T00:00:00Z",
            "2026-01-01",
            "2026-01-01T00:00:00",
        ] {
            assert!(matches!(parse(text), Err(NoTimestamp::Form(_))), "{text}");
        }
        assert_eq!(parse("0000-12-31T23:59:59Z"), Err(NoTimestamp::Range));
        assert_eq!(format(LAST + 1, 0), None);
        assert_eq!(format(0, -1), None);
    }
}
