// SPDX-License-Identifier: Apache-2.0
//! Values as a YAML document (block style): of programs (`yaml.stringify`) and of the client
//! (`-o yaml`). A string is quoted as in JSON, which YAML is a superset of, unless no reader can
//! take it for anything else. Readers of YAML 1.1 (PyYAML, and many that other programs use) are
//! meant, too: to them `no` is a boolean, `1:30` a number and `2026-01-31` a date. `serde_yaml_ng`,
//! which reads YAML here, writes those without quotes.

use serde::Serialize;
use serde_yaml_ng::{Number, Value};

/// The document of a value, with a line feed at its end.
///
/// # Errors
/// In words, where a value can't be a YAML value; those of JSON always can.
pub fn emit<T: Serialize>(value: &T) -> Result<String, String> {
    let value = serde_yaml_ng::to_value(value).map_err(|e| e.to_string())?;
    Ok(document(&value))
}

/// The document of a value, with a line feed at its end.
pub(crate) fn document(value: &Value) -> String {
    let mut out = String::new();
    if is_block(value) {
        block(&mut out, value, 0);
    } else {
        // A text block has to be further to the right than what holds it.
        out.push_str(&scalar(value, 2));
        out.push('\n');
    }
    out
}

/// A non-empty mapping or sequence, each line indented.
fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Mapping(fields) => {
            for (key, value) in fields {
                out.push_str(&" ".repeat(indent));
                out.push_str(&name(key));
                out.push(':');
                entry(out, value, indent + 2);
            }
        }
        Value::Sequence(items) => {
            for value in items {
                out.push_str(&" ".repeat(indent));
                out.push('-');
                item(out, value, indent + 2);
            }
        }
        other => out.push_str(&scalar(other, indent)),
    }
}

/// Writes what follows `key:`.
fn entry(out: &mut String, value: &Value, indent: usize) {
    if is_block(value) {
        out.push('\n');
        // A sequence may stand at its key's own column, as kubectl prints it.
        let indent = if value.is_sequence() {
            indent - 2
        } else {
            indent
        };
        block(out, value, indent);
    } else {
        out.push(' ');
        out.push_str(&scalar(value, indent));
        out.push('\n');
    }
}

/// Writes what follows `-`.
fn item(out: &mut String, value: &Value, indent: usize) {
    if !is_block(value) {
        out.push(' ');
        out.push_str(&scalar(value, indent));
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
        Value::Mapping(fields) => !fields.is_empty(),
        Value::Sequence(items) => !items.is_empty(),
        _ => false,
    }
}

/// A key stands in one line.
fn name(key: &Value) -> String {
    match key {
        Value::String(text) => string(text),
        other => scalar(other, 0),
    }
}

fn scalar(value: &Value, indent: usize) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => number(value),
        Value::String(text) => lines(text, indent).unwrap_or_else(|| string(text)),
        Value::Sequence(_) => "[]".to_owned(),
        Value::Mapping(_) => "{}".to_owned(),
        // None is made here: neither JSON nor a program's value has tags.
        Value::Tagged(tagged) => scalar(&tagged.value, indent),
    }
}

/// YAML 1.1 asks for a point and for the exponent's sign, `1.0e+21`: otherwise it is a string.
fn number(number: &Number) -> String {
    let text = number.to_string();
    let Some((digits, exponent)) = text.split_once('e') else {
        return text;
    };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['-', '+']) {
        ""
    } else {
        "+"
    };
    format!("{digits}{point}e{sign}{exponent}")
}

/// Text of several lines as a block (`|`); `None` where quotes are needed.
fn lines(text: &str, indent: usize) -> Option<String> {
    let harmless = |c: char| c == '\n' || c == '\t' || !needs_escape(c);
    // The first line says how far the block is indented.
    let first = text.chars().next()?;
    if !text.contains('\n') || first.is_whitespace() || !text.chars().all(harmless) {
        return None;
    }
    let body = text.strip_suffix('\n');
    let header = match body {
        None => "|-",
        Some(body) if body.ends_with('\n') => "|+",
        Some(_) => "|",
    };
    let mut out = header.to_owned();
    for line in body.unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.push_str(&" ".repeat(indent));
            out.push_str(line);
        }
    }
    Some(out)
}

fn string(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut out = String::new();
    // Quoted as in JSON, which leaves characters as they are that YAML doesn't take for printable.
    for c in serde_json::Value::from(text).to_string().chars() {
        if needs_escape(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

fn needs_escape(c: char) -> bool {
    let separators = ['\u{2028}', '\u{2029}', '\u{feff}', '\u{fffe}', '\u{ffff}'];
    c.is_control() || separators.contains(&c)
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
    use serde_yaml_ng::Mapping;

    use super::*;

    fn of_field(text: &str) -> String {
        let mut fields = Mapping::new();
        fields.insert("k".into(), text.into());
        document(&Value::Mapping(fields))
    }

    #[test]
    fn mappings_sequences_and_scalars() {
        let value = json!({
            "argv": ["/bin/sh", "-c", "echo: \"hi\""],
            "empty": {},
            "labels": {"app": "web", "on": "yes"},
            "list": [{"a": 1, "b": [true, null]}, []],
        });
        assert_eq!(
            emit(&value).unwrap(),
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

    /// Each was read with PyYAML 6, unquoted: it made something else than the string of it, or an
    /// error.
    #[test]
    fn what_a_reader_of_yaml_1_1_takes_for_something_else_is_quoted() {
        let words = [
            "", "~", "null", "Null", "true", "False", "yes", "No", "no", "on", "ON", "off", "y",
            "N", "=", "<<", "-", "?", "a: b", "a #b", "#", "*a", "&a", "!a", "%a", "@a", "`a",
            "[a", "{a", "a\tb", " a", "a ",
        ];
        let numbers = [
            "1",
            "+1",
            "-1",
            "017",
            "0o7",
            "0x1F",
            "0b11",
            "1_000",
            "1e3",
            "1.5",
            ".5",
            "1.0e+3",
            ".inf",
            "-.INF",
            ".nan",
            "1:30",
            "1:30:00.5",
            "190:20",
        ];
        let times = [
            "2026-01-31",
            "2026-1-3",
            "2026-01-31T10:00:00Z",
            "2026-01-31 10:00:00",
        ];
        for text in [&words[..], &numbers[..], &times[..]].concat() {
            let quoted = serde_json::Value::from(text).to_string();
            assert_eq!(of_field(text), format!("k: {quoted}\n"));
        }
        for text in [
            "web",
            "/bin/true",
            "STATE_RUNNING",
            "a-b.c",
            "yesterday",
            "nginx@1",
        ] {
            assert_eq!(of_field(text), format!("k: {text}\n"));
        }
        for key in ["on", "1:30"] {
            let keys = emit(&json!({ key: 1 })).unwrap();
            assert_eq!(keys, format!("\"{key}\": 1\n"));
        }
    }

    #[test]
    fn numbers_are_numbers_to_readers_of_yaml_1_1() {
        let list = json!([1e21, 1.5e-7, 1e-7, 0.1, 80, -1, u64::MAX]);
        assert_eq!(
            emit(&list).unwrap(),
            "- 1.0e+21\n- 1.5e-7\n- 1.0e-7\n- 0.1\n- 80\n- -1\n- 18446744073709551615\n"
        );
        assert_eq!(document(&f64::NAN.into()), ".nan\n");
        assert_eq!(document(&f64::NEG_INFINITY.into()), "-.inf\n");
    }

    #[test]
    fn text_of_several_lines_is_a_block_and_comes_back() {
        assert_eq!(of_field("a: 1\n\n  b\n"), "k: |\n  a: 1\n\n    b\n");
        for text in [
            "a\nb",
            "a\nb\n",
            "a\nb\n\n",
            "a\n",
            "\n",
            "\na",
            " a\nb",
            "\ta\nb",
            "a\n b\n\n\n",
            "a\r\nb",
            "a\u{85}b",
            "a\u{7f}\nb",
            "\u{feff}a\nb",
            "a\u{2028}b",
            "a\tb\nc\t",
            "---\na\n",
            "# a\nb",
            "é\n\u{1f600}",
        ] {
            for value in [
                json!(text),
                json!({ "k": text }),
                json!([[text], { "k": [text] }]),
            ] {
                let document = emit(&value).unwrap();
                let read: serde_json::Value = serde_yaml_ng::from_str(&document).unwrap();
                assert_eq!(read, value, "{document}");
            }
        }
    }
}
