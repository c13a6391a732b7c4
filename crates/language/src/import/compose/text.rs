// SPDX-License-Identifier: Apache-2.0
//! What is written in Compose's texts: `${VARIABLES}`, words of a shell, sizes, times, names.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::import::write::is_name;

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// `${NAME}`, `${NAME:-default}`.
    Variable {
        name: String,
        default: Option<String>,
    },
    /// `${NAME:+text}`: that text where the variable has one.
    Where {
        name: String,
        text: String,
    },
}

/// Takes a text apart as Compose does. What is no variable is text.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    let mut odd = 0;
    while let Some(at) = rest.find('$').filter(|_| odd < ODD) {
        let (before, behind) = rest.split_at(at);
        plain.push_str(before);
        let behind = behind.get(1..).unwrap_or_default();
        if let Some(behind) = behind.strip_prefix('$') {
            plain.push('$');
            rest = behind;
            continue;
        }
        match variable(behind) {
            Some((piece, length)) => {
                if !plain.is_empty() {
                    found.push(Piece::Text(std::mem::take(&mut plain)));
                }
                found.push(piece);
                rest = behind.get(length..).unwrap_or_default();
            }
            None => {
                plain.push('$');
                rest = behind;
                odd += 1;
            }
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        found.push(Piece::Text(plain));
    }
    found
}

/// What stands behind a `$`, and how long that is.
fn variable(text: &str) -> Option<(Piece, usize)> {
    let named = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        is_name(name).then(|| name.to_owned())
    };
    let Some(inner) = text.strip_prefix('{') else {
        let name = named(text)?;
        let length = name.len();
        let default = None;
        return Some((Piece::Variable { name, default }, length));
    };
    let inner = inner.get(..closing(inner)?)?;
    let name = named(inner)?;
    let said = inner.get(name.len()..).unwrap_or_default();
    let said = said.strip_prefix(':').unwrap_or(said);
    let piece = match (said.chars().next(), said.get(1..)) {
        (Some('-'), Some(default)) => Piece::Variable {
            name,
            default: Some(substituted(default)),
        },
        (Some('+'), Some(text)) => Piece::Where {
            name,
            text: substituted(text),
        },
        // `?` says what to tell who gives no value.
        (None | Some('?'), _) => Piece::Variable {
            name,
            default: None,
        },
        _ => return None,
    };
    Some((piece, inner.len() + 2))
}

/// The longest variable with its default, in characters: defaults may hold variables with defaults.
const LONGEST: usize = 1024;
/// How many `$` of a text may be none of a variable before all that follows is text.
const ODD: usize = 64;

/// Where the brace ends that a variable began with.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices().take(LONGEST) {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The text with every variable's default in its place.
pub(super) fn substituted(text: &str) -> String {
    let pieces = pieces(text).into_iter();
    let text = pieces.map(|piece| match piece {
        Piece::Text(text) => text,
        Piece::Variable { default, .. } => default.unwrap_or_default(),
        Piece::Where { .. } => String::new(),
    });
    text.collect()
}

/// A command as a shell splits it, without doing anything else that a shell does.
pub(super) fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = command.chars();
    while let Some(c) = letters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = letters.next().unwrap_or('\\');
                // Between quotes only these lose their meaning by it.
                if quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
                    word.get_or_insert_default().push('\\');
                }
                word.get_or_insert_default().push(next);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// `512m`, `1gb`, `64k`, `1073741824`: bytes, by powers of 1024.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let factor: u64 = match unit.trim_end_matches("ib").trim_end_matches('b').trim() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return None,
    };
    match number.split_once('.') {
        None => number.parse::<u64>().ok()?.checked_mul(factor),
        Some(_) => whole(number.parse::<f64>().ok()? * in_float(factor)),
    }
}

/// `0.5`: thousandths of a CPU.
pub(super) fn millis_of_cpu(text: &str) -> Option<u64> {
    whole(text.trim().parse::<f64>().ok()? * 1000.0)
}

fn in_float(number: u64) -> f64 {
    // A power of two up to 2^40 has an exact float.
    #[allow(clippy::cast_precision_loss, reason = "exact, as said above")]
    let float = number as f64;
    float
}

fn whole(number: f64) -> Option<u64> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is in the range of what a float holds exactly"
    )]
    let whole = (0.0..9e15).contains(&number).then(|| number.round() as u64);
    whole
}

/// `1m30s`, `500ms`, `1.5h`.
pub(super) fn time(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    (!rest.is_empty()).then_some(())?;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, behind) = rest.split_at(end);
        let end = behind.find(|c: char| c.is_ascii_digit());
        let (unit, behind) = behind.split_at(end.unwrap_or(behind.len()));
        let seconds = match unit {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = behind;
    }
    Some(total)
}

/// A DNS label made of any name.
pub(in crate::import) fn label(name: &str) -> String {
    let letters = name.chars().map(|c| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    });
    let label: String = letters.take(63).collect();
    match label.trim_matches('-') {
        "" => "unnamed".to_owned(),
        label => label.to_owned(),
    }
}

/// A name that isn't taken yet, made of another: `web`, `web-2`.
pub(in crate::import) fn unique(
    taken: &mut BTreeSet<String>,
    wanted: &str,
    between: &str,
) -> String {
    let mut name = wanted.to_owned();
    let mut count = 1;
    while !taken.insert(name.clone()) {
        count += 1;
        name = format!("{wanted}{between}{count}");
    }
    name
}

/// A constant's name made of any name: `my-app` becomes `myApp`.
pub(super) fn camel(name: &str) -> String {
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    let mut text = String::new();
    for part in parts.filter(|part| !part.is_empty()) {
        let mut letters = part.chars();
        let first = letters.next().into_iter();
        match text.is_empty() {
            true => text.extend(first.map(|c| c.to_ascii_lowercase())),
            false => text.extend(first.map(|c| c.to_ascii_uppercase())),
        }
        text.extend(letters);
    }
    match text.chars().next() {
        Some(c) if c.is_ascii_alphabetic() => text,
        _ => format!("it{text}"),
    }
}
