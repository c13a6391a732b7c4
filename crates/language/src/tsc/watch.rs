// SPDX-License-Identifier: Apache-2.0
//! A child process within bounds of time and memory.

use std::io::{self, Read};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, pidfd_open, prlimit};

/// What its heap tries to stay below, in bytes: the compiler is written in Go, which then collects
/// more often.
const HEAP: &str = "1500MiB";

/// The most memory that it may have, in bytes.
const MEMORY: u64 = 4 << 30;

/// The longest output that is kept, in bytes.
const LONGEST: u64 = 64 << 20;

/// Starts a child whose memory is bounded.
///
/// # Errors
/// It can't be started, or not be bounded; then it is killed.
pub(crate) fn confine(command: &mut Command) -> io::Result<Child> {
    command.env("GOMEMLIMIT", HEAP);
    let mut child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let limit = Rlimit {
        current: Some(MEMORY),
        maximum: Some(MEMORY),
    };
    if let Err(problem) = prlimit(pid, Resource::Data, limit) {
        end(&mut child);
        return Err(problem.into());
    }
    Ok(child)
}

/// All that it writes until it ends; killed at the end of its time.
///
/// # Errors
/// It can't be started or read, or takes longer (`TimedOut`).
pub(super) fn output(mut command: Command, within: Duration) -> io::Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = confine(&mut command)?;
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        end(&mut child);
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let end_of_time = Instant::now() + within;
    let read = all(out, err, end_of_time).and_then(|read| {
        ended(&child, end_of_time)?;
        Ok(read)
    });
    if read.is_err() {
        end(&mut child);
    }
    let (stdout, stderr) = read?;
    let status = child.wait()?;
    Ok(Output {
        status,
        stdout,
        stderr,
    })
}

fn all(out: ChildStdout, err: ChildStderr, end_of_time: Instant) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (out, err) = (reader(out)?, reader(err)?);
    Ok((received(&out, end_of_time)?, received(&err, end_of_time)?))
}

/// Waits until it has ended; one that closed its output may go on.
fn ended(child: &Child, end_of_time: Instant) -> io::Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else { return Ok(()) };
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let left = end_of_time.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

fn reader(from: impl Read + Send + 'static) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new()
        .name("tsc-output".into())
        .spawn(move || {
            let mut text = Vec::new();
            let read = from.take(LONGEST).read_to_end(&mut text);
            // The receiver is gone where the time is over.
            let _ = sender.send(read.map(|_| text));
        })?;
    Ok(receiver)
}

fn received(from: &Receiver<io::Result<Vec<u8>>>, end_of_time: Instant) -> io::Result<Vec<u8>> {
    let left = end_of_time.saturating_duration_since(Instant::now());
    match from.recv_timeout(left) {
        Ok(read) => read,
        Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
        Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Kills it and takes its exit.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_says_nothing_is_killed_at_the_end_of_its_time() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let begun = Instant::now();
        let ended = output(command, Duration::from_millis(50));
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
