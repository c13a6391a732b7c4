// SPDX-License-Identifier: Apache-2.0
//! What another init of a cell is told of an executable that the dead one has kept: all that
//! [`super::resume`] hears from an init, said the other way round. Who asks for it is
//! [`super::renewal`]'s.

use std::os::fd::OwnedFd;

use init::protocol::{CellRequest, ExitHow, ExitRecord, Stdio, WorkloadState};
use kernel::cgroup::Cgroup;
use model::exit::{Exit, How, Rusage};

use super::executable::Executable;
use super::main_process;
use super::state::Cell;
use crate::ports::LogSource;
use crate::record;

/// What the daemon has of an executable beside its init: in cells alone that outlive theirs.
#[derive(Default)]
pub(crate) struct Spare {
    /// Its main process, from the moment that the init has spoken of it: its number may be
    /// another's later.
    pub(super) process: Option<OwnedFd>,
    /// Where its output comes out.
    output: Option<LogSource>,
}

impl Spare {
    pub(super) fn of(process: Option<OwnedFd>, output: Option<&LogSource>) -> Self {
        Self {
            process,
            output: output.and_then(|output| copy_of(output).ok()),
        }
    }
}

fn copy_of(source: &LogSource) -> std::io::Result<LogSource> {
    Ok(match source {
        LogSource::Pipes { stdout, stderr } => LogSource::Pipes {
            stdout: stdout.try_clone()?,
            stderr: stderr.try_clone()?,
        },
        LogSource::Terminal(master) => LogSource::Terminal(master.try_clone()?),
    })
}

/// A [`CellRequest::Adopt`] without its number, and its descriptors.
pub(super) struct Handover {
    state: WorkloadState,
    forks: bool,
    stop_signal: u8,
    grace_ms: u32,
    pub(super) fds: Vec<OwnedFd>,
}

impl Handover {
    pub(super) fn request(self, request: u64) -> CellRequest {
        CellRequest::Adopt {
            request,
            state: self.state,
            forks: self.forks,
            stop_signal: self.stop_signal,
            grace_ms: self.grace_ms,
        }
    }
}

impl Executable {
    /// What the next init of its cell is to keep. An error says what is missing.
    pub(super) fn handover(&self, cell: &Cell) -> Result<Handover, String> {
        let written = record::encode(&self.record).map_err(|error| error.to_string())?;
        let leaf = self.leaf.try_clone().map_err(|error| error.to_string())?;
        let mut fds = vec![Cgroup::into_fd(leaf)];
        let started_ns = self.status.started.map_or(0, |started| started.0);
        let ended = self.exit.or(self.left);
        let pid = self.status.pid.and_then(|pid| i32::try_from(pid).ok());
        let process = pid.filter(|_| ended.is_none());
        let process = process.and_then(|pid| Some((pid, self.process(pid, cell)?)));
        let has_process = process.is_some();
        let pid = process.as_ref().map_or(0, |(pid, _)| *pid);
        fds.extend(process.map(|(_, pidfd)| pidfd));
        let stdio = self.give_output(&mut fds)?;
        let input = self.input.as_ref().filter(|_| stdio == Stdio::Pipes);
        let input = input.and_then(|input| input.try_clone().ok());
        let has_stdin = input.is_some();
        fds.extend(input.into_iter().chain(written.file));
        let grace = self.effective.stop_grace.as_millis();
        Ok(Handover {
            state: WorkloadState {
                uid: record::wire(self.uid()),
                pid,
                stdio,
                has_stdin,
                record: written.record,
                started_ns,
                exit: ended.map(|exit| record_of(&exit, started_ns)),
                first: self.first.map(|exit| record_of(&exit, started_ns)),
                has_process,
            },
            forks: self.effective.ending.main_process.forks(),
            stop_signal: self.effective.stop_signal.number(),
            grace_ms: u32::try_from(grace).unwrap_or(u32::MAX),
            fds,
        })
    }

    /// Its main process: the one that was known, or one of that number in the cell's group.
    fn process(&self, pid: i32, cell: &Cell) -> Option<OwnedFd> {
        let known = self.spare.process.as_ref();
        let known = known.and_then(|pidfd| pidfd.try_clone().ok());
        known.or_else(|| Some(main_process::of_group(pid, &cell.group, pid)?.pidfd))
    }

    fn give_output(&self, fds: &mut Vec<OwnedFd>) -> Result<Stdio, String> {
        let missing = || "its output's descriptors are not to be had".to_owned();
        let output = self.spare.output.as_ref().ok_or_else(missing)?;
        Ok(match copy_of(output).map_err(|error| error.to_string())? {
            LogSource::Pipes { stdout, stderr } => {
                fds.extend([stdout, stderr]);
                Stdio::Pipes
            }
            LogSource::Terminal(master) => {
                fds.push(master);
                let size = self.effective.terminal;
                let (rows, columns) = size.map_or((0, 0), |size| (size.rows, size.columns));
                Stdio::Terminal { rows, columns }
            }
        })
    }
}

/// The protocol's form of an exit.
fn record_of(exit: &Exit, started_ns: u64) -> ExitRecord {
    let used: Rusage = exit.rusage.unwrap_or_default();
    let nanoseconds =
        |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    ExitRecord {
        how: match exit.how {
            How::Code(code) => ExitHow::Code(code),
            How::Signal(signal) => ExitHow::Signal {
                signal,
                core: exit.core_dumped,
            },
            How::Unknown => ExitHow::Unknown,
        },
        started_ns: exit.started.map_or(started_ns, |started| started.0),
        finished_ns: exit.finished.map_or(0, |finished| finished.0),
        user_ns: nanoseconds(used.user_time),
        system_ns: nanoseconds(used.system_time),
        max_rss_bytes: used.max_rss_bytes,
        minor_faults: used.minor_faults,
        major_faults: used.major_faults,
        voluntary_switches: used.voluntary_switches,
        involuntary_switches: used.involuntary_switches,
        oom_kills: exit.oom_kills,
    }
}

#[cfg(test)]
mod tests {
    use super::super::executable::exit_of;
    use super::*;

    #[test]
    fn an_end_that_the_next_init_keeps_is_the_one_that_the_last_one_told() {
        let record = ExitRecord {
            how: ExitHow::Signal {
                signal: 9,
                core: true,
            },
            started_ns: 1,
            finished_ns: 2,
            user_ns: 3,
            system_ns: 4,
            max_rss_bytes: 5,
            minor_faults: 6,
            major_faults: 7,
            voluntary_switches: 8,
            involuntary_switches: 9,
            oom_kills: Some(10),
        };
        assert_eq!(record_of(&exit_of(&record), 0), record);
    }
}
