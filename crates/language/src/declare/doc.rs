// SPDX-License-Identifier: Apache-2.0
//! Comments of the protos as JSDoc: names in backticks as the language spells them, lines within
//! the screen.

use std::fmt::Write;
use std::time::Duration;

use api::limits::{self, Limits};

use crate::schema::{Enum, Field, Message, Method, Schema, Subsystem};

const WIDTH: usize = 96;

/// A JSDoc block, or nothing for no text.
pub(super) fn write(text: &mut String, indent: &str, docs: &str) {
    let docs = docs.trim().replace("*/", "* /");
    if docs.is_empty() {
        return;
    }
    // Writing to a string can't fail.
    if !docs.contains('\n') && indent.len() + docs.len() + 7 <= WIDTH + 4 {
        let _ = writeln!(text, "{indent}/** {docs} */");
        return;
    }
    let _ = writeln!(text, "{indent}/**");
    for line in wrap(&docs, WIDTH - indent.len()) {
        let _ = writeln!(text, "{}", format!("{indent} * {line}").trim_end());
    }
    let _ = writeln!(text, "{indent} */");
}

/// Paragraphs stay apart, and so do lists; everything else flows.
fn wrap(docs: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in docs.lines() {
        let fresh = line.is_empty() || line.starts_with("- ") || line.starts_with('@');
        let indent = if line.starts_with("- ") { "  " } else { "" };
        if fresh || lines.last().is_none_or(String::is_empty) {
            lines.push(String::new());
        }
        for word in line.split_whitespace() {
            let Some(last) = lines.last_mut() else { break };
            if last.is_empty() {
                last.push_str(word);
            } else if last.chars().count() + 1 + word.chars().count() <= width {
                last.push(' ');
                last.push_str(word);
            } else {
                lines.push(format!("{indent}{word}"));
            }
        }
    }
    lines
}

/// Of a subsystem's global object.
pub(super) fn of_service(subsystem: &Subsystem) -> String {
    spelled(&subsystem.docs)
}

/// Of a method: what it does, and whether it changes anything.
pub(super) fn of_method(method: &Method) -> String {
    let docs = spelled(&method.docs);
    match method.mutating {
        true => docs,
        false => format!("{docs}\n\nReads; a plan sends it."),
    }
}

/// Of a message.
pub(super) fn of_message(message: &Message) -> String {
    spelled(&message.docs)
}

/// Of a field: its own or its type's, and its limits as tags, which the checker reads.
pub(super) fn of_field(schema: &Schema, message: &Message, field: &Field) -> String {
    let mut docs = spelled(schema.field_docs(field));
    let (least, most) = match limits::of(&message.full_name, &field.proto_name) {
        None => (None, None),
        Some(Limits::Number { least, most }) => (
            least.map(|it| it.to_string()),
            most.map(|it| it.to_string()),
        ),
        Some(Limits::Time { least, most }) => (least.map(duration), most.map(duration)),
    };
    for (tag, end) in [("@minimum", least), ("@maximum", most)] {
        if let Some(end) = end {
            docs.push_str(&format!("\n{tag} {end}"));
        }
    }
    docs
}

/// In the largest unit in which it is whole.
fn duration(time: Duration) -> String {
    const UNITS: [(&str, u128); 6] = [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let nanos = time.as_nanos();
    let whole = UNITS.iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
    whole.map_or_else(String::new, |(name, unit)| {
        format!("{}{name}", nanos / unit)
    })
}

/// Of an enum: its own, and a line per value.
pub(super) fn of_enum(kind: &Enum) -> String {
    let mut docs = spelled(&kind.docs);
    for value in kind.values.iter().filter(|value| !value.docs.is_empty()) {
        let said = spelled(&value.docs).replace('\n', " ");
        let said = kind.values.iter().fold(said, |said, other| {
            let word = other.name.to_ascii_uppercase();
            replace_word(&said, &word, &format!("`\"{}\"`", other.name))
        });
        docs.push_str(&format!("\n- `\"{}\"`: {said}", value.name));
    }
    docs
}

/// Fields in backticks by the language's name: `` `wait_for` `` is `` `waitFor` ``. What isn't in
/// backticks, or has other characters, stays.
pub(crate) fn spelled(docs: &str) -> String {
    let parts: Vec<String> = docs
        .split('`')
        .enumerate()
        .map(|(index, part)| match index % 2 == 1 && is_path(part) {
            true => camel(part),
            false => part.to_owned(),
        })
        .collect();
    parts.join("`")
}

/// `oom_score_adj`, `spec.stop_grace`: lower case words; a call or an option of Linux has none of
/// these shapes, but for keys of the node's configuration.
fn is_path(text: &str) -> bool {
    let letters = text
        .chars()
        .all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '.'));
    let known = ["logs.max_bytes"];
    letters && text.contains('_') && !known.contains(&text)
}

fn camel(text: &str) -> String {
    let mut made = String::new();
    let mut up = false;
    for c in text.chars() {
        if c == '_' {
            up = true;
        } else if std::mem::take(&mut up) {
            made.push(c.to_ascii_uppercase());
        } else {
            made.push(c);
        }
    }
    made
}

fn replace_word(text: &str, word: &str, with: &str) -> String {
    let boundary = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut made = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = rest.split_at(at);
        let after = after.get(word.len()..).unwrap_or_default();
        let whole = boundary(before.chars().last()) && boundary(after.chars().next());
        made.push_str(before);
        made.push_str(if whole { with } else { word });
        rest = after;
    }
    made + rest
}
