// SPDX-License-Identifier: Apache-2.0
//! Expressions and comments of a program that is written. The formatter gives them their lines.

use std::fmt::Write;

use serde_json::Value;

/// A value as a program says it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    /// As it stands: a name, a call, a template.
    Code(String),
    Text(String),
    Number(u64),
    Flag(bool),
    List(Vec<Expression>),
    Object(Vec<(String, Expression)>),
}

impl Expression {
    /// Texts as a list.
    pub(super) fn texts(texts: impl IntoIterator<Item = String>) -> Self {
        Self::List(texts.into_iter().map(Self::Text).collect())
    }

    /// The text of the program.
    pub(super) fn written(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Code(code) => text.push_str(code),
            Self::Text(it) => text.push_str(&quoted(it)),
            // Writing to a string can't fail.
            Self::Number(number) => _ = write!(text, "{number}"),
            Self::Flag(flag) => _ = write!(text, "{flag}"),
            Self::List(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    text.push_str(if index == 0 { "" } else { ", " });
                    item.write(text);
                }
                text.push(']');
            }
            Self::Object(fields) if fields.is_empty() => text.push_str("{}"),
            Self::Object(fields) => {
                // On lines of their own: the formatter keeps them so.
                let several = fields.len() > 3;
                text.push_str(if several { "{\n" } else { "{ " });
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        text.push_str(if several { ",\n" } else { ", " });
                    }
                    text.push_str(&key(name));
                    let same = matches!(value, Self::Code(code) if code == name);
                    if !same {
                        text.push_str(": ");
                        value.write(text);
                    }
                }
                text.push_str(if several { ",\n}" } else { " }" });
            }
        }
    }
}

/// Whether it can stand as a name in a program.
pub(super) fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    let first = letters.next();
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}

fn key(name: &str) -> String {
    // A property of that name would be the object's prototype.
    match name {
        "__proto__" => "[\"__proto__\"]".to_owned(),
        name if is_name(name) => name.to_owned(),
        name => quoted(name),
    }
}

/// A string literal.
pub(super) fn quoted(text: &str) -> String {
    // JSON's are those of TypeScript, but for two line ends that only JSON has in strings.
    Value::from(text)
        .to_string()
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// What goes between the backticks of a template.
pub(super) fn in_template(text: &str) -> String {
    let quoted = quoted(text);
    let inner = quoted.get(1..quoted.len().saturating_sub(1));
    let inner = inner.unwrap_or_default().replace("\\\"", "\"");
    inner.replace('`', "\\`").replace("${", "\\${")
}

/// A text as lines of a comment, each at most 98 columns wide where words allow it.
pub(super) fn comment(text: &mut String, words: &str) {
    const WIDTH: usize = 98;
    let first = "// ";
    let mut line = first.to_owned();
    for word in words.split_whitespace() {
        let wide = line.chars().count() + word.chars().count() >= WIDTH;
        if wide && line.len() > first.len() {
            text.push_str(line.trim_end());
            text.push('\n');
            // What belongs together is seen to.
            line = "//   ".to_owned();
        }
        line.push_str(word);
        line.push(' ');
    }
    text.push_str(line.trim_end());
    text.push('\n');
}
