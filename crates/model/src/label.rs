// SPDX-License-Identifier: Apache-2.0
//! Labels on objects, with the rules of Kubernetes for keys and values. Not names: see `name`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::text::weight;

/// The most labels of one object.
pub const MAX_LABELS: usize = 64;
/// The most bytes that all labels of one object take in its record.
pub const MAX_LABELS_WEIGHT: usize = 4096;
/// The longest prefix of a key, in bytes.
const MAX_PREFIX: usize = 253;
/// The longest name part of a key, and the longest value, in bytes.
const MAX_PART: usize = 63;

/// Keys that begin so say whose run an object is: the node alone writes them.
pub const RESERVED: &str = "schedule.aurae/";

/// Keys that begin so are a node's on a pod that it runs on another daemon: by them it knows its
/// own there.
pub const MARKS: &str = "sandbox.aurae/";

/// The labels of one object; checked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(
    into = "BTreeMap<String, String>",
    try_from = "BTreeMap<String, String>"
)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Checks keys, values, their number and their size together.
    ///
    /// # Errors
    /// `INVALID_FIELD`: more than [`MAX_LABELS`], more than [`MAX_LABELS_WEIGHT`] bytes, or a key
    /// or value that [`check_key`] or [`check_value`] refuses.
    pub fn new(map: BTreeMap<String, String>) -> Result<Self> {
        let fail = |problem: String| Err(Error::invalid("", problem));
        if map.len() > MAX_LABELS {
            return fail(format!(
                "has {} entries; at most {MAX_LABELS} are allowed",
                map.len()
            ));
        }
        for (key, value) in &map {
            check_key(key)?;
            check_value(value).map_err(|e| e.within(&format!("[{key:?}]")))?;
        }
        let size: usize = map.iter().map(|(k, v)| weight(k) + weight(v) + 2).sum();
        if size > MAX_LABELS_WEIGHT {
            return fail(format!(
                "takes {size} bytes together; at most {MAX_LABELS_WEIGHT} are allowed"
            ));
        }
        Ok(Self(map))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Refuses what only the node writes; for labels that a caller sends.
    ///
    /// # Errors
    /// `INVALID_FIELD`, naming the key: it begins with [`RESERVED`].
    pub fn of_caller(self) -> Result<Self> {
        if let Some((key, _)) = self.reserved().next() {
            let problem = format!("must not have the key {key:?}: it is the node's own");
            let error = Error::invalid("", problem);
            return Err(error.hint("leave it out; a schedule's runs keep theirs"));
        }
        Ok(self)
    }

    /// What an object bears once it is relabelled: `new`, and what the node wrote on it.
    ///
    /// # Errors
    /// `INVALID_FIELD`: these are too many, or too large together.
    pub fn relabelled(&self, new: &Labels) -> Result<Self> {
        let mut map = new.0.clone();
        let own = self.reserved().map(|(k, v)| (k.to_owned(), v.to_owned()));
        map.extend(own);
        Self::new(map)
    }

    /// What a pod is told of its labels: not the marks of the node that runs it from elsewhere.
    #[must_use]
    pub fn told(&self) -> Self {
        let told = self.iter().filter(|(key, _)| !key.starts_with(MARKS));
        Self(told.map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    /// What a caller could have sent of them: not what a node wrote on the object.
    #[must_use]
    pub fn sent(&self) -> Self {
        let sent = self.iter().filter(|(key, _)| !key.starts_with(RESERVED));
        Self(sent.map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    fn reserved(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(|(key, _)| key.starts_with(RESERVED))
    }

    /// In order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Labels> for BTreeMap<String, String> {
    fn from(labels: Labels) -> Self {
        labels.0
    }
}

impl TryFrom<BTreeMap<String, String>> for Labels {
    type Error = Error;

    fn try_from(map: BTreeMap<String, String>) -> Result<Self> {
        Self::new(map)
    }
}

/// Checks a key, `[prefix/]name`: the prefix a DNS subdomain, the name 1 to 63 of letters, digits,
/// `-`, `_`, `.`, with a letter or digit at both ends.
///
/// # Errors
/// `INVALID_FIELD`: the key isn't so.
pub fn check_key(key: &str) -> Result<()> {
    let shown: String = key.chars().take(80).collect();
    let fail = |problem: &str| Err(Error::invalid("", format!("the key {shown:?} {problem}")));
    let name = match key.split_once('/') {
        None => key,
        Some((prefix, name)) => {
            if prefix.len() > MAX_PREFIX || !prefix.split('.').all(is_dns_label) {
                return fail("must have a DNS name of at most 253 characters before its '/'");
            }
            name
        }
    };
    if name.is_empty() || name.len() > MAX_PART || !is_qualified(name) {
        return fail(
            "must be 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends",
        );
    }
    Ok(())
}

/// Checks a value: empty, or as the name part of a key.
///
/// # Errors
/// `INVALID_FIELD`: the value isn't so.
pub fn check_value(value: &str) -> Result<()> {
    if value.is_empty() || (value.len() <= MAX_PART && is_qualified(value)) {
        return Ok(());
    }
    let shown: String = value.chars().take(80).collect();
    let problem = format!(
        "{shown:?} must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    );
    Err(Error::invalid("", problem))
}

fn is_dns_label(text: &str) -> bool {
    text.parse::<crate::name::Label>().is_ok()
}

fn is_qualified(text: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, value: &str) -> Result<Labels> {
        Labels::new([(key.to_owned(), value.to_owned())].into())
    }

    #[test]
    fn what_the_node_writes_is_refused_from_callers_and_stays() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            Labels::new(
                pairs
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                    .collect(),
            )
            .unwrap()
        };
        let forged = of(&[("a", "b"), ("schedule.aurae/run", "7")]).of_caller();
        let words = forged.unwrap_err().to_string();
        assert!(words.contains("schedule.aurae/run"), "{words}");
        of(&[("a", "b"), ("schedule", "x")]).of_caller().unwrap();
        let old = of(&[("a", "b"), ("schedule.aurae/run", "7")]);
        let new = old.relabelled(&of(&[("c", "d")])).unwrap();
        assert_eq!(new, of(&[("c", "d"), ("schedule.aurae/run", "7")]));
    }

    #[test]
    fn keys_and_values_are_those_of_kubernetes() {
        for (key, value) in [
            ("app", "web"),
            ("app.kubernetes.io/name", "my_App-1.0"),
            ("a", ""),
            ("A_b.c-d9", "X"),
        ] {
            one(key, value).unwrap();
        }
        for key in [
            "", "-a", "a-", "a b", "/a", "a/", "A.b/c", "a/b/c", "a\n", "ä",
        ] {
            assert!(one(key, "v").is_err(), "{key:?}");
        }
        for value in ["-", "a ", "a\0", "ü", &"x".repeat(64)] {
            assert!(one("k", value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn there_are_at_most_64_and_together_they_are_small() {
        let many = |n: usize, len: usize| {
            Labels::new((0..n).map(|i| (format!("k{i}"), "v".repeat(len))).collect())
        };
        assert!(many(64, 40).is_ok());
        assert!(many(65, 1).is_err());
        assert!(many(64, 63).unwrap_err().message.contains("together"));
    }

    #[test]
    fn a_bad_value_is_named_by_its_key() {
        let error = one("app", "no spaces").unwrap_err();
        assert_eq!(
            error.within("labels").field.clone().unwrap(),
            "labels[\"app\"]"
        );
    }
}
