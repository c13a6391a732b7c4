// SPDX-License-Identifier: Apache-2.0
//! Label selectors as kubectl knows them: `app=web,tier!=db,canary,!old,env in (a,b),zone notin
//! (c)`. Parsed once; matching is pure.

use std::str::FromStr;

use crate::error::{Error, Result};
use crate::label::{Labels, check_key, check_value};

/// The longest selector, in bytes.
pub const MAX_SELECTOR: usize = 4096;

/// All of its requirements must hold. Empty: everything matches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Test {
    Exists,
    Absent,
    /// Has the key, with one of these values.
    In(Vec<String>),
    /// Lacks the key, or has another value: as in Kubernetes.
    NotIn(Vec<String>),
}

impl Selector {
    /// Whether an object with these labels is meant.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|r| r.holds(labels))
    }

    /// Whether it has no term, so that every object matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let among = |values: &[String]| value.is_some_and(|v| values.iter().any(|x| x == v));
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => among(values),
            Test::NotIn(values) => !among(values),
        }
    }
}

impl FromStr for Selector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        crate::text::check_length("", text, MAX_SELECTOR)?;
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        split_requirements(text)?
            .into_iter()
            .map(|part| requirement(part.trim()))
            .collect::<Result<_>>()
            .map(Self)
    }
}

fn invalid(problem: String) -> Error {
    Error::invalid("", problem)
        .hint("write it as kubectl does: 'app=web,tier!=db,canary,!old,env in (a,b)'")
}

/// At the commas that are not inside parentheses.
fn split_requirements(text: &str) -> Result<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut inside = false;
    let mut from = 0;
    for (at, c) in text.char_indices() {
        match (c, inside) {
            ('(', false) => inside = true,
            (')', true) => inside = false,
            ('(', true) | (')', false) => {
                return Err(invalid("has parentheses that do not match".into()));
            }
            (',', false) => {
                let (part, _) = rest.split_at(at - from);
                parts.push(part);
                from = at + 1;
                rest = text.get(from..).unwrap_or_default();
            }
            _ => {}
        }
    }
    if inside {
        return Err(invalid("has a '(' that is not closed".into()));
    }
    parts.push(rest);
    Ok(parts)
}

fn requirement(part: &str) -> Result<Requirement> {
    if let Some(key) = part.strip_prefix('!') {
        return finish(key, Test::Absent);
    }
    if let Some((head, set)) = part.split_once('(') {
        return set_requirement(head.trim(), set);
    }
    if let Some((key, value)) = part.split_once("!=") {
        return finish(key, Test::NotIn(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return finish(key, Test::In(vec![value.trim().to_owned()]));
    }
    finish(part, Test::Exists)
}

fn set_requirement(head: &str, set: &str) -> Result<Requirement> {
    let Some(set) = set.strip_suffix(')') else {
        return Err(invalid("has text after a ')'".into()));
    };
    let values: Vec<String> = set.split(',').map(|v| v.trim().to_owned()).collect();
    match head.split_once(char::is_whitespace) {
        Some((key, op)) if op.trim() == "in" => finish(key, Test::In(values)),
        Some((key, op)) if op.trim() == "notin" => finish(key, Test::NotIn(values)),
        _ => Err(invalid("has a '(' without 'KEY in' or 'KEY notin'".into())),
    }
}

fn finish(key: &str, test: Test) -> Result<Requirement> {
    let key = key.trim();
    check_key(key).map_err(|e| invalid(e.message.clone()))?;
    if let Test::In(values) | Test::NotIn(values) = &test {
        for value in values {
            check_value(value).map_err(|e| invalid(e.message.clone()))?;
        }
    }
    Ok(Requirement {
        key: key.to_owned(),
        test,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let map = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        Labels::new(map.collect()).unwrap()
    }

    #[test]
    fn selects_as_kubectl_does() {
        let web = labels(&[("app", "web"), ("env", "a"), ("canary", "")]);
        for yes in [
            "",
            "app=web",
            "app==web",
            "app = web , env=a",
            "canary",
            "!old",
            "tier!=db",
            "app!=db",
            "env in (a,b)",
            "env in ( a , b ),app",
            "env notin (c)",
            "nothere notin (c)",
            "canary=",
        ] {
            assert!(yes.parse::<Selector>().unwrap().matches(&web), "{yes}");
        }
        for no in [
            "app=db",
            "old",
            "!app",
            "app!=web",
            "env in (b)",
            "env notin (a)",
            "x in (a)",
        ] {
            assert!(!no.parse::<Selector>().unwrap().matches(&web), "{no}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for bad in [
            ",",
            "a,",
            "=b",
            "a in b",
            "a in (b",
            "a in b)",
            "(a)",
            "a in ((b))",
            "a b",
            "a in (b) c",
            "a=b c",
            "!",
            "a\0=b",
            "a=\u{1b}",
        ] {
            assert!(bad.parse::<Selector>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fail_otherwise(text in "[a-z!=(), é]{0,40}") {
            let _ = text.parse::<Selector>().map(|s| s.matches(&Labels::default()));
        }
    }
}
