// SPDX-License-Identifier: Apache-2.0
//! The evaluator's process: its start with one socket and nothing else, and its end. What it is
//! allowed once it runs is its own to give up (`confine`), before it sees any program.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::task::AbortHandle;

/// A child, killed and reaped when this is dropped, and the task that serves it.
#[derive(Debug)]
pub(super) struct Process {
    child: Option<Child>,
    pid: u32,
    server: Option<AbortHandle>,
}

impl Process {
    /// Executes `program` with an empty environment and a socket as its standard input. Where it
    /// stands is its own to leave: a child that changes its folder can't be made without copying
    /// this process's page tables, which takes longer than all the rest.
    /// By the thread that stays: the evaluator dies with it. Our end doesn't block.
    pub(super) fn start(
        program: &Path,
        arguments: &[OsString],
    ) -> std::io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = Command::new(program)
            .arg0("aurae")
            .args(arguments)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A terminal's Ctrl-C is for us: we ask the evaluator to stop.
            .process_group(0)
            .spawn()?;
        let process = Process {
            pid: child.id(),
            child: Some(child),
            server: None,
        };
        Ok((process, ours))
    }

    /// The process with the task that ends with it.
    pub(super) fn with(mut self, server: AbortHandle) -> Self {
        self.server = Some(server);
        self
    }

    /// Its number, also after its end.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether its data has ever taken so many bytes; none where `/proc` doesn't say, as of a
    /// process that has ended.
    pub(super) fn has_taken(&self, bytes: u64) -> Option<bool> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        taken_at_most(&status).map(|taken| taken >= bytes)
    }

    /// Kills and reaps it, and says how it ended.
    pub(super) async fn kill(&mut self) -> String {
        let Some(mut child) = self.child.take() else {
            return "it had ended before".to_owned();
        };
        if let Some(server) = self.server.take() {
            server.abort();
        }
        // Reaping a process of some hundred megabytes takes the kernel milliseconds.
        let ended = tokio::task::spawn_blocking(move || end(&mut child)).await;
        match ended {
            Ok(Ok(status)) => describe(status),
            Ok(Err(e)) => format!("its status can't be read: {e}"),
            Err(e) => format!("its status can't be read: {e}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
        }
        if let Some(mut child) = self.child.take() {
            // It is killed; an error is that there is nothing to reap.
            let _ = end(&mut child);
        }
    }
}

/// How long the main thread of a process was on a processor; `None` where the kernel doesn't say
/// (`CONFIG_SCHED_INFO`), or it is gone. An evaluator has one thread.
pub(super) fn ran(pid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Kills it unless it has ended, so that the status is its own where it has one.
fn end(child: &mut Child) -> std::io::Result<ExitStatus> {
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    child.kill()?;
    child.wait()
}

/// The most bytes of data that a process ever had at a time: the most that it had mapped, less
/// what is its program and stack. Those don't change.
fn taken_at_most(status: &str) -> Option<u64> {
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
        kib.checked_mul(1024)
    };
    let beside = bytes("VmSize:")?.checked_sub(bytes("VmData:")?)?;
    bytes("VmPeak:")?.checked_sub(beside)
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "it was killed".to_owned(),
        (Some(signal), _) => format!("it ended by signal {signal}"),
        (None, Some(code)) => format!("it exited with status {code}"),
        (None, None) => format!("it ended with {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_data_that_a_process_ever_had_is_read() {
        let status = "Name:\taurae\nVmPeak:\t  300000 kB\nVmSize:\t   90000 kB\n\
                      VmHWM:\t    1000 kB\nVmData:\t   60000 kB\nVmStk:\t     132 kB\n";
        assert_eq!(taken_at_most(status), Some(270_000 * 1024));
        // One that has ended has no memory.
        assert_eq!(taken_at_most("Name:\taurae\nState:\tZ (zombie)\n"), None);
    }
}
