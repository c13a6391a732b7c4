// SPDX-License-Identifier: Apache-2.0
//! One layer of the configuration: dotted keys, values, and where each is from. `super` lays them
//! over each other.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::{Config, ConfigError, Origin};

/// Leaves of one source. An array is a leaf: it is replaced whole.
pub(super) struct Layer(Vec<(String, toml::Value, Origin)>);

impl Layer {
    /// Every leaf of a table, from one origin.
    pub(super) fn of_table(table: &toml::Table, origin: Origin) -> Self {
        let mut leaves = Vec::new();
        flatten("", table, &mut |key, value| {
            leaves.push((key, value.clone(), origin.clone()))
        });
        Self(leaves)
    }

    /// A file's leaves, each with its line.
    pub(super) fn of_file(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let line = |offset: usize| text.get(..offset).unwrap_or(text).matches('\n').count() + 1;
        let spans = spans(text);
        let fail = |e: toml::de::Error| {
            let at = e.span().map_or(0, |span| span.start);
            let value = e.span().and_then(|span| text.get(span));
            ConfigError::File {
                path: path.to_owned(),
                line: line(at),
                key: key_at(&spans, at)
                    .map(|key| format!("{key}: "))
                    .unwrap_or_default(),
                problem: problem(&e, value.unwrap_or_default()),
            }
        };
        toml::from_str::<Config>(text).map_err(fail)?;
        let table: toml::Table = toml::from_str(text).map_err(fail)?;
        let mut leaves = Vec::new();
        flatten("", &table, &mut |key, value| {
            let at = spans
                .iter()
                .find(|(k, _)| *k == key)
                .map_or(0, |(_, span)| span.start);
            let origin = Origin::File {
                path: path.to_owned(),
                line: line(at),
            };
            leaves.push((key, value.clone(), origin));
        });
        Ok(Self(leaves))
    }

    /// `KEY=VALUE`; the value is TOML where that fits, and a string otherwise.
    pub(super) fn of_assignment(word: &str, origin: &Origin) -> Result<Self, ConfigError> {
        let fail = |problem: String| ConfigError::Assignment {
            origin: origin.clone(),
            assignment: word.to_owned(),
            problem,
        };
        let (key, text) = word
            .split_once('=')
            .ok_or_else(|| fail("expected KEY=VALUE".to_owned()))?;
        let mut refusal = String::new();
        for value in readings(text) {
            let table = nest(key, value.clone());
            match table.clone().try_into::<Config>() {
                Ok(_) => return Ok(Self::of_table(&table, origin.clone())),
                // The first reading is the likeliest: its refusal is the one to show.
                Err(e) if refusal.is_empty() => refusal = problem(&e, &value.to_string()),
                Err(_) => {}
            }
        }
        Err(fail(refusal))
    }

    /// Replaces the leaves that this layer has.
    pub(super) fn lay_over(self, leaves: &mut BTreeMap<String, (toml::Value, Origin)>) {
        for (key, value, origin) in self.0 {
            leaves.insert(key, (value, origin));
        }
    }
}

/// The table whose leaves these are.
pub(super) fn table_of(leaves: &BTreeMap<String, (toml::Value, Origin)>) -> toml::Table {
    let mut root = toml::Table::new();
    for (key, (value, _)) in leaves {
        insert(&mut root, key, value.clone());
    }
    root
}

/// The `aurae.KEY=VALUE` words of the kernel's command line, without the prefix. Double quotes keep
/// white space together, as the kernel reads them.
pub(super) fn kernel_assignments(command_line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command_line.trim().chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    words
        .iter()
        .filter_map(|word| word.strip_prefix("aurae."))
        .map(str::to_owned)
        .collect()
}

fn flatten(prefix: &str, table: &toml::Table, leaf: &mut dyn FnMut(String, &toml::Value)) {
    for (key, value) in table {
        let key = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, leaf),
            value => leaf(key, value),
        }
    }
}

fn nest(key: &str, value: toml::Value) -> toml::Table {
    let mut root = toml::Table::new();
    insert(&mut root, key, value);
    root
}

fn insert(table: &mut toml::Table, key: &str, value: toml::Value) {
    let Some((head, rest)) = key.split_once('.') else {
        table.insert(key.to_owned(), value);
        return;
    };
    let inner = table
        .entry(head.to_owned())
        .or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let toml::Value::Table(inner) = inner {
        insert(inner, rest, value);
    }
}

/// How a word may be meant: as the TOML value it spells, as a string, as a list of strings.
fn readings(text: &str) -> Vec<toml::Value> {
    let as_toml = toml::from_str::<toml::Table>(&format!("v = {text}"))
        .ok()
        .and_then(|mut table| table.remove("v"));
    let string = toml::Value::String(text.to_owned());
    let list = text
        .split(',')
        .map(|word| toml::Value::String(word.to_owned()))
        .collect();
    as_toml
        .into_iter()
        .chain([string, toml::Value::Array(list)])
        .collect()
}

/// The defect of a value, in the terms of the file instead of serde's.
fn problem(error: &toml::de::Error, value: &str) -> String {
    if error.message().ends_with("expected a sequence") {
        return format!("write a list: [{}]", value.trim());
    }
    error.message().replace('\n', "; ")
}

/// Every key of the document with the span of key and value together.
fn spans(text: &str) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    let (table, _) = DeTable::parse_recoverable(text);
    collect_spans("", table.get_ref(), &mut found);
    found
}

fn collect_spans(prefix: &str, table: &DeTable<'_>, found: &mut Vec<(String, Range<usize>)>) {
    for (key, value) in table.iter() {
        let name = key.get_ref();
        let dotted = if prefix.is_empty() {
            name.to_string()
        } else {
            format!("{prefix}.{name}")
        };
        found.push((
            dotted.clone(),
            key.span().start..value.span().end.max(key.span().end),
        ));
        if let DeValue::Table(inner) = value.get_ref() {
            collect_spans(&dotted, inner, found);
        }
    }
}

/// The innermost key around a position.
fn key_at(spans: &[(String, Range<usize>)], at: usize) -> Option<&str> {
    spans
        .iter()
        .filter(|(_, span)| span.contains(&at))
        .max_by_key(|(key, _)| key.matches('.').count())
        .map(|(key, _)| key.as_str())
}
