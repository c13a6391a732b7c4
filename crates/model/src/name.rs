// SPDX-License-Identifier: Apache-2.0
//! Names: DNS labels, object paths, tenants. Parsed once, here; a value of these types is valid.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Label(String);

impl Label {
    /// The label as it was given.
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

/// The name of a tenant: a DNS label. `system` is the administrators'.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Tenant(Label);

impl Tenant {
    /// The tenant's name as it was given.
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

impl Tenant {
    /// The administrators' tenant, `system`.
    pub fn system() -> Self {
        Self(Label("system".to_owned()))
    }
}

/// The most labels in a path.
pub const MAX_DEPTH: usize = 16;

const TOO_DEEP: &str = "has more than 16 labels";

/// Where an object is: labels joined by `/`, the enclosing cells first. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ObjectPath(Vec<Label>);

impl ObjectPath {
    /// The labels, outermost first; at least one.
    pub fn labels(&self) -> &[Label] {
        &self.0
    }

    /// The object's own name: the last label.
    pub fn name(&self) -> &str {
        self.0.last().map_or("", Label::as_str)
    }

    /// The path of a child of that name.
    ///
    /// # Errors
    /// The path would have more than [`MAX_DEPTH`] labels.
    pub fn child(&self, name: Label) -> Result<ObjectPath, InvalidName> {
        if self.0.len() >= MAX_DEPTH {
            let text = format!("{self}/{name}");
            return Err(InvalidName::new(&text, TOO_DEEP));
        }
        let mut labels = self.0.clone();
        labels.push(name);
        Ok(Self(labels))
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

impl From<Label> for ObjectPath {
    fn from(label: Label) -> Self {
        Self(vec![label])
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
            return Err(InvalidName::new(text, TOO_DEEP));
        }
        Ok(Self(labels))
    }
}

/// One run of an object: 128 random bits, written as 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Uid(pub [u8; 16]);

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uid({self})")
    }
}

impl FromStr for Uid {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        const PROBLEM: &str = "is not a uid, which is 32 digits of 0-9 and a-f";
        let fail = || InvalidName::new(text, PROBLEM);
        let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 32 || !text.bytes().all(lower) {
            return Err(fail());
        }
        u128::from_str_radix(text, 16)
            .map(|bits| Self(bits.to_be_bytes()))
            .map_err(|_| fail())
    }
}

/// A client's id of a request, by which the node recognises a retry: 1 to 64 printable ASCII
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct RequestId(String);

impl RequestId {
    /// The id as the client sent it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RequestId {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.is_empty() || text.len() > 64 || !text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            let problem = "is not a request id, which is 1 to 64 printable ASCII characters";
            return Err(InvalidName::new(text, problem));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Names travel as strings, in records and elsewhere; reading one checks it.
macro_rules! as_string {
    ($($name:ty),*) => {$(
        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                text.parse()
            }
        }
    )*};
}

as_string!(Label, Tenant, ObjectPath, Uid, RequestId);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_are_refused_say_why() {
        for (text, why) in [
            ("", "empty"),
            ("Web", "only a-z"),
            ("a_b", "only a-z"),
            ("-a", "begin"),
            ("a-", "end"),
            ("_init", "only a-z"),
            ("w\u{1b}[31m", "only a-z"),
            ("é", "only a-z"),
        ] {
            let error = text.parse::<Label>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
        assert!("a".repeat(63).parse::<Label>().is_ok());
        assert!("a".repeat(64).parse::<Label>().is_err());
    }

    #[test]
    fn a_refusal_never_repeats_control_characters_or_a_megabyte() {
        let hostile = format!("\u{1b}[2J\n{}", "x".repeat(1 << 20));
        let error = hostile.parse::<Label>().unwrap_err().to_string();
        assert!(error.len() < 400);
        assert!(!error.chars().any(char::is_control));
    }

    #[test]
    fn paths_are_bounded_and_know_their_parents() {
        let path: ObjectPath = "web/db/main".parse().unwrap();
        assert_eq!(path.name(), "main");
        assert_eq!(path.parent().unwrap().to_string(), "web/db");
        assert!(path.is_within(&"web".parse().unwrap()));
        assert!(!path.is_within(&"we".parse().unwrap()));
        assert!(vec!["a"; 16].join("/").parse::<ObjectPath>().is_ok());
        assert!(vec!["a"; 17].join("/").parse::<ObjectPath>().is_err());
        for bad in ["", "/", "/a", "a/", "a//b", "a/../b"] {
            assert!(bad.parse::<ObjectPath>().is_err(), "{bad:?}");
        }
        let deepest: ObjectPath = vec!["a"; 16].join("/").parse().unwrap();
        assert!(deepest.child("b".parse().unwrap()).is_err());
    }

    #[test]
    fn a_record_with_a_bad_name_does_not_load() {
        assert!(serde_json::from_str::<ObjectPath>("\"../etc\"").is_err());
        assert!(serde_json::from_str::<Tenant>("\"A\"").is_err());
        assert!(serde_json::from_str::<Uid>("\"00\"").is_err());
    }

    proptest! {
        #[test]
        fn a_valid_path_comes_back_the_same(
            text in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(/[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?){0,15}"
        ) {
            let path: ObjectPath = text.parse().unwrap();
            prop_assert_eq!(path.to_string(), text.clone());
            let json = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<ObjectPath>(&json).unwrap(), path);
        }

        #[test]
        fn whatever_parses_is_a_path_of_labels(text in ".{0,80}") {
            if let Ok(path) = text.parse::<ObjectPath>() {
                prop_assert_eq!(path.to_string(), text);
                prop_assert!(path.labels().iter().all(|l| l.as_str().len() <= 63));
            }
        }

        #[test]
        fn a_uid_comes_back_the_same(bytes in any::<[u8; 16]>()) {
            let uid = Uid(bytes);
            let text = uid.to_string();
            prop_assert_eq!(text.len(), 32);
            prop_assert_eq!(text.parse::<Uid>().unwrap(), uid);
            prop_assert!(text.to_uppercase().parse::<Uid>().is_err()
                || text.bytes().all(|b| b.is_ascii_digit()));
        }
    }
}
