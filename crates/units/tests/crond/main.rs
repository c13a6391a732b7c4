// SPDX-License-Identifier: Apache-2.0
//! Crontabs beside Debian's own cron, on random lines: each minute of some windows of time, and
//! which lines are taken at all. `./x soak cron` fetches cron and libfaketime and names where they
//! are; without these nothing is compared. `AURAE_TEST_SEED` says which lines.
//!
//! What differs on purpose is told exactly here, and in the guide (`docs/guide/scheduling.md`).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by them"
)]

mod daemon;
mod lines;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use daemon::{Cron, Packages};
use lines::{Focus, Random};
use model::schedule::When;
use model::schedule::cron::Pattern;
use model::schedule::crontab;
use model::time::Timestamp;
use windows::{WINDOWS, Window};

/// So many lines are in the crontab of each window.
const LINES: usize = 400;
/// So many lines are asked for, of which most are spoilt.
const ASKED: usize = 4000;
/// cron takes Sunday for 0 at the end of a range, too, and such a range for no day. Here it is 7.
const NEVER: [&str; 2] = ["7 * * * fri-sun", "0 0-23 * 1-12 sat-sun"];

/// How often a line runs, by its number and the minute since 1970.
type Runs = BTreeMap<(usize, i64), usize>;

fn seed() -> u64 {
    let given = std::env::var("AURAE_TEST_SEED").ok();
    let seed = given.and_then(|it| it.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("AURAE_TEST_SEED={seed}");
    seed
}

fn packages() -> Option<Packages> {
    let given = Packages::given();
    if given.is_none() {
        println!("left out: `./x soak cron` compares with Debian's cron");
    }
    given.filter(|_| testkit::needs_root("cron gets a mount namespace of its own"))
}

/// The line's pattern, as the node reads it. `None`: it is refused.
fn read(line: &str, zone: &str) -> Option<Pattern> {
    let lines = crontab::read(&format!("{line} true"), false, zone).ok()?;
    match &lines[0].when {
        When::Cron { pattern, zone } => Some(Pattern::new(pattern, zone).unwrap()),
        other => panic!("{line}: {other:?}"),
    }
}

/// The minutes after one up to another.
fn minutes(pattern: &Pattern, from: i64, to: i64) -> Vec<i64> {
    let nanos = |minute: i64| Timestamp(u64::try_from(minute * 60_000_000_000).unwrap());
    let times = std::iter::successors(pattern.after(nanos(from)), |it| pattern.after(*it));
    let times = times.take_while(|it| *it <= nanos(to));
    times
        .map(|it| i64::try_from(it.0 / 60_000_000_000).unwrap())
        .collect()
}

impl Window {
    /// The node's own times.
    fn ours(&self, lines: &[String]) -> Runs {
        let (from, to) = self.bounds();
        let mut runs = Runs::new();
        for (number, line) in lines.iter().enumerate() {
            let pattern = read(line, self.zone).unwrap_or_else(|| panic!("{line:?} is refused"));
            let times = minutes(&pattern, from, to);
            runs.extend(times.into_iter().map(|it| ((number, it), 1)));
        }
        runs
    }

    /// What is expected of cron where the node has these times: no day for `fri-sun`, and behind a
    /// skipped part of a day a run for each time in it, and for the minute that it is then.
    fn expected(&self, lines: &[String], ours: &Runs) -> Runs {
        let mut expected = ours.clone();
        expected.retain(|(number, _), _| !NEVER.contains(&lines[*number].as_str()));
        let Some((end, length)) = self.skipped() else {
            return expected;
        };
        let time = jiff::Timestamp::from_second(end * 60).unwrap();
        let local = end + i64::from(self.zone().to_offset(time).seconds() / 60);
        for ((number, minute), count) in &mut expected {
            let line = &lines[*number];
            if *minute == end && is_fixed(line) {
                // Counted on a clock without changes.
                let skipped = read(line, "UTC").unwrap();
                *count = minutes(&skipped, local - length - 1, local).len();
            }
        }
        expected
    }

    fn theirs(&self, packages: &Packages, lines: &[String]) -> Runs {
        let (from, to) = self.bounds();
        let mut cron = Cron::start(packages, lines, self.zone, from * 60);
        let mut runs = Runs::new();
        for minute in from + 1..=to {
            for number in cron.ran_at(minute * 60) {
                *runs.entry((number, minute)).or_default() += 1;
            }
        }
        runs
    }

    /// What differs, in words.
    fn compared(&self, packages: &Packages, seed: u64) -> Vec<String> {
        let mut random = Random(seed);
        let focus = self.focus();
        let drawn = (0..LINES).map(|_| lines::line(&mut random, &focus));
        let lines: Vec<String> = drawn.chain(NEVER.map(str::to_owned)).collect();
        let started = std::time::Instant::now();
        let ours = self.ours(&lines);
        let (theirs, expected) = (self.theirs(packages, &lines), self.expected(&lines, &ours));
        let used = (0..LINES).filter(|it| theirs.keys().any(|(number, _)| number == it));
        println!(
            "{}: {LINES} lines, {} of which ran {} times in {} minutes; {:.0} s",
            self.what,
            used.count(),
            theirs.values().sum::<usize>(),
            self.hours * 60,
            started.elapsed().as_secs_f64()
        );
        let of = |runs: &Runs, key| runs.get(key).copied().unwrap_or(0);
        let keys: BTreeSet<_> = expected.keys().chain(theirs.keys()).collect();
        let wrong = keys
            .into_iter()
            .filter(|it| of(&expected, it) != of(&theirs, it));
        let mut told = BTreeMap::new();
        for key in wrong {
            let (number, minute) = key;
            let time = jiff::Timestamp::from_second(minute * 60).unwrap();
            told.entry(number).or_insert_with(|| {
                format!(
                    "{}: {:?} first at {}: cron runs it {} times, expected are {}, ours {}",
                    self.what,
                    lines[*number],
                    time.to_zoned(self.zone()),
                    of(&theirs, key),
                    of(&expected, key),
                    of(&ours, key)
                )
            });
        }
        told.into_values().collect()
    }
}

/// By cron(8): neither `@hourly`, nor a `*` in the minute or the hour.
fn is_fixed(line: &str) -> bool {
    let mut times = line.split(' ').take(2);
    line != "@hourly" && !times.any(|it| it.starts_with('*'))
}

#[test]
fn each_line_runs_in_the_minutes_in_which_debians_cron_runs_it() {
    let Some(packages) = packages() else { return };
    let seed = seed();
    let mut wrong = Vec::new();
    for (number, window) in WINDOWS.iter().enumerate() {
        wrong.extend(window.compared(&packages, seed.wrapping_add(number as u64)));
    }
    let count = wrong.len();
    wrong.truncate(40);
    assert!(
        wrong.is_empty(),
        "{count} lines differ\n{}",
        wrong.join("\n")
    );
}

/// Each part of a field is one of crontab(5)'s, and no range goes backwards.
fn is_by_the_book(line: &str) -> bool {
    let is_word = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric());
    let is_part = |part: &str| {
        let (values, step) = part.split_once('/').unwrap_or((part, "1"));
        let (from, to) = values.split_once('-').unwrap_or((values, values));
        let values_of = lines::value(from).zip(lines::value(to));
        let backwards = values_of.is_some_and(|(from, to)| from > to);
        is_word(step) && (values == "*" || is_word(from) && is_word(to) && !backwards)
    };
    line.starts_with('@') || line.split([' ', ',']).all(is_part)
}

#[test]
fn the_lines_that_are_taken_are_those_that_crontab_takes() {
    let Some(packages) = packages() else { return };
    let mut random = Random(seed());
    let focus = Focus::default();
    let lines: Vec<String> = (0..ASKED)
        .map(|_| lines::spoilt(&mut random, &focus))
        .collect();
    let files: Vec<String> = lines.iter().map(|it| format!("{it} true\n")).collect();
    let (mut wrong, mut known, mut refused) = (Vec::new(), 0, 0);
    for (line, theirs) in lines.iter().zip(packages.taken(&files)) {
        let ours = read(line, "UTC").is_some();
        refused += usize::from(!theirs);
        // cron passes over what follows a value, and a range that goes backwards is empty.
        if theirs && !ours && !is_by_the_book(line) {
            known += 1;
        } else if theirs != ours {
            wrong.push(format!("{line:?}: taken by cron: {theirs}, by us: {ours}"));
        }
    }
    println!("{ASKED} lines: {refused} refused by cron, {known} more by us");
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused > ASKED / 10 && known < ASKED / 4);
}
