// SPDX-License-Identifier: Apache-2.0
//! Calendar expressions as systemd.time(7) has them, and their next times over changes of clocks.

use super::zones::{FileZones, UtcOnly};
use super::*;
use crate::files::Memory;
use jiff::Timestamp;
use proptest::prelude::*;

/// Berlin as POSIX writes it, in a zone file of its own: the machine's need not be there.
struct Berlin;

impl Zones for Berlin {
    fn zone(&self, name: &str) -> Option<jiff::tz::TimeZone> {
        (name == "Europe/Berlin").then(|| self.local())
    }

    fn local(&self) -> jiff::tz::TimeZone {
        jiff::tz::TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }
}

fn normalised(text: &str) -> String {
    Calendar::parse(text, &Berlin)
        .unwrap_or_else(|e| panic!("{e}"))
        .to_string()
}

#[test]
fn expressions_are_normalised_as_in_the_manual() {
    // systemd.time(7), "Calendar events", the table of examples.
    for (text, expected) in [
        (
            "Sat,Thu,Mon..Wed,Sat..Sun",
            "Mon..Thu,Sat,Sun *-*-* 00:00:00",
        ),
        ("Mon,Sun 12-*-* 2,1:23", "Mon,Sun 2012-*-* 01,02:23:00"),
        ("Wed *-1", "Wed *-*-01 00:00:00"),
        ("Wed..Wed,Wed *-1", "Wed *-*-01 00:00:00"),
        ("Wed, 17:48", "Wed *-*-* 17:48:00"),
        (
            "Wed..Sat,Tue 12-10-15 1:2:3",
            "Tue..Sat 2012-10-15 01:02:03",
        ),
        ("*-*-7 0:0:0", "*-*-07 00:00:00"),
        ("10-15", "*-10-15 00:00:00"),
        ("monday *-12-* 17:00", "Mon *-12-* 17:00:00"),
        ("Mon,Fri *-*-3,1,2 *:30:45", "Mon,Fri *-*-01,02,03 *:30:45"),
        ("12,14,13,12:20,10,30", "*-*-* 12,13,14:10,20,30:00"),
        ("12..14:10,20,30", "*-*-* 12..14:10,20,30:00"),
        ("mon,fri *-1/2-1,3 *:30:45", "Mon,Fri *-01/2-01,03 *:30:45"),
        ("03-05 08:05:40", "*-03-05 08:05:40"),
        ("08:05:40", "*-*-* 08:05:40"),
        ("05:40", "*-*-* 05:40:00"),
        ("Sat,Sun 12-05 08:05:40", "Sat,Sun *-12-05 08:05:40"),
        ("Sat,Sun 08:05:40", "Sat,Sun *-*-* 08:05:40"),
        ("2003-03-05 05:40", "2003-03-05 05:40:00"),
        (
            "05:40:23.4200004/3.1700005",
            "*-*-* 05:40:23.420000/3.170001",
        ),
        ("2003-02..04-05", "2003-02..04-05 00:00:00"),
        ("2003-03-05 05:40 UTC", "2003-03-05 05:40:00 UTC"),
        ("2003-03-05", "2003-03-05 00:00:00"),
        ("hourly", "*-*-* *:00:00"),
        ("daily", "*-*-* 00:00:00"),
        ("daily UTC", "*-*-* 00:00:00 UTC"),
        ("monthly", "*-*-01 00:00:00"),
        ("weekly", "Mon *-*-* 00:00:00"),
        ("weekly Europe/Berlin", "Mon *-*-* 00:00:00 Europe/Berlin"),
        ("yearly", "*-01-01 00:00:00"),
        ("annually", "*-01-01 00:00:00"),
        ("*:2/3", "*-*-* *:02/3:00"),
        ("quarterly", "*-01,04,07,10-01 00:00:00"),
        ("Semiannually", "*-01,07-01 00:00:00"),
        ("*-02~03", "*-02~03 00:00:00"),
        ("Mon *-05~07/1", "Mon *-05~07/1 00:00:00"),
        ("@1395716396", "2014-03-25 02:59:56 UTC"),
        ("12:00 CEST", "*-*-* 12:00:00 CEST"),
    ] {
        assert_eq!(normalised(text), expected, "{text}");
    }
}

#[test]
fn what_is_none_is_refused() {
    for text in [
        "",
        "7",
        "25:00",
        "*-13-*",
        "*-*-32",
        "*-*~29",
        "Mon..",
        "Sun..Mon 12:00",
        "*:0/0",
        "*:5/60",
        "12:00:60",
        "Foo 12:00",
        "12:00 Nowhere/Land",
        "*-*-*-*",
        "1:2:3:4",
        "*/2:00",
        "@x",
        "Mon Tue",
        "5..3:00",
        "2200-01-01",
        "1969-01-01",
        " 12:00",
    ] {
        assert!(Calendar::parse(text, &Berlin).is_err(), "{text}");
    }
}

fn times(text: &str, after: &str, count: usize) -> Vec<String> {
    let calendar = Calendar::parse(text, &Berlin).unwrap();
    let mut at: Timestamp = after.parse().unwrap();
    let mut found = Vec::new();
    for _ in 0..count {
        let Some(next) = calendar.next(at.as_microsecond(), &Berlin) else {
            break;
        };
        at = Timestamp::from_microsecond(next).unwrap();
        found.push(at.to_string());
    }
    found
}

#[test]
fn the_next_time_is_the_first_one_that_matches() {
    for (text, after, expected) in [
        (
            "*-*-* 00:00:00 UTC",
            "2026-12-31T00:00:00Z",
            "2027-01-01T00:00:00Z",
        ),
        (
            "*-02-29 UTC",
            "2026-01-01T00:00:00Z",
            "2028-02-29T00:00:00Z",
        ),
        (
            "*-02~01 UTC",
            "2028-01-01T00:00:00Z",
            "2028-02-29T00:00:00Z",
        ),
        (
            "Mon *-05~07/1 UTC",
            "2026-01-01T00:00:00Z",
            "2026-05-25T00:00:00Z",
        ),
        ("*-*~03..01 UTC", "2026-02-27T00:00:00Z", ""),
        (
            "*:*:0.5 UTC",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:00:00.5Z",
        ),
        (
            "Fri *-*-13 UTC",
            "2026-01-01T00:00:00Z",
            "2026-02-13T00:00:00Z",
        ),
        ("2020-01-01 UTC", "2026-01-01T00:00:00Z", ""),
        (
            "*-*-* 12:00",
            "2026-07-01T10:00:00Z",
            "2026-07-02T10:00:00Z",
        ),
        ("*-02-31 UTC", "2026-01-01T00:00:00Z", ""),
        // Not as systemd 252, which passes this one over at the end of a month.
        (
            "1,13/7:31 UTC",
            "2026-01-31T20:31:00Z",
            "2026-02-01T01:31:00Z",
        ),
        (
            "*-*-2/8 UTC",
            "2026-12-26T20:31:00Z",
            "2027-01-02T00:00:00Z",
        ),
        (
            "*:0/7:10 UTC",
            "2026-01-01T00:56:11Z",
            "2026-01-01T01:00:10Z",
        ),
    ] {
        if Calendar::parse(text, &Berlin).is_err() {
            assert_eq!(expected, "", "{text}");
            continue;
        }
        let found = times(text, after, 1);
        assert_eq!(found.first().map_or("", String::as_str), expected, "{text}");
    }
}

#[test]
fn a_time_that_the_clock_skips_is_skipped() {
    // 28 March 2027, 02:00 to 03:00 isn't there.
    assert_eq!(
        times("02:30", "2027-03-26T12:00:00Z", 3),
        [
            "2027-03-27T01:30:00Z",
            "2027-03-29T00:30:00Z",
            "2027-03-30T00:30:00Z"
        ]
    );
    assert_eq!(
        times("hourly", "2027-03-27T23:30:00Z", 3),
        [
            "2027-03-28T00:00:00Z",
            "2027-03-28T01:00:00Z",
            "2027-03-28T02:00:00Z"
        ]
    );
    assert_eq!(
        times("*:*:*", "2027-03-28T00:59:59Z", 1),
        ["2027-03-28T01:00:00Z"]
    );
}

#[test]
fn a_time_that_the_clock_shows_twice_comes_once() {
    // 25 October 2026, 02:00 to 03:00 is there twice.
    assert_eq!(
        times("02:30", "2026-10-24T12:00:00Z", 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    assert_eq!(
        times("hourly", "2026-10-24T23:30:00Z", 3),
        [
            "2026-10-25T00:00:00Z",
            "2026-10-25T02:00:00Z",
            "2026-10-25T03:00:00Z"
        ]
    );
    // Who asks between the two gets the second one.
    assert_eq!(
        times("02:30", "2026-10-25T01:10:00Z", 1),
        ["2026-10-25T01:30:00Z"]
    );
}

#[test]
fn an_abbreviation_is_a_season() {
    assert_eq!(
        times("03:15 CET", "2026-07-01T00:00:00Z", 1),
        ["2026-10-25T02:15:00Z"]
    );
    assert_eq!(
        times("*:*:* CEST", "2026-12-01T00:00:00Z", 1),
        ["2027-03-28T01:00:00Z"]
    );
    assert_eq!(
        times("02:30 CET", "2026-10-24T00:00:00Z", 1),
        ["2026-10-25T01:30:00Z"]
    );
    assert_eq!(
        times("03:15 CEST", "2026-12-01T00:00:00Z", 1),
        ["2027-03-28T01:15:00Z"]
    );
}

#[test]
fn zones_come_from_the_machines_files() {
    let files = Memory::new();
    let zones = FileZones(&files);
    assert!(zones.zone("Europe/Berlin").is_none());
    assert!(zones.zone("../../etc/passwd").is_none());
    assert_eq!(zones.local(), jiff::tz::TimeZone::UTC);
    let names = Berlin.local_names();
    assert_eq!(names.standard.as_deref(), Some("CET"));
    assert_eq!(names.daylight.as_deref(), Some("CEST"));
}

proptest! {
    #[test]
    fn what_is_normal_stays_so(text in "[0-9*/,.~: -]{0,20}( UTC)?|(Mon|Tue)(,Fri|..Sat)? [0-9*:-]{1,10}") {
        if let Ok(calendar) = Calendar::parse(&text, &UtcOnly) {
            let shown = calendar.to_string();
            let again = Calendar::parse(&shown, &UtcOnly);
            prop_assert_eq!(again.map(|it| it.to_string()), Ok(shown));
        }
    }

    #[test]
    fn times_only_go_forward(
        minute in 0u32..60, step in 1u32..30, day in 1u32..32, at in 0i64..4_000_000_000_000_000,
    ) {
        let text = format!("*-*-{day} *:{minute}/{step}");
        if let Ok(calendar) = Calendar::parse(&text, &Berlin) {
            let first = calendar.next(at, &Berlin).unwrap();
            let second = calendar.next(first, &Berlin).unwrap();
            prop_assert!(at < first && first < second);
            // Nothing is between: who asks a moment before gets the same.
            prop_assert_eq!(calendar.next(first - 1, &Berlin), Some(first));
        }
    }

    #[test]
    fn no_text_does_harm(text: String) {
        if let Ok(calendar) = Calendar::parse(&text, &Berlin) {
            let _ = calendar.next(0, &Berlin);
        }
    }
}
