// SPDX-License-Identifier: Apache-2.0
//! Calendar expressions and spans of time, beside systemd's own program on random ones. The number
//! of expressions is `AURAE_ORACLE`, or 1,000.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by them"
)]

use std::process::Command;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use units::calendar::{Calendar, Zones};
use units::time::Span;

/// So many expressions are given to one call.
const AT_ONCE: usize = 500;
/// So many times of each are compared.
const TIMES: usize = 4;

/// The machine's zones, the local one by name.
struct Machine(&'static str);

impl Zones for Machine {
    fn zone(&self, name: &str) -> Option<TimeZone> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_+/".contains(c);
        let data = std::fs::read(format!("/usr/share/zoneinfo/{name}")).ok();
        let data = data.filter(|_| name.chars().all(plain))?;
        TimeZone::tzif(name, &data).ok()
    }

    fn local(&self) -> TimeZone {
        self.zone(self.0).unwrap_or(TimeZone::UTC)
    }
}

/// Numbers that look random and are the same each time (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        let index = usize::try_from(self.below(of.len() as u64)).unwrap();
        of[index]
    }
}

fn count() -> usize {
    let given = std::env::var("AURAE_ORACLE").ok();
    given.and_then(|it| it.parse().ok()).unwrap_or(1000)
}

fn has_program() -> bool {
    let version = Command::new("systemd-analyze").arg("--version").output();
    let text = version.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    if text.unwrap_or_default().starts_with("systemd 252") {
        return true;
    }
    testkit::skip("systemd-analyze of systemd 252 is not there");
    false
}

/// One field, mostly valid.
fn field(random: &mut Random, low: u64, high: u64, fraction: bool) -> String {
    let value = |random: &mut Random| {
        let wild = random.below(60) == 0;
        let value = low + random.below(if wild { 2 * high } else { high - low + 1 });
        match (fraction, random.below(6)) {
            (true, 0) => format!("{value}.{}", random.below(10_000_000)),
            (_, 1 | 2) => format!("{value:02}"),
            _ => value.to_string(),
        }
    };
    let mut parts = Vec::new();
    for _ in 0..=random.below(8) / 6 {
        parts.push(match random.below(10) {
            0..=4 => value(random),
            5 | 6 => format!("{}/{}", value(random), 1 + random.below(high / 3)),
            7 | 8 => {
                let (one, other) = (low + random.below(high - low), value(random));
                let step = if random.below(2) == 0 {
                    String::new()
                } else {
                    "/3".to_owned()
                };
                format!("{one}..{other}{step}")
            }
            _ => return "*".to_owned(),
        });
    }
    parts.join(",")
}

const DAYS: [&str; 9] = [
    "Mon",
    "tue",
    "Wednesday",
    "THU",
    "Fri",
    "Sat",
    "sunday",
    "Mo",
    "Friday",
];
const WORDS: [&str; 10] = [
    "minutely",
    "hourly",
    "daily",
    "monthly",
    "weekly",
    "yearly",
    "quarterly",
    "semiannually",
    "annually",
    "Daily",
];
const ZONES: [&str; 9] = [
    " UTC",
    " utc",
    " Europe/Berlin",
    " America/New_York",
    " Pacific/Auckland",
    " Asia/Kolkata",
    " Australia/Lord_Howe",
    " Nowhere/Land",
    " Africa/Cairo",
];

fn expression(random: &mut Random) -> String {
    let mut text = String::new();
    if random.below(12) == 0 {
        text.push_str(random.one(&WORDS));
    } else {
        if random.below(3) == 0 {
            text.push_str(random.one(&DAYS));
            for _ in 0..random.below(3) {
                text.push_str(random.one(&[",", "..", "-", ","]));
                text.push_str(random.one(&DAYS));
            }
            text.push_str(random.one(&[" ", " ", " ", ", "]));
        }
        let date = random.below(4) != 0;
        if date {
            let year = match random.below(12) {
                0 => field(random, 2020, 2040, false),
                1 => field(random, 20, 40, false),
                2 => String::new(),
                _ => "*".to_owned(),
            };
            let dash = if year.is_empty() { "" } else { "-" };
            let month = field(random, 1, 12, false);
            let end = random.below(5) == 0;
            let day = field(random, 1, if end { 28 } else { 31 }, false);
            text.push_str(&format!(
                "{year}{dash}{month}{}{day}",
                if end { "~" } else { "-" }
            ));
        }
        if !date || random.below(3) != 0 {
            let space = if date { " " } else { "" };
            let (hour, minute) = (field(random, 0, 23, false), field(random, 0, 59, false));
            text.push_str(&format!("{space}{hour}:{minute}"));
            if random.below(2) == 0 {
                text.push_str(&format!(":{}", field(random, 0, 59, true)));
            }
        }
    }
    if random.below(3) == 0 {
        text.push_str(random.one(&ZONES));
    }
    text
}

/// The normal form and the next times (whole seconds since 1970), or nothing where it is refused.
type Answer = Option<(String, Vec<i64>)>;

fn theirs(expressions: &[String], zone: &str, base: i64) -> Vec<Answer> {
    let output = Command::new("systemd-analyze")
        .env("TZ", zone)
        .env("LC_ALL", "C")
        .args(["calendar", &format!("--iterations={TIMES}")])
        .arg(format!("--base-time=@{base}"))
        .arg("--")
        .args(expressions)
        .output()
        .unwrap();
    let refused = String::from_utf8(output.stderr).unwrap();
    let refused: Vec<&str> = refused
        .lines()
        .filter_map(|line| line.split_once("specification '")?.1.rsplit_once("':"))
        .map(|(text, _)| text)
        .collect();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let mut blocks: Vec<(String, Vec<i64>)> = Vec::new();
    let mut local = None;
    for line in stdout.lines() {
        let Some((name, value)) = line.split_once(": ") else {
            continue;
        };
        match name.trim() {
            "Normalized form" => blocks.push((value.to_owned(), Vec::new())),
            "From now" | "Original form" => {
                let last = blocks.last_mut();
                last.into_iter()
                    .for_each(|(_, times)| times.extend(local.take()));
            }
            "(in UTC)" => local = seconds(value),
            _ => local = seconds(value),
        }
    }
    let mut blocks = blocks.into_iter();
    let mut refused = refused.into_iter().peekable();
    let answers = expressions.iter().map(|text| {
        if refused.next_if(|it| *it == text).is_some() {
            None
        } else {
            blocks.next()
        }
    });
    answers.collect()
}

/// `Sun 2026-10-25 01:10:00 UTC`; `None` for `never` and for other zones.
fn seconds(text: &str) -> Option<i64> {
    let mut words = text.split(' ').skip(1);
    let (date, time) = (words.next()?, words.next()?);
    if words.next()? != "UTC" {
        return None;
    }
    Some(
        format!("{date}T{time}Z")
            .parse::<Timestamp>()
            .ok()?
            .as_second(),
    )
}

/// Where a step leads out of a month systemd 252 begins the next one where the step ends, and
/// passes over what is before: `*-*-2/8` has no 2 January after 26 December. The manual knows of
/// no such exception, and neither do we. So ours may have more.
fn is_known(text: &str, theirs: &Answer, zones: &dyn Zones, base: i64) -> bool {
    let Some((form, times)) = theirs.as_ref().filter(|_| text.contains('/')) else {
        return false;
    };
    let Some((same, mine)) = ours(text, zones, base, 40 * TIMES) else {
        return false;
    };
    *form == same && times.iter().all(|it| mine.contains(it))
}

fn ours(text: &str, zones: &dyn Zones, base: i64, count: usize) -> Answer {
    let calendar = Calendar::parse(text, zones).ok()?;
    let mut at = base * 1_000_000;
    let mut times = Vec::new();
    for _ in 0..count {
        let Some(next) = calendar.next(at, zones) else {
            break;
        };
        times.push(next.div_euclid(1_000_000));
        at = next;
    }
    Some((calendar.to_string(), times))
}

#[test]
fn calendar_expressions_are_systemds() {
    if !has_program() {
        return;
    }
    let mut random = Random(12);
    let mut wrong = Vec::new();
    let (mut refused, mut done, mut known) = (0, 0, 0);
    while done < count() {
        let zone = random.one(&["UTC", "Europe/Berlin", "America/New_York"]);
        let zone: &'static str = ["UTC", "Europe/Berlin", "America/New_York"]
            .into_iter()
            .find(|it| *it == zone)
            .unwrap();
        let base = 1_700_000_000 + i64::try_from(random.below(400_000_000)).unwrap();
        let expressions: Vec<String> = (0..AT_ONCE).map(|_| expression(&mut random)).collect();
        for (text, theirs) in expressions.iter().zip(theirs(&expressions, zone, base)) {
            done += 1;
            refused += usize::from(theirs.is_none());
            let ours = ours(text, &Machine(zone), base, TIMES);
            if ours != theirs && is_known(text, &theirs, &Machine(zone), base) {
                known += 1;
            } else if ours != theirs {
                wrong.push(format!(
                    "{text:?} at {base} in {zone}: {theirs:?}, ours {ours:?}"
                ));
            }
        }
    }
    println!(
        "{done} expressions, {refused} refused by both, {known} where systemd passes times over"
    );
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused < done / 2 && known <= done / 100);
}

#[test]
fn spans_are_systemds() {
    if !has_program() {
        return;
    }
    const UNITS: [&str; 26] = [
        "s", "sec", "seconds", "min", "m", "minute", "h", "hr", "hours", "d", "days", "w", "week",
        "M", "month", "y", "years", "ms", "msec", "us", "usec", "µs", "", "x", " h", "  min ",
    ];
    let mut random = Random(34);
    let mut wrong = Vec::new();
    for _ in 0..count() / 5 {
        let mut text = String::new();
        for _ in 0..=random.below(3) {
            let number = match random.below(5) {
                0 => format!("{}.{}", random.below(90), random.below(100_000)),
                1 => format!(".{}", random.below(1000)),
                2 => format!("{}.", random.below(10)),
                _ => random.below(5000).to_string(),
            };
            text.push_str(&number);
            text.push_str(random.one(&UNITS));
            text.push_str(random.one(&["", " ", ""]));
        }
        let output = Command::new("systemd-analyze")
            .env("LC_ALL", "C.UTF-8")
            .args(["timespan", "--", &text])
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let of = |name: &str| {
            let found = stdout.lines().find_map(|line| line.split_once(name));
            found.map(|(_, value)| value.trim().to_owned())
        };
        let theirs = of("μs:").zip(of("Human:"));
        let span = Span::parse(&text).ok();
        let ours = span.map(|it| (it.micros().unwrap_or(u64::MAX).to_string(), it.to_string()));
        if ours != theirs {
            wrong.push(format!("{text:?}: {theirs:?}, ours {ours:?}"));
        }
    }
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
