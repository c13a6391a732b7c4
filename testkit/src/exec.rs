// SPDX-License-Identifier: Apache-2.0
//! Runs programs of the host, and says in one sentence which one failed and what it said.
//!
//! Not for anything on a node: that is [`crate::agent`].

use std::ffi::OsStr;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// The command as a person would type it, without quoting.
#[must_use]
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs it with the caller's stdio.
///
/// # Errors
/// When it can't be started or doesn't end with 0.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs it and returns what it printed to stdout.
///
/// # Errors
/// When it can't be started or doesn't end with 0; the end of its stderr is in the message.
pub fn read(command: &mut Command) -> Result<String> {
    let output = capture(command)?;
    if !output.status.success() {
        let said = last_lines(&String::from_utf8_lossy(&output.stderr), 12);
        bail!("`{}` failed: {}\n{said}", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs it, and returns all that it printed, however it ended.
///
/// # Errors
/// When it can't be started.
pub fn capture(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| cannot_start(command))
}

/// The last lines of a text.
#[must_use]
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(count);
    lines.get(from..).unwrap_or_default().join("\n")
}

fn cannot_start(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    format!("can't start {program}: `./x` installs what its commands need; is it on PATH?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_and_what_it_said() {
        let error = read(Command::new("sh").args(["-c", "echo broken pipe of dreams >&2; exit 3"]))
            .expect_err("it failed");
        let text = format!("{error:#}");
        assert!(text.contains("exit status: 3"), "{text}");
        assert!(text.contains("broken pipe of dreams"), "{text}");
    }

    #[test]
    fn the_last_lines_are_the_last() {
        assert_eq!(last_lines("a\nb\nc", 2), "b\nc");
        assert_eq!(last_lines("a", 5), "a");
    }
}
