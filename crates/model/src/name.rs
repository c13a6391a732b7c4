// SPDX-License-Identifier: Apache-2.0
//! Names: DNS labels, object paths, tenants. Parsed once, here; a value of these types is valid.

use std::fmt;
use std::str::FromStr;

/// Why a name is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} {problem}")]
pub struct InvalidName {
    given: String,
    problem: &'static str,
}

impl InvalidName {
    fn new(given: &str, problem: &'static str) -> Self {
        Self {
            given: given.chars().take(80).collect(),
            problem,
        }
    }
}

/// A DNS label (RFC 1123): 1 to 63 of `a-z`, `0-9` and `-`, not beginning or ending with `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(String);

impl Label {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Label {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let fail = |problem| Err(InvalidName::new(text, problem));
        if text.is_empty() {
            return fail("is empty; a name is 1 to 63 of a-z, 0-9 and '-'");
        }
        if text.len() > 63 {
            return fail("is longer than 63 characters");
        }
        if !text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        {
            return fail("may contain only a-z, 0-9 and '-'");
        }
        if text.starts_with('-') || text.ends_with('-') {
            return fail("may not begin or end with '-'");
        }
        Ok(Self(text.to_owned()))
    }
}

/// Whose objects: a DNS label. `system` is the administrators'.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Label);

impl Tenant {
    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Tenant {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        text.parse().map(Self)
    }
}

/// The most labels in a path.
pub const MAX_DEPTH: usize = 16;

/// Where an object is: labels joined by `/`, the enclosing cells first. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectPath(Vec<Label>);

impl ObjectPath {
    /// The labels, outermost first; at least one.
    pub fn labels(&self) -> &[Label] {
        &self.0
    }

    /// The enclosing cell's path; `None` at the top.
    pub fn parent(&self) -> Option<ObjectPath> {
        match self.0.split_last() {
            Some((_, [])) | None => None,
            Some((_, parents)) => Some(Self(parents.to_vec())),
        }
    }

    /// Whether `self` is `other` or below it.
    pub fn is_within(&self, other: &ObjectPath) -> bool {
        self.0.starts_with(&other.0)
    }
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, label) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("/")?;
            }
            label.fmt(f)?;
        }
        Ok(())
    }
}

impl FromStr for ObjectPath {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let labels = text
            .split('/')
            .map(str::parse)
            .collect::<Result<Vec<Label>, _>>()?;
        if labels.len() > MAX_DEPTH {
            return Err(InvalidName::new(text, "has more than 16 labels"));
        }
        Ok(Self(labels))
    }
}
