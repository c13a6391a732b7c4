// SPDX-License-Identifier: Apache-2.0
//! Starting an executable: leaf, limits, streams, the cell-init's answer. Whatever fails leaves
//! nothing behind.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use init::protocol::{CellRequest, Failure, Step};
use kernel::cgroup::Cgroup;
use model::cell::Namespace;
use model::error::{Error, Reason};
use model::lifecycle::Event as Life;
use model::lifecycle::executable::Event as End;
use model::name::Uid;
use model::status::Object;
use model::time::Timestamp;
use rustix::io::Errno;

use super::executable::Executable;
use super::owner::{Call, Event, Owner};
use super::resume::process_in;
use super::{Reply, StartOrder, launch, leaf, limits};
use crate::index::Reservation;
use crate::link::{LinkError, fds};
use crate::ports::{LogOwner, LogSource};
use crate::record;
use crate::tenant::inits;

/// An executable that the cell-init was asked to start.
pub(crate) struct Starting {
    executable: Executable,
    /// None of a terminal: its master comes with the answer.
    source: Option<LogSource>,
    reservation: Reservation,
    reply: Reply<Arc<Object>>,
}

impl Starting {
    pub(super) fn executable(&self) -> &Executable {
        &self.executable
    }
}

impl Owner {
    pub(super) fn start(&mut self, order: StartOrder) {
        let StartOrder {
            record,
            reservation,
            reply,
        } = order;
        let uid = record.meta.uid;
        match self.prepare(record) {
            Ok((executable, prepared)) => {
                let directory = executable.leaf.try_clone().map(Cgroup::into_fd);
                let starting = Starting {
                    executable,
                    source: prepared.source,
                    reservation,
                    reply,
                };
                self.executables.start(uid, starting);
                match directory {
                    Ok(directory) => {
                        let mut fds = vec![directory];
                        fds.extend(prepared.fds);
                        let launch = prepared.launch;
                        self.call(Call::Start(uid), fds, |request| CellRequest::Start {
                            request,
                            launch,
                        });
                    }
                    Err(error) => self.not_started(uid, kernel_failed("a descriptor", &error)),
                }
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    fn prepare(
        &mut self,
        record: record::ExecutableRecord,
    ) -> Result<(Executable, launch::Prepared), Error> {
        self.admits_start()?;
        let uid = record.meta.uid;
        let bytes = record::encode(&record)?;
        inits::admit_record(&self.shared, &self.key.tenant, bytes.len())?;
        let effective = record.spec.effective(record.logs);
        // With the node's mounts all of the node's files are the cell's own to grant.
        let has_node_mounts =
            self.key.path.parent().is_none() && self.record.spec.shares(Namespace::Mount);
        let seccomp = self.shared.seccomp.compile(&effective, has_node_mounts)?;
        let wanted = limits::of(&effective.resources)?;
        limits::enable(&self.group, &effective.resources)?;
        limits::check_protection(&self.group, &effective.resources)?;
        let name = record.meta.path.name().to_owned();
        let leaf = leaf::make(&self.group, &name, self.root_id)
            .map_err(|e| kernel_failed("the executable's cgroup could not be made", &e))?;
        let prepared = limits::set(&leaf, &wanted)
            .and_then(|()| launch::prepare(uid, &effective, bytes, seccomp));
        match prepared {
            Ok(mut prepared) => {
                let mut executable = Executable::new(record, Arc::new(leaf));
                executable.input = prepared.input.take().map(Arc::new);
                Ok((executable, prepared))
            }
            Err(error) => {
                leaf::remove(&self.group, &name);
                Err(error)
            }
        }
    }

    fn admits_start(&self) -> Result<(), Error> {
        let refuse = |what: &str, hint: &str| {
            Err(Error::new(
                Reason::WrongState,
                format!("the cell {} {what}", self.key.path),
            )
            .about("cell", self.key.path.to_string())
            .hint(hint))
        };
        if self.ending.has_begun() || !self.exchange.is_open() {
            return refuse(
                "is stopping: nothing new can begin in it",
                "run the cell again",
            );
        }
        if self.is_frozen() {
            return refuse("is frozen", "thaw it first");
        }
        Ok(())
    }

    /// The program was executed.
    pub(super) fn started(&mut self, uid: Uid, started_ns: u64, given: Vec<OwnedFd>) {
        let Some(starting) = self.executables.take_starting(&uid) else {
            return self.protocol_error("it started what it was not asked for");
        };
        let mut given = given.into_iter();
        let wants_terminal = starting.source.is_none();
        let handed = fds::pidfd(given.next()).and_then(|(_, process)| {
            let terminal = wants_terminal.then(|| fds::terminal(given.next()));
            let pid = process_in(&self.group, &starting.executable.leaf, process);
            Ok((pid.map_err(LinkError::Malformed)?, terminal.transpose()?))
        });
        let (pid, terminal) = match handed {
            Ok(handed) => handed,
            Err(error) => {
                self.executables.start(uid, starting);
                return self.silent(&error);
            }
        };
        let Starting {
            mut executable,
            source,
            reservation,
            reply,
        } = starting;
        if let Some(master) = &terminal {
            // Without a second descriptor there is no input; the output matters more.
            executable.input = master.try_clone().ok().map(Arc::new);
        }
        executable.status.pid = pid;
        executable.status.started = Some(Timestamp(started_ns));
        if let Err(error) = executable.step(Life::Started) {
            tracing::error!(%error, "a start out of turn");
        }
        if let Some(source) = source.or(terminal.map(LogSource::Terminal)) {
            let attached = self.attach_logs(&executable, source);
            self.beside(attached);
        }
        if let Some(asked) = &executable.record.asked {
            self.shared.index.remember(&self.key.tenant, asked, uid);
        }
        let object = Object::Executable(executable.status.clone());
        if let Some(displaced) = self.shared.index.publish_new(object, reservation) {
            self.shared.forget_beside(&displaced);
        }
        executable.starter = Some(reply);
        self.executables.insert(uid, executable);
        self.catch_up(uid);
    }

    /// What was asked of the cell while the executable was being started.
    fn catch_up(&mut self, uid: Uid) {
        if self.ending.has_begun() {
            let grace = self.record.stop.and_then(|stop| stop.grace);
            self.stop(uid, grace, None);
        } else if self.is_frozen() {
            self.hold(uid, true);
        }
    }

    /// Has the output stored from now on; the end of it is not stored before that has begun.
    pub(super) fn attach_logs(
        &self,
        executable: &Executable,
        source: LogSource,
    ) -> impl Future<Output = Event> + Send + use<> {
        let uid = executable.uid();
        let owner = LogOwner {
            tenant: self.key.tenant.clone(),
            path: executable.record.meta.path.clone(),
            uid,
            policy: executable.effective.logs,
        };
        let attached = self.shared.logs.attach(owner, source);
        async move { Event::Attached(uid, attached.await) }
    }

    pub(super) fn attached(&mut self, uid: Uid, outcome: Result<(), Error>) {
        let Some(executable) = self.executables.get_mut(&uid) else {
            return;
        };
        let starter = executable.starter.take();
        if let Err(error) = outcome {
            tracing::error!(executable = %executable.record.meta.path, %error, "output is not stored");
            let message = error.message.clone();
            let condition =
                super::executable::condition("OutputNotStored", "LogUnavailable", message);
            executable.status.conditions.push(condition);
            self.publish_executable(uid);
        }
        // Only now, so that a client that is told and attaches finds a log.
        if let Some(starter) = starter {
            let _ = starter.send(self.object(uid));
        }
        self.happened(uid, End::LogOpened);
    }

    pub(super) fn start_failed(&mut self, uid: Uid, failure: &Failure) {
        let name = self
            .executables
            .starting(&uid)
            .map(|s| s.executable.record.meta.path.to_string());
        let error = not_executed(failure).about("executable", name.unwrap_or_default());
        self.not_started(uid, error);
    }

    /// Takes back what was made for it.
    pub(super) fn not_started(&mut self, uid: Uid, error: Error) {
        let Some(starting) = self.executables.take_starting(&uid) else {
            return;
        };
        let Starting {
            executable,
            reservation,
            reply,
            ..
        } = starting;
        if leaf::populated(&executable.leaf) {
            leaf::kill(&executable.leaf);
        }
        leaf::remove(&self.group, executable.name());
        drop(reservation);
        let _ = reply.send(Err(error));
    }
}

fn kernel_failed(what: &str, error: &kernel::Error) -> Error {
    Error::new(Reason::Internal, format!("{what}: {error}")).errno(error.errno())
}

/// A step of an init that failed, in general.
pub(crate) fn failure(what: &str, failure: &Failure) -> Error {
    let reason = match failure.step {
        Step::Limit => Reason::LimitExceeded,
        _ => Reason::Internal,
    };
    Error::new(reason, format!("{what}: {}", said(failure))).errno(failure.errno)
}

/// What an init says of a failed step: the detail and the system's word for it, once.
pub(crate) fn said(failure: &Failure) -> String {
    let text = std::io::Error::from_raw_os_error(failure.errno).to_string();
    match failure.detail.contains(&text) {
        true => format!("{} ({:?})", failure.detail, failure.step),
        false => format!("{} ({:?}: {text})", failure.detail, failure.step),
    }
}

/// Why a program was not executed: the answer of `RunExecutable`.
fn not_executed(failed: &Failure) -> Error {
    let text = std::io::Error::from_raw_os_error(failed.errno);
    let detail = &failed.detail;
    let error = |reason, message: String, field: &str, hint: &str| {
        Error::new(reason, message)
            .errno(failed.errno)
            .field(format!("executable.spec.{field}"))
            .hint(hint)
    };
    match failed.step {
        Step::Exec if failed.errno == Errno::NOENT.raw_os_error() => error(
            Reason::ProgramNotFound,
            format!("there is no program {detail} in the cell"),
            "argv[0]",
            "give a path that exists in the cell, or a name that its PATH finds; a script's \
             interpreter must exist, too",
        ),
        Step::Exec => error(
            Reason::ProgramNotExecutable,
            format!("the program {detail} can't be executed: {text}"),
            "argv[0]",
            "it must be an executable file that the user of the executable may read and execute",
        ),
        Step::User => error(
            Reason::InvalidField,
            format!("there is no such user or group in the cell: {detail} ({text})"),
            "user",
            "give a number, or a name of the cell's own /etc/passwd and /etc/group",
        ),
        Step::Directory => error(
            Reason::InvalidField,
            format!(
                "can't enter working directory {}: {text}",
                detail.trim_start_matches("chdir ")
            ),
            "cwd",
            "give a folder that exists in the cell and that the user may enter",
        ),
        Step::Rlimit => unsupported(failed, "rlimits", "the node's own hard limit is lower"),
        Step::Priority => unsupported(failed, "nice", "the node itself may not do this"),
        Step::Affinity => unsupported(failed, "cpu_affinity", "name CPUs that the cell has"),
        Step::Capabilities => unsupported(failed, "capabilities", "name fewer capabilities"),
        Step::Seccomp => unsupported(failed, "seccomp", "the kernel refused the filter"),
        _ => failure("the program was not started", failed),
    }
}

fn unsupported(failed: &Failure, field: &str, hint: &str) -> Error {
    let text = std::io::Error::from_raw_os_error(failed.errno);
    Error::new(
        Reason::Unsupported,
        format!("{} was refused: {text}", failed.detail),
    )
    .errno(failed.errno)
    .field(format!("executable.spec.{field}"))
    .hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errno_is_said_once() {
        let errno = Errno::ACCESS.raw_os_error();
        let text = std::io::Error::from_raw_os_error(errno).to_string();
        let failure = |detail: &str| Failure {
            step: Step::Protocol,
            errno,
            detail: detail.to_owned(),
        };
        let twice = format!("open (/srv): {text}");
        for detail in ["open /srv", &twice] {
            assert_eq!(
                said(&failure(detail)).matches("os error").count(),
                1,
                "{detail}"
            );
        }
    }
}
