// SPDX-License-Identifier: Apache-2.0
//! JSON values as YAML (block style). A string is quoted as in JSON, which YAML is a superset of,
//! unless it can't be taken for anything else.

use serde_json::Value;

/// The YAML document of a value.
pub(crate) fn emit(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(&mut out, value, 0),
        Value::Array(list) if !list.is_empty() => block(&mut out, value, 0),
        other => {
            out.push_str(&scalar(other));
            out.push('\n');
        }
    }
    out
}

/// A non-empty mapping or sequence, each line indented.
fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                out.push_str(&" ".repeat(indent));
                out.push_str(&string(key));
                out.push(':');
                entry(out, value, indent + 2);
            }
        }
        Value::Array(list) => {
            for value in list {
                out.push_str(&" ".repeat(indent));
                out.push('-');
                item(out, value, indent + 2);
            }
        }
        other => out.push_str(&scalar(other)),
    }
}

/// Writes what follows `key:`.
fn entry(out: &mut String, value: &Value, indent: usize) {
    if is_block(value) {
        out.push('\n');
        // A sequence may stand at its key's own column, as kubectl prints it.
        let indent = if value.is_array() { indent - 2 } else { indent };
        block(out, value, indent);
    } else {
        out.push(' ');
        out.push_str(&scalar(value));
        out.push('\n');
    }
}

/// Writes what follows `-`.
fn item(out: &mut String, value: &Value, indent: usize) {
    if !is_block(value) {
        out.push(' ');
        out.push_str(&scalar(value));
        out.push('\n');
        return;
    }
    let mut inner = String::new();
    block(&mut inner, value, indent);
    // The first line goes beside the dash.
    out.push(' ');
    out.push_str(inner.trim_start_matches(' '));
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        other => other.to_string(),
    }
}

fn string(text: &str) -> String {
    if is_plain(text) {
        text.to_owned()
    } else {
        Value::String(text.to_owned()).to_string()
    }
}

/// Whether it can be nothing but a string: a letter or `/` first, harmless characters, no word of
/// YAML's own.
fn is_plain(text: &str) -> bool {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_-./@+=".contains(c);
    let first = |c: char| c.is_ascii_alphabetic() || c == '/' || c == '_';
    let word = text.to_ascii_lowercase();
    text.starts_with(first)
        && text.chars().all(harmless)
        && !matches!(
            word.as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mappings_sequences_and_scalars() {
        let value = json!({
            "argv": ["/bin/sh", "-c", "echo: \"hi\""],
            "empty": {},
            "labels": {"app": "web", "on": "yes"},
            "list": [{"a": 1, "b": [true, null]}, []],
        });
        assert_eq!(
            emit(&value),
            r#"argv:
- /bin/sh
- "-c"
- "echo: \"hi\""
empty: {}
labels:
  app: web
  "on": "yes"
list:
- a: 1
  b:
  - true
  - null
- []
"#
        );
    }

    #[test]
    fn what_could_be_something_else_is_quoted() {
        for text in [
            "",
            "1",
            "1e3",
            "~",
            "null",
            "No",
            "a: b",
            "a #b",
            "-",
            "é",
            "a\nb",
            "0x1",
            ".inf",
            // What readers of YAML 1.1 take for something else.
            "yes",
            "ON",
            "y",
            "0o7",
            "017",
            "1:20",
            "2026-01-31",
            "=",
            "<<",
            "1_000",
        ] {
            assert!(string(text).starts_with('"'), "{text:?}");
        }
        for text in ["web", "/bin/true", "STATE_RUNNING", "a-b.c"] {
            assert_eq!(string(text), text);
        }
    }
}
