// SPDX-License-Identifier: Apache-2.0
//! Resource limits as asked for: by name, with the kernel's numbers.

use std::collections::BTreeSet;

use names::RLIMITS as NAMES;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, Within};

/// A resource limit as asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rlimit {
    /// `NOFILE`, `RLIMIT_NOFILE` or `nofile`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub name: String,
    /// The limit that holds, in the resource's unit. `None`: unlimited.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub soft: Option<u64>,
    /// The most that `soft` can be raised to. `None`: unlimited.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub hard: Option<u64>,
}

/// The number of `RLIMIT_name`.
pub fn number(name: &str) -> Option<u8> {
    let upper = name.to_ascii_uppercase();
    let bare = upper.strip_prefix("RLIMIT_").unwrap_or(&upper);
    let index = NAMES.iter().position(|n| *n == bare)?;
    u8::try_from(index).ok()
}

/// The name of a number, e.g. `NOFILE`; empty where there is none.
pub(crate) fn name(number: u8) -> &'static str {
    NAMES.get(usize::from(number)).copied().unwrap_or_default()
}

impl Rlimit {
    /// `RLIMIT_*` number, soft and hard, `u64::MAX` for unlimited.
    pub(crate) fn resolve(&self) -> Result<(u8, u64, u64)> {
        let Some(resource) = number(&self.name) else {
            let shown: String = self.name.chars().take(40).collect();
            return Err(
                Error::invalid("name", format!("{shown:?} is not a resource limit"))
                    .hint("give a name of setrlimit(2), such as NOFILE or NPROC"),
            );
        };
        let soft = self.soft.unwrap_or(u64::MAX);
        let hard = self.hard.unwrap_or(u64::MAX);
        if soft > hard {
            let problem = "is greater than the hard limit";
            return Err(Error::invalid("soft", problem));
        }
        Ok((resource, soft, hard))
    }
}

/// Checks all of them, and that none is given twice.
pub(crate) fn resolve_all(limits: &[Rlimit]) -> Result<Vec<(u8, u64, u64)>> {
    let mut seen = BTreeSet::new();
    let mut resolved = Vec::with_capacity(limits.len());
    for (i, limit) in limits.iter().enumerate() {
        let at = format!("rlimits[{i}]");
        let one = limit.resolve().within(&at)?;
        if !seen.insert(one.0) {
            return Err(Error::invalid(at, "is given twice"));
        }
        resolved.push(one);
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_all_three_spellings() {
        for name in ["NOFILE", "RLIMIT_NOFILE", "nofile"] {
            assert_eq!(number(name), Some(7));
        }
        assert_eq!(number("RTTIME"), Some(15));
        assert_eq!(number("FILES"), None);
    }

    #[test]
    fn a_limit_given_twice_or_upside_down_is_refused() {
        let limit = |name: &str, soft, hard| Rlimit {
            name: name.into(),
            soft,
            hard,
        };
        let twice = [limit("nofile", Some(1), None), limit("NOFILE", None, None)];
        assert_eq!(
            resolve_all(&twice).unwrap_err().field.clone().unwrap(),
            "rlimits[1]"
        );
        let upside_down = [limit("CORE", None, Some(5))];
        assert_eq!(
            resolve_all(&upside_down)
                .unwrap_err()
                .field
                .clone()
                .unwrap(),
            "rlimits[0].soft"
        );
    }
}
