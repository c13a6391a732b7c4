// SPDX-License-Identifier: Apache-2.0
//! What callers have given the manager itself, as systemctl(1) has it: variables that every command
//! of a unit gets (`set-environment`), and whether watchdogs of services count
//! (`service-watchdogs`). Kept until the next boot. Pure: the manager keeps and applies it.

use model::error::{Error, Reason};
use model::executable::DEFAULT_PATH;
use serde::{Deserialize, Serialize};
use units::exec::environment::{Environment, assignment, is_name};

/// The most that names and values take together, in bytes: every command that a unit runs has them
/// in its record.
const LARGEST: usize = 16 << 10;

/// Variables to take away and to put in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Change {
    /// Names; or assignments, which count where the variable has that value.
    pub(crate) unset: Vec<String>,
    pub(crate) set: Vec<(String, String)>,
}

impl Change {
    /// Checks the words of a call. What is to go goes before the rest is put in.
    ///
    /// # Errors
    /// `INVALID_FIELD`: one is no variable.
    pub(crate) fn parse(unset: Vec<String>, set: &[String]) -> Result<Change, Error> {
        let is_wrong = |it: &String| !is_name(it) && assignment(it).is_none();
        if let Some(at) = unset.iter().position(is_wrong) {
            let words = "Invalid environment variable names or assignments";
            return Err(Error::invalid(format!("unset[{at}]"), words));
        }
        let variable = |(at, text): (usize, &String)| {
            let wrong = || Error::invalid(format!("set[{at}]"), "Invalid environment assignments");
            assignment(text).ok_or_else(wrong)
        };
        let set = set.iter().enumerate().map(variable);
        Ok(Change {
            unset,
            set: set.collect::<Result<_, _>>()?,
        })
    }
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Given {
    environment: Environment,
    /// Whether services that don't say that they live are ended.
    pub(crate) watchdogs: bool,
}

impl Default for Given {
    fn default() -> Given {
        Given {
            environment: Environment::new(),
            watchdogs: true,
        }
    }
}

impl Given {
    /// Changes the variables, all or none.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`: they would take more than 16 KiB.
    pub(crate) fn change(&mut self, change: Change) -> Result<(), Error> {
        let mut new = self.environment.clone();
        for unset in &change.unset {
            match unset.split_once('=') {
                Some((name, value)) if new.get(name).is_some_and(|it| it == value) => {
                    new.remove(name);
                }
                Some(_) => {}
                None => {
                    new.remove(unset);
                }
            }
        }
        new.extend(change.set);
        let size: usize = new
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if size > LARGEST {
            let words = format!("the manager's environment takes at most {LARGEST} bytes");
            return Err(Error::new(Reason::LimitExceeded, words));
        }
        self.environment = new;
        Ok(())
    }

    /// What callers have set, without `PATH` where none has.
    pub(crate) fn variables(&self) -> &Environment {
        &self.environment
    }

    /// `NAME=value` of all that commands get, ordered by name.
    pub(crate) fn shown(&self) -> Vec<String> {
        let mut all = self.environment.clone();
        let path = all.entry("PATH".to_owned());
        path.or_insert_with(|| DEFAULT_PATH.to_owned());
        all.iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(unset: &[&str], set: &[&str]) -> Result<Change, Error> {
        let own = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        Change::parse(own(unset), &own(set))
    }

    #[test]
    fn variables_come_and_go() {
        let mut given = Given::default();
        let path = format!("PATH={DEFAULT_PATH}");
        assert_eq!(given.shown(), std::slice::from_ref(&path));
        given
            .change(change(&[], &["B=1 2", "A=x=y", "PATH=/p"]).unwrap())
            .unwrap();
        assert_eq!(given.shown(), ["A=x=y", "B=1 2", "PATH=/p"]);
        // An assignment takes away what has that value alone; a name does in any case.
        given
            .change(change(&["A=z", "B", "PATH"], &[]).unwrap())
            .unwrap();
        assert_eq!(given.shown(), ["A=x=y".to_owned(), path.clone()]);
        given
            .change(change(&["A=x=y", "NONE"], &["C="]).unwrap())
            .unwrap();
        assert_eq!(given.shown(), ["C=".to_owned(), path]);
        // What is taken away is put in again by the same call.
        given.change(change(&["C"], &["C=3"]).unwrap()).unwrap();
        assert_eq!(given.variables().get("C").unwrap(), "3");
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        for wrong in ["A", "=x", "1A=x", "A-B=x", "A=\u{1}", ""] {
            let error = change(&[], &["OK=1", wrong]).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("set[1]"), "{wrong}");
        }
        for wrong in ["", "1A", "A B", "A-B=x"] {
            let error = change(&[wrong], &[]).unwrap_err();
            assert_eq!(error.field.as_deref(), Some("unset[0]"), "{wrong}");
        }
        assert!(change(&["A", "B=1"], &["C=\ttab\n"]).is_ok());
    }

    #[test]
    fn the_block_is_bounded_and_stays_as_it_was() {
        let mut given = Given::default();
        given.change(change(&[], &["A=1"]).unwrap()).unwrap();
        let large = format!("B={}", "x".repeat(LARGEST));
        let error = given
            .change(change(&["A"], &[&large]).unwrap())
            .unwrap_err();
        assert_eq!(error.reason, Reason::LimitExceeded);
        assert_eq!(given.variables().get("A").unwrap(), "1");
    }
}
