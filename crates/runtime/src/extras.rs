// SPDX-License-Identifier: Apache-2.0
//! What a subsystem of the node gives an executable beside its spec: descriptors, and variables
//! that only the new process knows the value of. No message of the API has any of it, and it takes
//! an administrator's permit ([`crate::Runtime::launch`]).

use std::os::fd::OwnedFd;

use init::protocol::sandbox::Sandbox;
use model::error::{Error, Reason};
use model::executable::ExecutableSpec;
use model::launch::{Stream, check_descriptor_name};

/// The most descriptors of one executable from 3 on: they go with its start in one packet.
pub const MAX_DESCRIPTORS: usize = 48;
/// The most variables that get the program's pid.
const MAX_PID_ENV: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub struct Extras {
    /// Given to the program from 3 on, in their order, with `LISTEN_FDS`, `LISTEN_FDNAMES` and
    /// `LISTEN_PID` (sd_listen_fds(3)); at most [`MAX_DESCRIPTORS`]. None: none of the variables.
    pub descriptors: Vec<Descriptor>,
    /// Whether these are made non-blocking. It is the open files' flag: all that have them see it.
    pub nonblocking: bool,
    /// Descriptors that standard streams may name beside those, and that aren't passed from 3 on.
    pub streams: Vec<Descriptor>,
    /// What becomes of another session that has the terminal of standard input.
    pub terminal: Terminal,
    /// Variables whose value is the program's own pid, as it sees it; at most 8.
    pub pid_env: Vec<String>,
    /// What the program is kept from, in a cell that shares the node's mounts and users.
    pub sandbox: Option<Sandbox>,
    /// The devices that it and what it starts may use; `None`: as the cell.
    pub devices: Option<Vec<kernel::cgroup::devices::Rule>>,
    /// The networks that it and what it starts may speak with, where not with all.
    pub networks: Option<kernel::cgroup::addresses::Networks>,
    /// Whose the groups below its own are to make: a user and its group.
    pub delegate: Option<(u32, u32)>,
}

/// Of a terminal that another session has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Terminal {
    /// The program isn't begun.
    #[default]
    IsRefused,
    /// The program is begun when the other one has left it.
    IsAwaited,
    /// The other one loses it.
    IsTaken,
}

/// A descriptor with its name.
#[derive(Debug)]
pub struct Descriptor {
    /// As in `LISTEN_FDNAMES`; several may have one name.
    pub name: String,
    /// What the program gets; this one is closed then.
    pub fd: OwnedFd,
}

impl Extras {
    /// Whether there is anything.
    pub fn are_none(&self) -> bool {
        self.descriptors.is_empty()
            && self.streams.is_empty()
            && self.pid_env.is_empty()
            && self.sandbox.is_none()
            && self.devices.is_none()
            && self.networks.is_none()
            && self.delegate.is_none()
            && self.terminal == Terminal::IsRefused
    }

    /// Whether they can be given to an executable of that spec.
    pub(crate) fn check(&self, spec: &ExecutableSpec) -> Result<(), Error> {
        let all = || self.descriptors.iter().chain(&self.streams);
        if self.descriptors.len() > MAX_DESCRIPTORS || self.streams.len() > 3 {
            let message = format!(
                "an executable has at most {MAX_DESCRIPTORS} descriptors, and 3 streams; {} and {} \
                 were given",
                self.descriptors.len(),
                self.streams.len()
            );
            return Err(Error::new(Reason::LimitExceeded, message));
        }
        for descriptor in all() {
            check_descriptor_name("descriptors", &descriptor.name)?;
        }
        let good = |name: &String| {
            let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            !name.is_empty() && name.len() <= 64 && name.bytes().all(good)
        };
        if self.pid_env.len() > MAX_PID_ENV || !self.pid_env.iter().all(good) {
            return Err(Error::invalid(
                "pid_env",
                "must be at most 8 names of variables",
            ));
        }
        let streams = &spec.streams;
        let named = [
            ("stdin", &streams.stdin),
            ("stdout", &streams.stdout),
            ("stderr", &streams.stderr),
        ];
        for (field, stream) in named {
            if let Stream::Descriptor(name) = stream
                && !all().any(|given| given.name == *name)
            {
                let problem = format!("names the descriptor {name:?}, which was not passed");
                return Err(Error::invalid(
                    format!("executable.spec.streams.{field}.path"),
                    problem,
                )
                .hint("redirect the stream to a file: clients can't pass descriptors"));
            }
        }
        Ok(())
    }
}
