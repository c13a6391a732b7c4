// SPDX-License-Identifier: Apache-2.0
//! Takes the fields of an object one by one, and notes each that can't be taken: what wasn't
//! taken is noted in the end.

use serde_json::{Map, Value};

use super::text::{Piece, pieces, substituted};
use super::variables::Variables;
use crate::import::NotImported;
use crate::import::write::Expression;

/// What a pod can't have, and why: lines of comments.
#[derive(Debug, Default)]
pub(super) struct Notes(pub(super) Vec<String>);

impl Notes {
    pub(super) fn add(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }
}

/// An object, whose fields are taken.
pub(super) struct Fields {
    map: Map<String, Value>,
    /// `services.web`; for errors.
    path: String,
}

type Result<T> = std::result::Result<T, NotImported>;

impl Fields {
    /// Absent and null are an object without fields.
    pub(super) fn of(value: Value, path: &str) -> Result<Self> {
        let map = match value {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            _ => return Err(malformed(path, "must be an object")),
        };
        let path = path.to_owned();
        Ok(Self { map, path })
    }

    pub(super) fn path(&self, field: &str) -> String {
        match self.path.as_str() {
            "" => field.to_owned(),
            path => format!("{path}.{field}"),
        }
    }

    pub(super) fn take(&mut self, field: &str) -> Option<Value> {
        self.map.remove(field).filter(|value| !value.is_null())
    }

    /// Fields that mean nothing for a pod, or what it does by itself.
    pub(super) fn known(&mut self, fields: &[&str]) {
        for field in fields {
            self.map.remove(*field);
        }
    }

    pub(super) fn object(&mut self, field: &str) -> Result<Self> {
        let path = self.path(field);
        Self::of(self.take(field).unwrap_or_default(), &path)
    }

    /// The fields that are left, each with its name.
    pub(super) fn entries(self) -> impl Iterator<Item = (String, Value)> {
        self.map.into_iter()
    }

    /// A text, a number or a flag, as text with variables.
    pub(super) fn raw(&mut self, field: &str) -> Result<Option<String>> {
        let path = self.path(field);
        self.take(field)
            .map(|value| scalar(value, &path))
            .transpose()
    }

    /// The same with the defaults of variables: for what is read here.
    pub(super) fn plain(&mut self, field: &str, notes: &mut Notes) -> Result<Option<String>> {
        let raw = self.raw(field)?;
        Ok(raw.map(|raw| plain(&raw, field, notes)))
    }

    /// The same as the program writes it.
    pub(super) fn text(&mut self, field: &str, of: &mut Variables) -> Result<Option<Expression>> {
        let raw = self.raw(field)?;
        Ok(raw.filter(|raw| !raw.is_empty()).map(|raw| of.text(&raw)))
    }

    pub(super) fn flag(&mut self, field: &str, notes: &mut Notes) -> Result<bool> {
        Ok(self.plain(field, notes)?.as_deref() == Some("true"))
    }

    /// A list of texts, or one text.
    pub(super) fn list(&mut self, field: &str) -> Result<Vec<String>> {
        let path = self.path(field);
        match self.take(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let items = items.into_iter();
                items.map(|item| scalar(item, &path)).collect()
            }
            Some(one) => Ok(vec![scalar(one, &path)?]),
        }
    }

    /// An object of texts, or a list of `NAME=value`: `None` is a name without a value.
    pub(super) fn pairs(&mut self, field: &str) -> Result<Vec<(String, Option<String>)>> {
        let path = self.path(field);
        let split = |text: String| match text.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (text, None),
        };
        match self.take(field) {
            None => Ok(Vec::new()),
            Some(Value::Object(map)) => {
                let each = map.into_iter().map(|(name, value)| match value {
                    Value::Null => Ok((name, None)),
                    value => Ok((name, Some(scalar(value, &path)?))),
                });
                each.collect()
            }
            Some(Value::Array(items)) => {
                let items = items.into_iter();
                items.map(|item| Ok(split(scalar(item, &path)?))).collect()
            }
            Some(_) => Err(malformed(
                &path,
                "must be an object, or a list of NAME=value",
            )),
        }
    }

    /// What was not taken can't be.
    pub(super) fn end(self, within: &str, notes: &mut Notes) {
        for (field, value) in self.map {
            let nothing = match &value {
                Value::Null | Value::Bool(false) => true,
                Value::Array(list) => list.is_empty(),
                Value::Object(map) => map.is_empty(),
                _ => false,
            };
            if !nothing && !field.starts_with("x-") {
                let why = super::reasons::why(&field);
                notes.add(format!("{within}{field}: {why}"));
            }
        }
    }
}

/// A text for what is read here: with the defaults of its variables, which is noted.
pub(super) fn plain(raw: &str, field: &str, notes: &mut Notes) -> String {
    let text = substituted(raw);
    let varies = pieces(raw)
        .iter()
        .any(|piece| !matches!(piece, Piece::Text(_)));
    if varies {
        notes.add(format!(
            "{field} {raw}: taken as {text:?}, whatever the variables are"
        ));
    }
    text
}

/// A text, a number or a flag.
pub(super) fn scalar(value: Value, path: &str) -> Result<String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err(malformed(path, "must be a text")),
    }
}

pub(super) fn malformed(path: &str, words: &str) -> NotImported {
    NotImported::Malformed {
        path: path.to_owned(),
        words: words.to_owned(),
    }
}
