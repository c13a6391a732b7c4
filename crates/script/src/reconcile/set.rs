// SPDX-License-Identifier: Apache-2.0
//! A set: its name, the program that it belongs to, and what the command line allows with it.

/// The label that says which set a workload is of.
pub const SET_LABEL: &str = "aurae.io/set";

/// The label of a workload whose removal and replacement are refused.
pub const PROTECT_LABEL: &str = "aurae.io/protect";

/// A set, as a plan or an apply is told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub set: String,
    /// The program: its project and its entry's path, `shop/deploy/web.ts`, or where it lies,
    /// `alice:/srv/deploy/web.ts`. Empty: whose it is
    /// already, for who only takes away.
    pub program: String,
    /// What isn't of the set becomes part of it.
    pub adopt: bool,
    /// What isn't declared any more stays.
    pub keep: bool,
    /// A plan tells only what differs from what was applied.
    pub refresh: bool,
    /// Paths of the objects that it is about; none: all.
    pub targets: Vec<String>,
}

impl Claim {
    /// Of a set, by a program of that name.
    pub fn new(set: String, program: String) -> Self {
        Self {
            set,
            program,
            ..Self::default()
        }
    }

    /// Whether an object of that name is among those that were asked for: it, or what is in it.
    pub fn is_about(&self, name: &str) -> bool {
        let within = |target: &String| {
            let rest = name.strip_prefix(target.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.targets.is_empty() || self.targets.iter().any(within)
    }
}

/// Whether a set may be called so: a label's value.
///
/// # Errors
/// What is wrong with it.
pub fn check_set(name: &str) -> Result<(), String> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    let fine = name.len() <= 63
        && name.chars().all(inner)
        && ends(name.chars().next())
        && ends(name.chars().next_back());
    if fine {
        return Ok(());
    }
    Err(format!(
        "{name:?} can't name a set: expected at most 63 letters, digits, `-`, `_` or `.`, \
         a letter or digit at either end"
    ))
}

/// The set of a program that isn't told another: its entry's path below its root, `/` as `.`.
pub fn default_name(entry: &str) -> String {
    let stem = [".ts", ".json", ".yaml", ".yml"]
        .iter()
        .find_map(|ending| entry.strip_suffix(ending));
    stem.unwrap_or(entry).replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_named_by_the_whole_path() {
        assert_eq!(default_name("main.ts"), "main");
        assert_eq!(default_name("teamB/main.ts"), "teamB.main");
        assert_ne!(default_name("teamA/main.ts"), default_name("teamB/main.ts"));
        check_set(&default_name("a/b/c.yaml")).unwrap();
    }

    #[test]
    fn a_target_is_an_object_and_what_is_in_it() {
        let claim = Claim {
            targets: vec!["web".into()],
            ..Claim::default()
        };
        assert!(claim.is_about("web") && claim.is_about("web/app"));
        assert!(!claim.is_about("web2") && !claim.is_about("db"));
        assert!(Claim::default().is_about("db"));
    }
}
