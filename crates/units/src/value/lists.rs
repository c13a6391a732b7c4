// SPDX-License-Identifier: Apache-2.0
//! Lists: words, units, paths, variables. A wrong member is left out with a note; the others stay.

use super::{Bind, MarkedPath, Parsed, Value};
use crate::exec::environment;
use crate::files::normal;
use crate::finding::shown;
use crate::name::{UnitName, UnitType};
use crate::specifier::{Context, expand};
use crate::syntax::escape::unescaped;
use crate::syntax::words::{Escapes, Word, split};

/// A list has at most so many members.
pub(super) const MOST: usize = 100_000;

/// Adds what `each` makes of every word to what was there.
pub(super) fn collect<T>(
    text: &str,
    escapes: Escapes,
    context: Context<'_>,
    mut old: Vec<T>,
    wrap: fn(Vec<T>) -> Value,
    each: impl Fn(&str) -> Result<T, String>,
) -> Parsed {
    let words = match split(text, escapes) {
        Ok(words) => words,
        Err(open) => {
            let message = "a quote has no end".to_owned();
            return super::Outcome::Ignore(open.offset, message).into();
        }
    };
    let mut notes = Vec::new();
    for word in words {
        if word.strange {
            let message = format!(
                "{} has an escape that isn't one; it is kept",
                shown(&word.raw)
            );
            notes.push((word.offset, message));
        }
        match expanded(&word, context).and_then(|text| each(&text)) {
            Ok(_) if old.len() >= MOST => {
                notes.push((
                    word.offset,
                    format!("the list has more than {MOST} members"),
                ));
                break;
            }
            Ok(value) => old.push(value),
            Err(problem) => notes.push((word.offset, format!("{problem}; it is left out"))),
        }
    }
    Parsed {
        outcome: super::Outcome::Set(wrap(old)),
        notes,
    }
}

fn expanded(word: &Word, context: Context<'_>) -> Result<String, String> {
    expand(&word.text, context)
}

/// Names of units. A template's instance is meant where only the template is named.
pub(super) fn unit(text: &str, context: Context<'_>) -> Result<UnitName, String> {
    let name = UnitName::parse(text)?;
    match (name.is_template(), context.name.instance()) {
        (true, Some(instance)) if !instance.is_empty() => name
            .instantiated(instance)
            .ok_or_else(|| format!("{name} has no such instance")),
        (true, None) => Err(format!("{name} is a template; name an instance of it")),
        _ => Ok(name),
    }
}

/// One unit of a type; an empty type is any.
pub(super) fn unit_of(text: &str, kind: &str, context: Context<'_>) -> Result<UnitName, String> {
    let name = unit(text, context)?;
    match UnitType::from_suffix(kind) {
        Some(kind) if kind != name.kind() => Err(format!("{name} is no {kind} unit")),
        _ => Ok(name),
    }
}

/// An absolute path without `..`, made plain.
pub(super) fn path(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err(format!("{} is no absolute path", shown(text)));
    }
    if text.split('/').any(|part| part == "..") {
        return Err(format!("{} has `..` in it", shown(text)));
    }
    if text.contains('\0') || text.len() >= 4096 {
        return Err(format!("{} is no path that Linux takes", shown(text)));
    }
    Ok(normal(text))
}

/// A path with `-` and `+` before it.
pub(super) fn marked(text: &str, in_root: bool) -> Result<MarkedPath, String> {
    let (optional, rest) = strip(text, '-');
    let (root, rest) = if in_root {
        strip(rest, '+')
    } else {
        (false, rest)
    };
    Ok(MarkedPath {
        path: path(rest)?,
        optional,
        in_root: root,
    })
}

pub(super) fn strip(text: &str, mark: char) -> (bool, &str) {
    match text.strip_prefix(mark) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

/// `SOURCE[:TARGET[:OPTIONS]]`; a colon within a path has a backslash before it.
pub(super) fn bind(text: &str) -> Result<Bind, String> {
    let (optional, rest) = strip(text, '-');
    let parts = colons(rest, String::from);
    let mut parts = parts.iter();
    let source = path(parts.next().map_or("", String::as_str))?;
    let target = match parts.next() {
        Some(target) if !target.is_empty() => path(target)?,
        _ => source.clone(),
    };
    let options = parts.next().cloned().unwrap_or_default();
    if parts.next().is_some() || !matches!(&*options, "" | "rbind" | "norbind") {
        return Err(format!(
            "{} is none of `rbind` and `norbind`",
            shown(&options)
        ));
    }
    Ok(Bind {
        source,
        target,
        optional,
        options,
    })
}

/// `PATH[:OPTIONS]`.
pub(super) fn temporary(text: &str) -> Result<Bind, String> {
    let (target, options) = text.split_once(':').unwrap_or((text, ""));
    let target = path(target)?;
    Ok(Bind {
        source: String::new(),
        target,
        optional: false,
        options: options.to_owned(),
    })
}

/// A folder below one of the system's, and a link to it; a colon within one has a backslash before
/// it.
pub(super) fn folder(text: &str) -> Result<Bind, String> {
    let parts = colons(text, |c| format!("\\{c}")).into_iter();
    // systemd takes several colons for one, and nothing of what is behind the link.
    let mut parts = parts.map(decoded).filter(|it| !it.is_empty());
    let (source, target) = (parts.next(), parts.next());
    let (source, target) = (source.unwrap_or_default(), target.unwrap_or_default());
    let (source, target) = (source.as_str(), target.as_str());
    for part in [source, target] {
        let bad =
            part.starts_with('/') || part.contains('\0') || part.split('/').any(|it| it == "..");
        if bad || part.split('/').next() == Some("private") {
            return Err(format!(
                "{} is no relative path without `..` that doesn't begin with `private`",
                shown(part)
            ));
        }
    }
    let plain = |text: &str| normal(text).trim_start_matches('/').to_owned();
    if plain(source).is_empty() {
        return Err(format!("{} names no folder", shown(text)));
    }
    Ok(Bind {
        source: plain(source),
        target: plain(target),
        optional: false,
        options: String::new(),
    })
}

/// The parts between colons. What a backslash is before is a colon, or what `other` says.
fn colons(text: &str, other: impl Fn(char) -> String) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let kept = match c {
            ':' => {
                parts.push(String::new());
                continue;
            }
            '\\' => match chars.next() {
                None => "\\".to_owned(),
                Some(':') => ":".to_owned(),
                Some(c) => other(c),
            },
            c => c.to_string(),
        };
        if let Some(last) = parts.last_mut() {
            last.push_str(&kept);
        }
    }
    parts
}

/// With its escapes decoded; where one isn't known, as it is written.
fn decoded(part: String) -> String {
    match unescaped(&part) {
        Some(bytes) => String::from_utf8(bytes).unwrap_or(part),
        None => part,
    }
}

/// `NAME=value`.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    environment::assignment(text)
        .ok_or_else(|| format!("{} is no assignment `NAME=value`", shown(text)))
}
