// SPDX-License-Identifier: Apache-2.0
//! Takes the fields of a document one by one; what wasn't taken is a problem in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::Problem;

/// What was found so far.
#[derive(Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

/// More are not told: a file of nonsense has enough with these.
const MOST: usize = 64;

impl Problems {
    pub(crate) fn add(&mut self, path: &str, words: impl Into<String>) {
        if self.0.len() < MOST {
            let (path, words) = (path.to_owned(), words.into());
            self.0.push(Problem { path, words });
        }
    }
}

/// An object of a document, whose fields are taken.
pub(crate) struct Fields<'a> {
    map: Map<String, Value>,
    path: String,
    problems: &'a mut Problems,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: Value, path: &str, problems: &'a mut Problems) -> Self {
        let map = match value {
            Value::Object(map) => map,
            Value::Null => Map::new(),
            _ => {
                problems.add(path, "must be an object");
                Map::new()
            }
        };
        Self {
            map,
            path: path.to_owned(),
            problems,
        }
    }

    fn at(&self, field: &str) -> String {
        match self.path.as_str() {
            path if field.is_empty() => path.to_owned(),
            "" => field.to_owned(),
            path => format!("{path}.{field}"),
        }
    }

    /// A field can't be taken as it is.
    pub(crate) fn refuse(&mut self, field: &str, words: impl Into<String>) {
        let path = self.at(field);
        self.problems.add(&path, words);
    }

    /// Absent and null are the same.
    pub(crate) fn take(&mut self, field: &str) -> Option<Value> {
        self.map.remove(field).filter(|value| !value.is_null())
    }

    /// Gives a field back that was looked at.
    pub(crate) fn put(&mut self, field: &str, value: Value) {
        self.map.insert(field.to_owned(), value);
    }

    /// Fields that change nothing here.
    pub(crate) fn known(&mut self, fields: &[&str]) {
        for field in fields {
            self.map.remove(*field);
        }
    }

    /// A field that may have these values alone.
    pub(crate) fn only(&mut self, field: &str, values: &[&str]) {
        let Some(value) = self.take(field) else {
            return;
        };
        let text = match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if !values.contains(&text.as_str()) {
            let words = format!("is {text}: only {} can be taken", values.join(" or "));
            self.refuse(field, words);
        }
    }

    pub(crate) fn text(&mut self, field: &str) -> String {
        match self.take(field) {
            None => String::new(),
            Some(Value::String(text)) => text,
            Some(_) => {
                self.refuse(field, "must be a text");
                String::new()
            }
        }
    }

    pub(crate) fn flag(&mut self, field: &str) -> Option<bool> {
        match self.take(field)? {
            Value::Bool(flag) => Some(flag),
            _ => {
                self.refuse(field, "must be true or false");
                None
            }
        }
    }

    pub(crate) fn number<T: TryFrom<u64>>(&mut self, field: &str) -> Option<T> {
        let value = self.take(field)?;
        let number = value.as_u64().and_then(|number| T::try_from(number).ok());
        if number.is_none() {
            self.refuse(field, format!("is {value}, not a number that it can be"));
        }
        number
    }

    /// An id, as the text that ours are.
    pub(crate) fn number_text(&mut self, field: &str) -> String {
        let number = self.number::<u32>(field);
        number.map(|number| number.to_string()).unwrap_or_default()
    }

    pub(crate) fn seconds(&mut self, field: &str) -> Option<Duration> {
        self.number::<u64>(field).map(Duration::from_secs)
    }

    pub(crate) fn list(&mut self, field: &str) -> Vec<String> {
        let Some(value) = self.take(field) else {
            return Vec::new();
        };
        let texts = value.as_array().map(|list| {
            let texts = list.iter().map(|it| it.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>()
        });
        match texts.flatten() {
            Some(texts) => texts,
            None => {
                self.refuse(field, "must be a list of texts");
                Vec::new()
            }
        }
    }

    pub(crate) fn numbers(&mut self, field: &str) -> Vec<String> {
        let value = self.take(field).unwrap_or(Value::Array(Vec::new()));
        let numbers = value.as_array().map(|list| {
            let numbers = list.iter().map(|it| Some(it.as_u64()?.to_string()));
            numbers.collect::<Option<Vec<_>>>()
        });
        match numbers.flatten() {
            Some(numbers) => numbers,
            None => {
                self.refuse(field, "must be a list of numbers");
                Vec::new()
            }
        }
    }

    pub(crate) fn texts(&mut self, field: &str) -> BTreeMap<String, String> {
        let Some(value) = self.take(field) else {
            return BTreeMap::new();
        };
        let Value::Object(map) = value else {
            self.refuse(field, "must be an object of texts");
            return BTreeMap::new();
        };
        let mut texts = BTreeMap::new();
        for (key, value) in map {
            match value {
                Value::String(text) => drop(texts.insert(key, text)),
                _ => self.refuse(&format!("{field}.{key}"), "must be a text"),
            }
        }
        texts
    }

    pub(crate) fn object(&mut self, field: &str) -> Option<Fields<'_>> {
        let value = self.take(field)?;
        Some(self.within(field, value))
    }

    /// The fields of a value that was taken; null has none.
    pub(crate) fn within(&mut self, field: &str, value: Value) -> Fields<'_> {
        let path = self.at(field);
        Fields::of(value, &path, self.problems)
    }

    /// Each object of a list.
    pub(crate) fn each<T>(&mut self, field: &str, mut read: impl FnMut(Fields<'_>) -> T) -> Vec<T> {
        let list = match self.take(field) {
            None => Vec::new(),
            Some(Value::Array(list)) => list,
            Some(_) => {
                self.refuse(field, "must be a list");
                Vec::new()
            }
        };
        let path = self.at(field);
        let each = list.into_iter().enumerate().map(|(i, value)| {
            let fields = Fields::of(value, &format!("{path}[{i}]"), self.problems);
            read(fields)
        });
        each.collect()
    }

    /// What was not taken can't be.
    pub(crate) fn end(mut self) {
        let left: Vec<_> = std::mem::take(&mut self.map).into_iter().collect();
        for (field, value) in left {
            let nothing = match &value {
                Value::Null => true,
                Value::Array(list) => list.is_empty(),
                Value::Object(map) => map.is_empty(),
                _ => false,
            };
            if !nothing {
                self.refuse(&field, "can't be taken: a pod of Aurae has no such thing");
            }
        }
    }
}
