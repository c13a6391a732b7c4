// SPDX-License-Identifier: Apache-2.0
//! Runs programs of the host. An error names the program that failed and has its output, in one
//! sentence.
//!
//! Not for anything on a node: that is [`crate::agent`].

use std::ffi::OsStr;
use std::process::{Child, Command, ExitStatus, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

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

/// Waits for a child to end; none if it still runs after this time.
///
/// # Errors
/// When it can't be waited for.
pub fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    // Of one that was waited for before there is no process any more.
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    let until = Instant::now() + limit;
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let left = Timespec::try_from(left).context("a wait that long")?;
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Asks a child to end as a service manager does, by SIGTERM; its exit status. None where it still
/// runs after this time: then it is killed. By the system call, since a small Debian has no program
/// for it.
///
/// # Errors
/// When it can't be signalled or waited for.
pub fn end(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(status));
    }
    kill_process(Pid::from_child(child), Signal::TERM)?;
    let ended = wait(child, limit)?;
    if ended.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(ended)
}

/// The last lines of a text.
#[must_use]
pub fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(count);
    lines.get(from..).unwrap_or_default().join("\n")
}

/// Whether PATH leads to a program of that name.
#[must_use]
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn cannot_start(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    format!("can't start {program}: `./x` installs what its commands need; is it on PATH?")
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;

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
    fn a_child_is_asked_to_end_and_killed_when_it_does_not() {
        let start = |script| Command::new("sh").args(["-c", script]).spawn().unwrap();
        let mut polite = start("exec sleep 1000");
        let status = end(&mut polite, Duration::from_secs(20)).unwrap().unwrap();
        assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
        let mut deaf = Command::new("sh")
            .args(["-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 4];
        deaf.stdout.take().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(end(&mut deaf, Duration::from_millis(300)).unwrap(), None);
        assert!(deaf.try_wait().unwrap().is_some(), "it was killed");
    }

    #[test]
    fn the_last_lines_are_the_last() {
        assert_eq!(last_lines("a\nb\nc", 2), "b\nc");
        assert_eq!(last_lines("a", 5), "a");
    }
}
