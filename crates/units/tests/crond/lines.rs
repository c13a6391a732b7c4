// SPDX-License-Identifier: Apache-2.0
//! Lines of a crontab at random, without their commands, and what spoils them.

/// Numbers that look random and are the same for a seed (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

/// A field: its bounds, its names from the lowest value on, and how often it is `*`.
struct Field {
    low: usize,
    high: usize,
    names: &'static [&'static str],
    stars: usize,
}

const fn field(low: usize, high: usize, names: &'static [&'static str], stars: usize) -> Field {
    Field {
        low,
        high,
        names,
        stars,
    }
}

const MONTHS: [&str; 12] = [
    "jan", "Feb", "mar", "APR", "may", "jun", "Jul", "aug", "SEP", "oct", "nov", "Dec",
];
const DAYS: [&str; 7] = ["sun", "Mon", "tue", "WED", "thu", "Fri", "sat"];
/// Jobs of each minute would make a window last.
const FIELDS: [Field; 5] = [
    field(0, 59, &[], 2),
    field(0, 23, &[], 15),
    field(1, 31, &[], 40),
    field(1, 12, &MONTHS, 60),
    field(0, 7, &DAYS, 40),
];
const NICKNAMES: [&str; 7] = [
    "@hourly",
    "@daily",
    "@midnight",
    "@weekly",
    "@monthly",
    "@yearly",
    "@annually",
];

/// Values that a window has, by field: half of a line's values are of these, if there are any.
pub(super) type Focus = [Vec<usize>; 5];

/// A line that cron takes.
pub(super) fn line(random: &mut Random, focus: &Focus) -> String {
    if random.percent(2) {
        return NICKNAMES[random.below(NICKNAMES.len())].to_owned();
    }
    let fields = FIELDS.iter().zip(focus);
    let fields: Vec<String> = fields.map(|(it, focus)| it.text(random, focus)).collect();
    fields.join(" ")
}

/// A line of which one character was changed, left out or put in.
pub(super) fn spoilt(random: &mut Random, focus: &Focus) -> String {
    const PUT: &[u8] = b"0123456789012345**,,--//jsmonx";
    let mut line = line(random, focus).into_bytes();
    let put = PUT[random.below(PUT.len())];
    let at = random.below(line.len());
    match random.below(3) {
        _ if line[at] == b' ' => line.insert(at, put),
        0 => line[at] = put,
        1 => drop(line.remove(at)),
        _ => line.insert(at, put),
    }
    String::from_utf8(line).unwrap()
}

/// What a number or a name stands for.
pub(super) fn value(word: &str) -> Option<usize> {
    let place = |names: &[&str]| names.iter().position(|it| it.eq_ignore_ascii_case(word));
    let named = || place(&DAYS).or_else(|| Some(place(&MONTHS)? + 1));
    word.parse().ok().or_else(named)
}

impl Field {
    fn text(&self, random: &mut Random, focus: &[usize]) -> String {
        if random.percent(self.stars) {
            return "*".to_owned();
        }
        let more = random.percent(30).then(|| 1 + random.below(3));
        let parts = (0..=more.unwrap_or(0)).map(|_| self.part(random, focus));
        parts.collect::<Vec<_>>().join(",")
    }

    fn part(&self, random: &mut Random, focus: &[usize]) -> String {
        let step = |random: &mut Random| match random.percent(50) {
            true => format!("/{}", 1 + random.below(self.high + 2)),
            false => String::new(),
        };
        match random.below(20) {
            // A star with a step, or, where jobs of each value aren't many, without.
            0 | 1 if self.high > 31 => format!("*/{}", 5 + random.below(self.high)),
            0 | 1 => format!("*{}", step(random)),
            2..=6 => {
                let (one, other) = (self.value(random, focus), self.value(random, focus));
                let (from, to) = (one.min(other), one.max(other));
                format!(
                    "{}-{}{}",
                    self.named(random, from),
                    self.named(random, to),
                    step(random)
                )
            }
            _ => {
                let value = self.value(random, focus);
                self.named(random, value)
            }
        }
    }

    fn value(&self, random: &mut Random, focus: &[usize]) -> usize {
        match focus.is_empty() || random.percent(50) {
            true => self.low + random.below(self.high - self.low + 1),
            false => focus[random.below(focus.len())],
        }
    }

    fn named(&self, random: &mut Random, value: usize) -> String {
        match self.names.get(value - self.low) {
            Some(name) if random.percent(40) => (*name).to_owned(),
            _ if random.percent(10) => format!("{value:02}"),
            _ => value.to_string(),
        }
    }
}
