// SPDX-License-Identifier: Apache-2.0
//! How stories are told: a chapter boots one node, its stories are run on it in order, and each is
//! counted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use testkit::how_much;
use testkit::node::{Bed, Node, Options};

/// How long a story may take: many times what the longest takes on a busy machine. Past it the
/// node's power is cut.
const LIMIT: Duration = Duration::from_secs(900);

/// Lines of a reason's beginning, and of its end, that the closing lines repeat.
const REASON: usize = 20;

/// Stories that share a node.
pub(crate) struct Chapter {
    pub(crate) name: &'static str,
    pub(crate) options: fn() -> Options,
    pub(crate) stories: &'static [Story],
    /// What the console must have shown when the node is off.
    pub(crate) at_the_end: fn(&str) -> Result<()>,
}

/// The usual end of a node whose PID 1 is auraed.
pub(crate) fn powered_off(console: &str) -> Result<()> {
    for line in ["PowerOff follows, in ", "auraed: the end"] {
        ensure!(console.contains(line), "{line:?} isn't on the console");
    }
    Ok(())
}

/// One promise.
pub(crate) struct Story {
    /// What holds, as a sentence.
    pub(crate) name: &'static str,
    pub(crate) tell: fn(&mut Node) -> Result<()>,
}

/// What came of them.
#[derive(Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: Vec<String>,
    /// Why the first story of a chapter failed that did: the others may be its consequences.
    reasons: Vec<String>,
}

impl Tally {
    /// What is left of one whose teller has panicked.
    pub(crate) fn broken_off() -> Self {
        Self {
            failed: vec!["a chapter broke off (see above)".to_owned()],
            ..Self::default()
        }
    }

    /// Both together.
    pub(crate) fn with(mut self, other: Self) -> Self {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.reasons.extend(other.reasons);
        self
    }

    /// Boots the chapter's node and tells those of its stories that `filter` picks. Where the
    /// disk's units are run, the first story is told in any case: it waits until they are up.
    pub(crate) fn tell(&mut self, bed: &Bed, chapter: &Chapter, filter: &str) {
        let full = |name: &str| format!("{}: {name}", chapter.name);
        let mut picked: Vec<&Story> = chapter
            .stories
            .iter()
            .filter(|story| full(story.name).contains(filter))
            .collect();
        if picked.is_empty() {
            return;
        }
        let options = (chapter.options)();
        let first = chapter.stories.first().filter(|_| options.units);
        if let Some(first) = first
            && picked.iter().all(|story| story.name != first.name)
        {
            picked.insert(0, first);
        }
        let failed = self.reasons.len();
        let started = Instant::now();
        let booted = bed.boot(&options);
        let booted = self.count(&full("a node boots and serves"), started, booted);
        let Some(mut node) = booted else { return };
        for story in picked {
            let started = Instant::now();
            let told = told(&mut node, story);
            self.count(&full(story.name), started, told);
        }
        let started = Instant::now();
        let off = node.power_off();
        let off = off.and_then(|()| (chapter.at_the_end)(&node.console()));
        self.count(&full("it powers off when asked to"), started, off);
        self.reasons.truncate(failed + 1);
    }

    fn count<T>(&mut self, name: &str, started: Instant, came: Result<T>) -> Option<T> {
        let seconds = started.elapsed().as_secs_f64();
        match came {
            Ok(value) => {
                self.passed += 1;
                println!("ok      {name} ({seconds:.1} s)");
                Some(value)
            }
            Err(error) => {
                let told = format!("FAILED  {name} ({seconds:.1} s)\n{error:#}\n");
                println!("{told}");
                self.failed.push(name.to_owned());
                self.reasons.push(told);
                None
            }
        }
    }

    /// Prints the closing lines. Who reads a log by its end finds the reasons there.
    pub(crate) fn close(self) -> ExitCode {
        for reason in &self.reasons {
            println!("{}\n", ends_of(reason));
        }
        for name in &self.failed {
            println!("FAILED  {name}");
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
        if self.failed.is_empty() && self.passed > 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// The first and the last lines of a long text.
fn ends_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(2 * REASON) {
        None | Some(0) => text.to_owned(),
        Some(left) => {
            let first = lines.iter().take(REASON).copied();
            let last = lines.iter().skip(REASON + left).copied();
            let told = format!("[… {left} lines, see above …]");
            let all: Vec<&str> = first.chain([told.as_str()]).chain(last).collect();
            all.join("\n")
        }
    }
}

/// Tells one story within its bound.
fn told(node: &mut Node, story: &Story) -> Result<()> {
    let watchdog = node.watch(how_much(LIMIT, 100 * LIMIT));
    // An assertion that fails in a story ends that story, not the rest.
    let told = catch_unwind(AssertUnwindSafe(|| (story.tell)(node)));
    let told = told.unwrap_or_else(|_| Err(anyhow!("an assertion failed (see above)")));
    // What it failed with is a consequence where its power was cut.
    watchdog.call_off().and(told)
}

/// Everything that the node knows of an object.
pub(crate) fn inspect(node: &Node, name: &str) -> Result<Value> {
    let told = node.sh(&format!("aurae inspect -o json {name}"))?;
    serde_json::from_str(&told).with_context(|| format!("`aurae inspect` printed {told}"))
}

/// A text in it, by the names that lead there.
pub(crate) fn text(value: &Value, names: &[&str]) -> Result<String> {
    let pointer: String = names.iter().map(|name| format!("/{name}")).collect();
    let found = value.pointer(&pointer).and_then(Value::as_str);
    found
        .map(str::to_owned)
        .with_context(|| format!("no {pointer} in {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_reason_keeps_its_beginning_and_its_end() {
        let lines = |count| (0..count).map(|it| format!("{it}")).collect::<Vec<_>>();
        let short = lines(2 * REASON).join("\n");
        assert_eq!(ends_of(&short), short);
        let long = ends_of(&lines(2 * REASON + 5).join("\n"));
        assert!(
            long.starts_with("0\n1\n") && long.ends_with("\n44"),
            "{long}"
        );
        assert!(
            long.contains("\n19\n[… 5 lines, see above …]\n25\n"),
            "{long}"
        );
    }
}
