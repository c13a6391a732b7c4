// SPDX-License-Identifier: Apache-2.0
//! The fields of a cron pattern, said so that `croner` means by them what Debian's cron does: lists
//! with `*`, names where they belong, and which day fields must both match. Pure; a value's bounds
//! are checked by `croner`.

/// A field: what its values may be called, and the range that `*` stands for.
struct Field {
    names: &'static [&'static str],
    all: &'static str,
}

const fn numbers(all: &'static str) -> Field {
    Field { names: &[], all }
}

/// In their order. Patterns of five have no seconds.
const FIELDS: [Field; 6] = [
    numbers("0-59"),
    numbers("0-59"),
    numbers("0-23"),
    numbers("1-31"),
    Field {
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
        all: "1-12",
    },
    Field {
        names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
        all: "0-6",
    },
];

/// What was read.
pub(super) struct Fields {
    /// For `croner`.
    pub(super) text: String,
    /// Of the days of month and week, one begins with `*`: a day must match both. cron asks for no
    /// more than that first character, so `*/2` counts as `*` does.
    pub(super) needs_both_days: bool,
    /// No field of the time of day begins with `*`.
    pub(super) is_fixed: bool,
}

impl Fields {
    /// Reads five words or six.
    pub(super) fn read(words: &[&str]) -> Result<Self, String> {
        let kinds = FIELDS.iter().skip(FIELDS.len().saturating_sub(words.len()));
        let texts = kinds.zip(words).map(|(field, word)| field.read(word));
        let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
        let (times, days) = words.split_at(words.len().saturating_sub(3));
        let is_star = |word: &&str| word.starts_with('*');
        Ok(Self {
            text: texts.join(" "),
            needs_both_days: days.iter().step_by(2).any(is_star),
            is_fixed: !times.iter().any(is_star),
        })
    }
}

/// At the end of a range `croner` takes `sun` for 7. Behind a Sunday it is 0, as it is for cron.
fn sunday(part: &str) -> String {
    let part = part.to_ascii_lowercase();
    match part.split_once("-sun") {
        Some((from, step)) if from == "sun" || from.parse() == Ok(0_u8) => format!("0-0{step}"),
        _ => part,
    }
}

impl Field {
    fn read(&self, word: &str) -> Result<String, String> {
        if word == "*" {
            return Ok(word.to_owned());
        }
        let parts = word.split(',').map(|part| match part {
            "" => Err(format!("{word:?} lacks a value")),
            "*" => Ok(self.all.to_owned()),
            part => self.check_words(part).map(|()| sunday(part)),
        });
        Ok(parts.collect::<Result<Vec<_>, _>>()?.join(","))
    }

    /// `L` and `W`, by themselves or behind a value, are left to `croner`.
    fn check_words(&self, part: &str) -> Result<(), String> {
        let (values, step) = part.split_once('/').unwrap_or((part, ""));
        let is_digits = |word: &str| word.bytes().all(|it| it.is_ascii_digit());
        let is_value = |word: &str| is_digits(word) || self.names.contains(&word);
        let is_word = |word: &&str| {
            let word = word.to_ascii_lowercase();
            let bare = word.strip_suffix(['l', 'w']).unwrap_or(&word);
            is_value(&word) || is_value(bare) || bare == "l"
        };
        let mut words = values.split(|c: char| !c.is_ascii_alphanumeric());
        match words.find(|word| !is_word(word)) {
            Some(wrong) => Err(format!("{wrong:?} is no value of this field")),
            None if !is_digits(step) => Err(format!("{step:?} is no step")),
            None => Ok(()),
        }
    }
}
