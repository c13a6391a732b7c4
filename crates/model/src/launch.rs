// SPDX-License-Identifier: Apache-2.0
//! The parts of an executable's spec that services of a machine need beside what a container has:
//! which process is the main one and what a stop does to the others, where the standard streams
//! lead, and how the program is scheduled. Plain data and its checks, as systemd.service(5),
//! systemd.kill(5) and systemd.exec(5) mean them; what is done with them is `runtime`'s and
//! `init`'s.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, Within};
use crate::signal::Signal;
use crate::text::{check_absolute_path, weight};

/// The longest name of a descriptor, in bytes (sd_listen_fds(3)).
pub const MAX_DESCRIPTOR_NAME: usize = 255;

/// Which process an executable's life follows, and what its stop does to the others.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ending {
    /// The process whose end is the executable's.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub main_process: MainProcess,
    /// Of [`MainProcess::PidFile`]: an absolute path.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub pid_file: String,
    /// Which processes a stop signals, and which outlive the main one.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub kill_mode: KillMode,
    /// The signal at the end of the grace; a name or number. Empty: SIGKILL.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub final_signal: String,
    /// SIGHUP follows the stop signal at once, to the same processes.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub send_sighup: bool,
    /// Whether what is there at the end of the grace is killed. `None`: yes.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub send_sigkill: Option<bool>,
}

/// The process whose end is the executable's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MainProcess {
    /// The one that was executed.
    #[default]
    Executed,
    /// The one that a file names once the executed one has exited with 0.
    PidFile,
    /// The only one that the executed one leaves; where it leaves several, none.
    Guessed,
    /// None: the executable runs as long as one of its processes does.
    None,
}

impl MainProcess {
    /// Whether the executed process is only the first: its exit with 0 ends the start.
    pub fn forks(self) -> bool {
        self != MainProcess::Executed
    }
}

/// Which processes a stop signals, and what happens to those that outlive the main one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillMode {
    /// The stop signal goes to the main process, and when that has ended to what it left. What is
    /// there at the end of the grace is killed.
    #[default]
    Descent,
    /// All get the stop signal at once; what is there at the end of the grace is killed.
    ControlGroup,
    /// The main process gets the stop signal; what it leaves is killed at once.
    Mixed,
    /// The main process alone; what it leaves goes on, without a name.
    Process,
    /// No process is signalled; what the main process leaves goes on, without a name.
    None,
}

impl KillMode {
    /// Whether what outlives the main process goes on.
    pub fn leaves(self) -> bool {
        matches!(self, KillMode::Process | KillMode::None)
    }
}

impl Ending {
    pub(crate) fn check(&self) -> Result<()> {
        let wants_file = self.main_process == MainProcess::PidFile;
        match (wants_file, self.pid_file.as_str()) {
            (true, path) => check_absolute_path("pid_file", path)?,
            (false, "") => {}
            (false, _) => {
                let problem = "has a meaning only where main_process is PID_FILE";
                return Err(Error::invalid("pid_file", problem));
            }
        }
        self.final_signal().map(drop)
    }

    /// The signal at the end of the grace.
    pub(crate) fn final_signal(&self) -> Result<Signal> {
        match self.final_signal.as_str() {
            "" => Ok(Signal::KILL),
            text => text.parse().within("final_signal"),
        }
    }

    pub(crate) fn weight(&self) -> usize {
        weight(&self.pid_file) + weight(&self.final_signal) + 120
    }

    /// The same with every default filled in.
    pub(crate) fn effective(&self) -> Self {
        Self {
            final_signal: self.final_signal().unwrap_or(Signal::KILL).to_string(),
            send_sigkill: Some(self.send_sigkill.unwrap_or(true)),
            ..self.clone()
        }
    }
}

/// Where the standard streams lead.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Streams {
    /// Standard input.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub stdin: Stream,
    /// Standard output.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub stdout: Stream,
    /// Standard error.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub stderr: Stream,
}

/// Where one standard stream leads. Paths are of the executable's own view of files, and are opened
/// with the rights of its cell's root.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Output: the log. Input: /dev/null, or the pipe of `stdin`.
    #[default]
    Log,
    /// /dev/null.
    Null,
    /// A file, from its beginning. Output creates it where it isn't there, and leaves what is in it
    /// behind what is written.
    File(String),
    /// Output: the end of a file.
    Append(String),
    /// Output: a file that is emptied first.
    Truncate(String),
    /// A terminal; that of standard input becomes the controlling one.
    Tty(String),
    /// Standard output: as standard input. Standard error: as standard output.
    Inherit,
    /// The descriptor of that name, which came with the request. From subsystems of the node alone.
    Descriptor(String),
    /// Output: who attaches first, as fast as they read it. The log has none of it.
    Attached,
}

impl Stream {
    /// The path or name that it has.
    pub fn target(&self) -> &str {
        match self {
            Stream::Log | Stream::Null | Stream::Inherit | Stream::Attached => "",
            Stream::File(target)
            | Stream::Append(target)
            | Stream::Truncate(target)
            | Stream::Tty(target)
            | Stream::Descriptor(target) => target,
        }
    }

    fn check(&self) -> Result<()> {
        match self {
            Stream::Log | Stream::Null | Stream::Inherit | Stream::Attached => Ok(()),
            Stream::Descriptor(name) => check_descriptor_name("path", name),
            path => check_absolute_path("path", path.target()),
        }
    }
}

impl Streams {
    /// `terminal` and `stdin`: the executable has the one, asks for the other.
    pub(crate) fn check(&self, terminal: bool, stdin: bool) -> Result<()> {
        if terminal && *self != Streams::default() {
            let problem = "have no meaning beside a terminal, which is all three";
            return Err(Error::invalid("", problem).hint("leave out terminal or streams"));
        }
        if stdin && self.stdin != Stream::Log {
            let problem = "standard input is redirected here, so `stdin: true` has no effect";
            return Err(Error::invalid("stdin", problem).hint("set one of the two"));
        }
        let named = [
            ("stdin", &self.stdin),
            ("stdout", &self.stdout),
            ("stderr", &self.stderr),
        ];
        for (field, stream) in named {
            stream.check().within(field)?;
        }
        match self.stdin {
            Stream::Append(_) | Stream::Truncate(_) | Stream::Inherit | Stream::Attached => {
                let problem =
                    "can't be APPEND, TRUNCATE, INHERIT or ATTACHED: nothing is written to it";
                Err(Error::invalid("stdin.kind", problem))
            }
            _ => Ok(()),
        }
    }

    /// Whether an attacher gets output, and no log has it.
    pub fn lead_to_attacher(&self) -> bool {
        [&self.stdout, &self.stderr].contains(&&Stream::Attached)
    }

    pub(crate) fn weight(&self) -> usize {
        let all = [&self.stdin, &self.stdout, &self.stderr];
        all.iter().map(|stream| weight(stream.target()) + 40).sum()
    }
}

/// Whether programs can be told of a descriptor by that name: sd_listen_fds_with_names(3).
///
/// # Errors
/// `INVALID_FIELD` about `field`: 1 to 255 characters of ASCII, no control character, no colon.
pub fn check_descriptor_name(field: &str, name: &str) -> Result<()> {
    let good = |b: u8| (b' '..=b'~').contains(&b) && b != b':';
    match (1..=MAX_DESCRIPTOR_NAME).contains(&name.len()) && name.bytes().all(good) {
        true => Ok(()),
        false => Err(Error::invalid(
            field,
            "must be 1 to 255 printable characters of ASCII without a colon",
        )),
    }
}

/// How a program's threads get the processor and the disks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduling {
    /// The I/O scheduling class, ioprio_set(2). `None`: by nice.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub io_class: Option<IoClass>,
    /// 0 (first) to 7, in classes that have it. `None`: 4.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub io_priority: Option<u32>,
    /// The scheduling policy, sched(7). `None`: the usual one.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub policy: Option<CpuPolicy>,
    /// 1 to 99 (first), of the real-time policies.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub priority: Option<u32>,
    /// Children begin with the usual policy.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub reset_on_fork: bool,
    /// How late a timer may be, PR_SET_TIMERSLACK(2const). `None`: 50 µs.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub timer_slack: Option<Duration>,
}

/// An I/O scheduling class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoClass {
    /// Before all others. For administrators.
    Realtime,
    /// By priority.
    BestEffort,
    /// When no other wants the disk.
    Idle,
}

/// A scheduling policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuPolicy {
    /// The usual one.
    Other,
    /// The usual one, for work that needn't be prompt.
    Batch,
    /// When no other wants the processor.
    Idle,
    /// Real time, until it gives way. For administrators.
    Fifo,
    /// Real time, in turns. For administrators.
    RoundRobin,
}

impl CpuPolicy {
    /// Whether it goes before all usual programs, and has a priority of 1 to 99.
    pub fn is_realtime(self) -> bool {
        matches!(self, CpuPolicy::Fifo | CpuPolicy::RoundRobin)
    }
}

impl Scheduling {
    pub(crate) fn check(&self) -> Result<()> {
        if self.io_priority.is_some_and(|priority| priority > 7) {
            return Err(Error::invalid("io_priority", "must be from 0 to 7"));
        }
        if self.io_priority.is_some() && self.io_class == Some(IoClass::Idle) {
            let problem = "has no meaning in the class IDLE";
            return Err(Error::invalid("io_priority", problem));
        }
        let realtime = self.policy.is_some_and(CpuPolicy::is_realtime);
        match self.priority {
            None | Some(1..=99) if realtime == self.priority.is_some() => {}
            Some(_) if !realtime => {
                let problem = "has a meaning only with the policies FIFO and ROUND_ROBIN";
                return Err(Error::invalid("priority", problem));
            }
            _ => {
                let problem = "must be from 1 to 99 with the policies FIFO and ROUND_ROBIN";
                return Err(Error::invalid("priority", problem));
            }
        }
        match self.timer_slack {
            Some(slack) if slack.is_zero() || slack > Duration::from_secs(3600) => {
                let problem = "must be from 1 ns to 1 h";
                Err(Error::invalid("timer_slack", problem))
            }
            _ => Ok(()),
        }
    }
}

/// The session keyring of a program, keyrings(7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keyring {
    /// A new, empty one.
    #[default]
    Private,
    /// A new one with a link to the keyring of its user.
    Shared,
    /// The one of its cell: all that inherit it share it.
    Inherit,
}

/// The kernel that a program believes to run on, personality(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Personality {
    /// The machine's own.
    #[default]
    Linux,
    /// One of 32 bits: uname(2) says so.
    Linux32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_without_a_meaning_is_refused_by_its_field() {
        let field = |outcome: Result<()>| outcome.err().and_then(|error| error.field.clone());
        let ending = |change: fn(&mut Ending)| {
            let mut ending = Ending::default();
            change(&mut ending);
            field(ending.check())
        };
        assert_eq!(ending(|_| ()), None);
        let no_path = ending(|it| it.main_process = MainProcess::PidFile);
        assert_eq!(no_path.as_deref(), Some("pid_file"));
        let no_use = ending(|it| it.pid_file = "/run/a.pid".into());
        assert_eq!(no_use.as_deref(), Some("pid_file"));
        let no_signal = ending(|it| it.final_signal = "SIGNOTHING".into());
        assert_eq!(no_signal.as_deref(), Some("final_signal"));

        let streams = |stdin: Stream, terminal, kept| {
            let streams = Streams {
                stdin,
                ..Default::default()
            };
            field(streams.check(terminal, kept))
        };
        assert_eq!(streams(Stream::Null, false, false), None);
        assert_eq!(streams(Stream::Null, true, false).as_deref(), Some(""));
        assert_eq!(streams(Stream::Null, false, true).as_deref(), Some("stdin"));
        let relative = streams(Stream::File("a".into()), false, false);
        assert_eq!(relative.as_deref(), Some("stdin.path"));
        let written = streams(Stream::Inherit, false, false);
        assert_eq!(written.as_deref(), Some("stdin.kind"));
        let name = streams(Stream::Descriptor("a:b".into()), false, false);
        assert_eq!(name.as_deref(), Some("stdin.path"));
    }

    #[test]
    fn a_priority_goes_with_a_policy_that_has_one() {
        let checked = |policy, priority| {
            let scheduling = Scheduling {
                policy,
                priority,
                ..Default::default()
            };
            scheduling.check().is_ok()
        };
        assert!(checked(None, None) && checked(Some(CpuPolicy::Batch), None));
        assert!(checked(Some(CpuPolicy::Fifo), Some(99)));
        for (policy, priority) in [
            (None, Some(1)),
            (Some(CpuPolicy::Idle), Some(1)),
            (Some(CpuPolicy::RoundRobin), None),
            (Some(CpuPolicy::Fifo), Some(0)),
            (Some(CpuPolicy::Fifo), Some(100)),
        ] {
            assert!(!checked(policy, priority), "{policy:?} {priority:?}");
        }
    }
}
