// SPDX-License-Identifier: Apache-2.0
//! The command line of a test binary with a `main` of its own (`harness = false`), in libtest's
//! words: `--list`, `--exact`, `--skip WORD`, `--ignored` and any number of names or parts of
//! names. So `cargo test -- --list` and runners like `cargo nextest` list such stories, and run one
//! alone. The binary says how a story is told; here is which are, and what is printed of them.

use std::process::ExitCode;
use std::time::Instant;

/// A story's name, and what tells it.
pub type Story<S> = (&'static str, S);

/// What became of a story.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// As it should.
    Passed,
    /// Not as it should; it has said why.
    Failed,
    /// This machine can't tell it; it has said why.
    Ignored,
}

impl Told {
    /// A story fails by panicking.
    pub fn by(story: impl FnOnce() + std::panic::UnwindSafe) -> Self {
        match std::panic::catch_unwind(story) {
            Ok(()) => Self::Passed,
            Err(_) => Self::Failed,
        }
    }
}

/// libtest's exit code where a test has failed, or the arguments are wrong.
const FAILED: u8 = 101;

/// Options of libtest that have a value and no meaning for stories, which run one after the other
/// and print as they go.
const WITH_VALUE: [&str; 6] = [
    "--test-threads",
    "--logfile",
    "--color",
    "--format",
    "--shuffle-seed",
    "-Z",
];
/// The same, without a value.
const WITHOUT_VALUE: [&str; 7] = [
    "--nocapture",
    "--no-capture",
    "--show-output",
    "--quiet",
    "-q",
    "--include-ignored",
    "--test",
];

/// What the arguments ask for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Choice {
    list: bool,
    exact: bool,
    /// Only the ignored ones: no story is.
    ignored: bool,
    names: Vec<String>,
    skip: Vec<String>,
}

impl Choice {
    fn of(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut choice = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (option, value) = match argument.split_once('=') {
                Some((option, value)) if option.starts_with("--") => (option, Some(value)),
                _ => (argument.as_str(), None),
            };
            let mut value = || value.map(str::to_owned).or_else(|| arguments.next());
            match option {
                "--list" => choice.list = true,
                "--exact" => choice.exact = true,
                "--ignored" => choice.ignored = true,
                "--skip" => choice.skip.extend(value()),
                option if WITHOUT_VALUE.contains(&option) => {}
                option if WITH_VALUE.contains(&option) => drop(value()),
                option if option.starts_with('-') => return Err(format!("{option} is unknown")),
                _ => choice.names.push(argument),
            }
        }
        Ok(choice)
    }

    fn takes(&self, name: &str) -> bool {
        let is = |wanted: &String| match self.exact {
            true => name == wanted,
            false => name.contains(wanted.as_str()),
        };
        let named = self.names.is_empty() || self.names.iter().any(is);
        named && !self.ignored && !self.skip.iter().any(is)
    }
}

/// For [`run`]'s `possible`: root alone can tell the stories, and `why` says so.
///
/// # Errors
/// `why`, where this process isn't root's.
pub fn by_root(why: &'static str) -> Result<(), &'static str> {
    match crate::skip::is_root() {
        true => Ok(()),
        false => Err(why),
    }
}

/// Lists or runs those of `stories` that the arguments of this process choose. `one` tells a story;
/// `possible` is asked first, and says why this machine can tell none.
pub fn run<S>(
    stories: &[Story<S>],
    possible: impl FnOnce() -> Result<(), &'static str>,
    mut one: impl FnMut(&str, &S) -> Told,
) -> ExitCode {
    let choice = match Choice::of(std::env::args().skip(1)) {
        Ok(choice) => choice,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(FAILED);
        }
    };
    let chosen = || stories.iter().filter(|(name, _)| choice.takes(name));
    if choice.list {
        chosen().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Err(why) = possible() {
        crate::skip(why);
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, story) in chosen() {
        let begun = Instant::now();
        let word = match one(name, story) {
            Told::Passed => "ok",
            Told::Failed => "FAILED",
            Told::Ignored => "ignored",
        };
        failed += u32::from(word == "FAILED");
        println!("story {name} ... {word} ({:.1?})", begun.elapsed());
    }
    println!("{failed} failed");
    ExitCode::from(if failed == 0 { 0 } else { FAILED })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(arguments: &str) -> Result<Choice, String> {
        Choice::of(arguments.split_whitespace().map(str::to_owned))
    }

    fn chosen(arguments: &str) -> Vec<&'static str> {
        let choice = choice(arguments).unwrap();
        let names = ["adopt", "again", "again-killed", "late"];
        names
            .into_iter()
            .filter(|name| choice.takes(name))
            .collect()
    }

    #[test]
    fn stories_are_chosen_as_libtest_chooses_tests() {
        assert_eq!(chosen("").len(), 4);
        assert_eq!(chosen("again"), ["again", "again-killed"]);
        assert_eq!(chosen("again --exact"), ["again"]);
        assert_eq!(chosen("late ado"), ["adopt", "late"]);
        assert_eq!(chosen("--skip again"), ["adopt", "late"]);
        assert_eq!(
            chosen("--exact --skip=again again-killed again"),
            ["again-killed"]
        );
        assert_eq!(chosen("--ignored"), [""; 0]);
        assert_eq!(chosen("nothing"), [""; 0]);
        // The values of options are no names.
        assert_eq!(
            chosen("--test-threads 1 --format terse -Z unstable-options late"),
            ["late"]
        );
        assert_eq!(chosen("--nocapture --color=never late"), ["late"]);
    }

    #[test]
    fn a_list_is_asked_for_and_a_wrong_option_refused() {
        assert!(choice("--list --format terse").unwrap().list);
        assert!(!choice("late").unwrap().list);
        assert_eq!(choice("--lst").unwrap_err(), "--lst is unknown");
    }
}
