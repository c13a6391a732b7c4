// SPDX-License-Identifier: Apache-2.0
//! From a directive's text to its value: one arm for each kind.

use super::lists::{path, strip, unit_of};
use super::members::words;
use super::scalar::{boolean, bounds, limit, mode, number, share, signal, size};
use super::sets::{capabilities, errno, filter, indices, namespaces, statuses, syscalls};
use super::shape::{self, Shape};
use super::{Condition, Credential, Device, Kind, Limit, MarkedPath, Outcome, Parsed, Value};
use crate::calendar::Zones;
use crate::exec::command::{self, BadCommand};
use crate::finding::shown;
use crate::specifier::{Context, expand};
use crate::time::Span;

/// What a text is to be read as.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    /// The directive's name as the table has it.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) context: Context<'a>,
    pub(crate) zones: &'a dyn Zones,
    /// What earlier lines gave.
    pub(crate) old: Option<&'a Value>,
}

/// Reads a directive's text.
pub(crate) fn parse(task: Task<'_>, text: &str) -> Parsed {
    if text.is_empty() && task.kind.resets() {
        return Outcome::Reset.into();
    }
    let raw = matches!(
        task.kind,
        Kind::Raw
            | Kind::Texts
            | Kind::ShapedList(_)
            | Kind::Paths
            | Kind::Binds
            | Kind::Temporary
            | Kind::Folders
            | Kind::Commands
            | Kind::Variables
            | Kind::Units
            | Kind::InstallUnits
            | Kind::Syscalls
    );
    // Lists put their specifiers in word by word, so that a blank in one ends no word.
    let expanded = if raw {
        Ok(text.to_owned())
    } else {
        expand(text, task.context)
    };
    match expanded {
        Ok(text) => single(task, &text),
        Err(problem) => Parsed::ignore(problem),
    }
}

fn single(task: Task<'_>, text: &str) -> Parsed {
    let value = match task.kind {
        Kind::Flag => boolean(text).map(Value::Flag),
        Kind::Word(words) | Kind::WordOrNone(words) => word(text, words),
        Kind::FlagOr(words) => match boolean(text) {
            Ok(flag) => Ok(Value::Flag(flag)),
            Err(_) => word(text, words).map_err(|problem| format!("{problem}, yes, no")),
        },
        Kind::Text | Kind::Raw => Ok(Value::Text(text.to_owned())),
        Kind::Shaped(Shape::Account) => {
            // Another user than the one that is meant is worse than none.
            return match shape::check(Shape::Account, text) {
                Ok(()) => Parsed::set(Value::Text(text.to_owned())),
                Err(problem) => Outcome::Fail(0, problem).into(),
            };
        }
        Kind::Shaped(form) => shape::check(form, text).map(|()| Value::Text(text.to_owned())),
        Kind::Number(least, most) | Kind::NumberOrNone(least, most) => {
            number(text, least, most).map(Value::Number)
        }
        Kind::Size => size(text, 1024).map(Value::Size),
        Kind::Span | Kind::SpanOrEmpty => Span::parse(text).map(Value::Span),
        Kind::SpanOrNone => Span::parse(text).map(|span| {
            Value::Span(if span == Span::ZERO {
                Span::INFINITY
            } else {
                span
            })
        }),
        Kind::Nanos => nanos(text),
        Kind::Mode => mode(text).map(Value::Mode),
        Kind::Signal => signal(text).map(Value::Signal),
        Kind::Memory => limit(text, true).map(Value::Limit),
        Kind::Tasks => limit(text, false).map(Value::Limit),
        Kind::Weight if text == "idle" => Ok(Value::Limit(Limit::Of(0))),
        Kind::Weight => {
            number(text, 1, 10_000).map(|it| Value::Limit(Limit::Of(it.unsigned_abs())))
        }
        Kind::Quota => quota(text),
        Kind::Bounds(counts) => bounds(text, counts).map(Value::Bounds),
        Kind::Unit(kind) => unit_of(text, kind, task.context).map(|it| Value::Units(vec![it])),
        Kind::Path => path(text).map(Value::Text),
        Kind::WorkingDirectory => working_directory(text).map(|it| Value::Paths(vec![it])),
        Kind::Errno => errno(text).map(Value::Text),
        Kind::Namespaces => return namespaces(text, task.old),
        Kind::Capabilities(bounding) => return capabilities(text, bounding, task.old),
        Kind::Filter => return filter(text, task.old, None),
        Kind::Families => return filter(text, task.old, Some(Shape::Family)),
        Kind::Interfaces => return filter(text, task.old, Some(Shape::Interface)),
        Kind::Syscalls => return syscalls(text, task.old),
        Kind::Statuses => return statuses(text, task.old),
        Kind::Indices => indices(text, task.old),
        Kind::Input => input(text),
        Kind::Output => output(text),
        Kind::Gone => {
            let message = "does nothing any more in systemd 252".to_owned();
            return Parsed::ignore(message);
        }
        _ => return words(task, text),
    };
    Parsed::of(value)
}

fn word(text: &str, words: &[&'static str]) -> Result<Value, String> {
    let found = words.iter().find(|word| **word == text);
    found
        .map(|word| Value::Word(word))
        .ok_or_else(|| format!("{} is none of {}", shown(text), words.join(", ")))
}

fn nanos(text: &str) -> Result<Value, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits {
        return number(text, 0, i64::MAX).map(Value::Number);
    }
    if let Some(digits) = text
        .strip_suffix("ns")
        .or_else(|| text.strip_suffix("nsec"))
    {
        return number(digits.trim_end(), 0, i64::MAX).map(Value::Number);
    }
    let micros = Span::parse(text)?
        .micros()
        .and_then(|it| i64::try_from(it).ok());
    micros
        .and_then(|it| it.checked_mul(1000))
        .map(Value::Number)
        .ok_or_else(|| format!("{} is too long", shown(text)))
}

fn quota(text: &str) -> Result<Value, String> {
    if text == "infinity" {
        return Ok(Value::Quota(None));
    }
    match share(text)? {
        0 => Err("a quota is more than 0%".to_owned()),
        share => Ok(Value::Quota(Some(share))),
    }
}

/// `~` is the user's home, and stays.
fn working_directory(text: &str) -> Result<MarkedPath, String> {
    let (optional, rest) = strip(text, '-');
    let path = if rest == "~" {
        rest.to_owned()
    } else {
        path(rest)?
    };
    Ok(MarkedPath {
        path,
        optional,
        in_root: false,
    })
}

pub(super) fn commands(text: &str, context: Context<'_>, mut old: Vec<command::Command>) -> Parsed {
    match command::parse(text, context) {
        Ok(read) => {
            old.extend(read.commands);
            Parsed {
                outcome: Outcome::Set(Value::Commands(old)),
                notes: read.warnings,
            }
        }
        Err(BadCommand {
            message,
            offset,
            ignored: true,
        }) => Outcome::Ignore(offset, message).into(),
        Err(BadCommand {
            message, offset, ..
        }) => Outcome::Fail(offset, message).into(),
    }
}

pub(super) fn condition(
    name: &'static str,
    text: &str,
    is_path: bool,
) -> Result<Condition, String> {
    let test = name
        .strip_prefix("Condition")
        .or_else(|| name.strip_prefix("Assert"));
    let (triggering, rest) = strip(text, '|');
    let (negated, rest) = strip(rest.trim_start(), '!');
    let rest = rest.trim_start();
    let parameter = if is_path {
        path(rest)?
    } else {
        rest.to_owned()
    };
    Ok(Condition {
        test: test.unwrap_or(name),
        triggering,
        negated,
        parameter,
    })
}

pub(super) fn device(text: &str) -> Result<Device, String> {
    let mut words = text.split_ascii_whitespace();
    let node = words.next().unwrap_or("");
    let access = words.next().unwrap_or("rwm");
    let group = node.starts_with("char-") || node.starts_with("block-");
    if !group && !node.starts_with("/dev/") && !node.starts_with("/run/systemd/inaccessible/") {
        return Err(format!(
            "{} is no device: write `/dev/NAME`, `char-NAME`, `block-NAME`",
            shown(node)
        ));
    }
    let known = !access.is_empty() && access.chars().all(|c| matches!(c, 'r' | 'w' | 'm'));
    if !known || words.next().is_some() {
        return Err(format!(
            "{} is no access: write letters of `rwm`",
            shown(access)
        ));
    }
    Ok(Device {
        node: node.to_owned(),
        access: access.to_owned(),
    })
}

pub(super) fn credential(text: &str, load: bool) -> Result<Credential, String> {
    let (name, content) = match text.split_once(':') {
        Some((name, content)) => (name.trim_end(), content),
        // A name alone is looked for among the node's credentials.
        None if load => (text, text),
        None => return Err(format!("{} has no `:` between name and text", shown(text))),
    };
    let bad = name.is_empty() || name.len() > 255 || name.contains(['/', '\0']);
    if bad || matches!(name, "." | "..") {
        return Err(format!("{} is no name of a credential", shown(name)));
    }
    Ok(Credential {
        name: name.to_owned(),
        content: content.to_owned(),
    })
}

pub(super) fn per_device(kind: Kind, text: &str) -> Result<(String, u64), String> {
    let Some((device, number_text)) = text.trim().rsplit_once([' ', '\t']) else {
        return Err(format!("{} lacks a number behind the device", shown(text)));
    };
    let device = path(device.trim_end())?;
    let value = match kind {
        Kind::DeviceLatency => match Span::parse(number_text)?.micros() {
            Some(micros) => micros,
            None => return Err("no latency is the default".to_owned()),
        },
        Kind::DeviceWeight => number(number_text, 1, 10_000)?.unsigned_abs(),
        _ if number_text == "infinity" => u64::MAX,
        _ => size(number_text, 1000)?,
    };
    Ok((device, value))
}

const INPUTS: [&str; 6] = ["null", "tty", "tty-force", "tty-fail", "data", "socket"];

fn input(text: &str) -> Result<Value, String> {
    if INPUTS.contains(&text) || text == "fd" {
        return Ok(Value::Text(text.to_owned()));
    }
    with_argument(text, &["fd:", "file:"])
}

const OUTPUTS: [&str; 11] = [
    "inherit",
    "null",
    "tty",
    "journal",
    "kmsg",
    "journal+console",
    "kmsg+console",
    "socket",
    "fd",
    "syslog",
    "syslog+console",
];

/// `syslog` means the journal since 246.
fn output(text: &str) -> Result<Value, String> {
    if OUTPUTS.contains(&text) {
        return Ok(Value::Text(text.replace("syslog", "journal")));
    }
    with_argument(text, &["fd:", "file:", "append:", "truncate:"])
}

fn with_argument(text: &str, known: &[&str]) -> Result<Value, String> {
    let Some((prefix, rest)) = known
        .iter()
        .find_map(|it| Some((*it, text.strip_prefix(it)?)))
    else {
        return Err(format!("{} is none of the known streams", shown(text)));
    };
    let rest = if prefix == "fd:" {
        rest.to_owned()
    } else {
        path(rest)?
    };
    if rest.is_empty() {
        return Err(format!("{} lacks a name", shown(text)));
    }
    Ok(Value::Text(format!("{prefix}{rest}")))
}
