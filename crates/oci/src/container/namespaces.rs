// SPDX-License-Identifier: Apache-2.0
//! Which namespaces a container gets new, which ones it joins, and the clone that makes its first
//! process in them.
//!
//! New ones come with the clone itself. Where some are joined, or a time namespace has offsets, a
//! helper stands in between: it joins, clones the process as its *sibling*, says the pid and ends.
//! So the process is the runtime's child in every case, and the runtime stays where it is.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::cgroup::Cgroup;
use kernel::clone::{self, Cloned, Options};
use kernel::namespace::{self, Namespaces};
use kernel::wait::{Reap, Target};
use kernel::{pidfd, process, seqpacket, wait};

use crate::config::Spec;
use crate::error::{Doing, Error, Result, refuse};

/// The kinds, by the specification's words and by the names in `/proc/PID/ns`. A mount namespace
/// is joined last, since paths mean something else in it.
const KINDS: [(&str, &str, Namespaces); 8] = [
    ("network", "net", Namespaces::NET),
    ("ipc", "ipc", Namespaces::IPC),
    ("uts", "uts", Namespaces::UTS),
    ("pid", "pid", Namespaces::PID),
    ("time", "time", Namespaces::TIME),
    ("cgroup", "cgroup", Namespaces::CGROUP),
    ("user", "user", Namespaces::USER),
    ("mount", "mnt", Namespaces::MOUNT),
];

/// The kind of a word of the specification.
pub(crate) fn kind(word: &str) -> Option<Namespaces> {
    let known = KINDS.iter().find(|(name, ..)| *name == word);
    known.map(|(.., kind)| *kind)
}

/// The words, for `features`.
pub(crate) fn words() -> Vec<&'static str> {
    let mut words: Vec<_> = KINDS.iter().map(|(word, ..)| *word).collect();
    words.sort_unstable();
    words
}

/// Namespaces of a process to be.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Those that are made.
    pub(crate) new: Namespaces,
    /// Those that are joined, in the order of [`KINDS`].
    joined: Vec<(Namespaces, OwnedFd)>,
    /// Lines of `/proc/PID/timens_offsets`.
    offsets: String,
}

impl Plan {
    /// What the configuration says. Every path is opened here, before anything changes.
    pub(crate) fn of(spec: &Spec) -> Result<Plan> {
        let mut plan = Plan::default();
        for (word, file, kind) in KINDS {
            let Some(wanted) = spec.linux.namespaces.iter().find(|n| n.kind == word) else {
                continue;
            };
            if wanted.path.as_os_str().is_empty() {
                plan.new = plan.new | kind;
                continue;
            }
            let doing = format!("linux.namespaces: {word} namespace");
            let fd = namespace::open(&wanted.path).doing(&doing)?;
            plan.join(file, kind, fd).doing(&doing)?;
        }
        for (clock, offset) in &spec.linux.time_offsets {
            if !["monotonic", "boottime"].contains(&clock.as_str()) {
                return refuse(format!("linux.timeOffsets: no clock {clock:?}"));
            }
            let line = format!("{clock} {} {}\n", offset.secs, offset.nanosecs);
            plan.offsets.push_str(&line);
        }
        Ok(plan)
    }

    /// All that a process is in and the caller isn't.
    pub(crate) fn of_process(pid: i32) -> Result<Plan> {
        let mut plan = Plan::default();
        for (_, file, kind) in KINDS {
            let path = PathBuf::from(format!("/proc/{pid}/ns/{file}"));
            match namespace::open(&path) {
                Ok(fd) => plan.join(file, kind, fd)?,
                // A kernel without that kind.
                Err(error) if error.is_not_found() && file == "time" => {}
                Err(error) => return Err(error).doing("the container's namespaces"),
            }
        }
        Ok(plan)
    }

    /// The kernel refuses to join the user namespace that one is in.
    fn join(&mut self, file: &str, kind: Namespaces, fd: OwnedFd) -> Result<()> {
        let own = namespace::open(Path::new("/proc/self/ns").join(file).as_path())?;
        if namespace::identity(&own)? != namespace::identity(&fd)? {
            self.joined.push((kind, fd));
        }
        Ok(())
    }

    /// Whether the process is in a namespace of this kind that isn't the caller's.
    pub(crate) fn has(&self, kind: Namespaces) -> bool {
        self.new.has(kind) || self.joined.iter().any(|(joined, _)| *joined == kind)
    }

    /// Whether one of this kind is joined.
    pub(crate) fn joins(&self, kind: Namespaces) -> bool {
        self.joined.iter().any(|(joined, _)| *joined == kind)
    }

    /// Clones; `child` is run in the new process and must not return. Answers pid and pidfd.
    pub(crate) fn clone(
        &self,
        cgroup: Option<&Cgroup>,
        child: impl FnOnce() -> i32,
    ) -> Result<(i32, OwnedFd)> {
        // The words of this line and of the two that follow from the process are runc's: people
        // and scripts look for them.
        crate::log::debug(format!(
            "nsexec container setup: new namespaces {:?}, joined {}",
            self.new,
            self.joined.len()
        ));
        let options = Options {
            namespaces: self.new.without(Namespaces::TIME),
            cgroup: cgroup.map(AsFd::as_fd),
            ..Options::default()
        };
        if self.joined.is_empty() && !self.new.has(Namespaces::TIME) {
            return match told(
                clone::clone(options),
                cgroup,
                "clone the container's process",
            )? {
                Cloned::Child => process::exit(child()),
                Cloned::Parent(pid, pidfd) => Ok((pid, pidfd)),
            };
        }
        let (ours, theirs) = seqpacket::pair(seqpacket::Mode::Blocking)?;
        // The helper is in the group already. Once it has joined a cgroup namespace it could put no
        // process into a group from one that is outside, where cgroups are mounted with nsdelegate.
        let inside = Options {
            cgroup: options.cgroup,
            ..Options::default()
        };
        let helper = match told(clone::clone(inside), cgroup, "clone a helper")? {
            Cloned::Parent(pid, _) => pid,
            Cloned::Child => {
                drop(ours);
                let sibling = Options {
                    sibling: true,
                    cgroup: None,
                    // Made by the helper.
                    namespaces: match self.new.has(Namespaces::TIME) {
                        true => options.namespaces.without(Namespaces::USER),
                        false => options.namespaces,
                    },
                    ..options
                };
                process::exit(self.help(sibling, &theirs, child))
            }
        };
        drop(theirs);
        let mut buffer = [0u8; 4096];
        let said = seqpacket::receive(&ours, &mut buffer);
        wait::wait(Target::Pid(helper), Reap::Yes).doing("wait for the helper")?;
        let length = said.ok().flatten().map_or(0, |packet| packet.length);
        let said = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned();
        match said.parse::<i32>() {
            // A child of ours that we haven't waited for: the pid is still its own.
            Ok(pid) => Ok((pid, pidfd::open(pid)?)),
            Err(_) if said.is_empty() => refuse("the helper that joins namespaces has ended"),
            Err(_) => Err(Error::new(said)),
        }
    }

    /// The helper's life.
    fn help(&self, options: Options<'_>, socket: &OwnedFd, child: impl FnOnce() -> i32) -> i32 {
        let cloned = self
            .join_all()
            .and_then(|()| clone::clone(options).doing("clone the container's process"));
        let said = match cloned {
            Ok(Cloned::Child) => return child(),
            Ok(Cloned::Parent(pid, _)) => pid.to_string(),
            Err(error) => error.to_string(),
        };
        i32::from(seqpacket::send(socket, said.as_bytes(), &[]).is_err())
    }

    /// First what the caller may join as it is, then the user namespace, then what only that one's
    /// root may join.
    fn join_all(&self) -> Result<()> {
        let mut later = Vec::new();
        let user = |kind: &Namespaces| *kind == Namespaces::USER;
        for (kind, fd) in self.joined.iter().filter(|(kind, _)| !user(kind)) {
            match namespace::join(fd, *kind) {
                Err(error) if error.is(rustix::io::Errno::PERM.raw_os_error()) => {
                    later.push((kind, fd));
                }
                other => other.doing("join a namespace")?,
            }
        }
        for (kind, fd) in self.joined.iter().filter(|(kind, _)| user(kind)) {
            namespace::join(fd, *kind).doing("join the user namespace")?;
        }
        for (kind, fd) in later {
            namespace::join(fd, *kind).doing("join a namespace")?;
        }
        if self.new.has(Namespaces::TIME) {
            // An ordinary user may make one in a user namespace of its own alone.
            if self.new.has(Namespaces::USER) {
                namespace::unshare(Namespaces::USER).doing("new user namespace")?;
            }
            namespace::unshare(Namespaces::TIME).doing("new time namespace")?;
            if !self.offsets.is_empty() {
                std::fs::write("/proc/self/timens_offsets", &self.offsets)
                    .doing("linux.timeOffsets: write the offsets")?;
            }
        }
        Ok(())
    }
}

/// A group that takes no process is named, in the words that runc's users look for.
fn told(cloned: kernel::Result<Cloned>, cgroup: Option<&Cgroup>, doing: &str) -> Result<Cloned> {
    match (cloned, cgroup) {
        (Err(error), Some(group)) if error.is(rustix::io::Errno::BUSY.raw_os_error()) => Err(error)
            .doing(format_args!(
                "error adding pid of a new process to cgroups: {} hands controllers on",
                group.path().display()
            )),
        (cloned, _) => cloned.doing(doing),
    }
}
