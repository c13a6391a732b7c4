// SPDX-License-Identifier: Apache-2.0
//! Starting an executable: leaf, limits, streams, the cell-init's answer. Whatever fails leaves
//! nothing behind.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use init::protocol::{Failure, Launch, Step};
use kernel::cgroup::Cgroup;
use kernel::cgroup::addresses::Networks;
use kernel::cgroup::devices::Rule;
use model::cell::Namespace;
use model::error::{Error, Reason, Within};
use model::lifecycle::Event as Life;
use model::lifecycle::executable::Event as End;
use model::name::Uid;
use model::status::Object;
use model::time::Timestamp;
use rustix::io::Errno;

use super::executable::{Executable, condition};
use super::executables::Executables;
use super::handover::Spare;
use super::owner::Event;
use super::resume::process_in;
use super::state::Cell;
use super::{Reply, StartOrder, container, full, launch, leaf, limits, main_process};
use crate::extras::Extras;
use crate::index::Reservation;
use crate::link::{LinkError, fds};
use crate::ports::{LogOwner, LogSource};
use crate::record::{self, ExecutableRecord};
use crate::tenant::inits;
use crate::{hooks, lsm};

/// When a caller is to try again who met a limit that is met no more.
const AGAIN: Duration = Duration::from_secs(1);

/// An executable that the cell-init was asked to start.
pub(crate) struct Starting {
    executable: Box<Executable>,
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

impl Executables {
    /// Makes what an executable needs, and waits for its start from then on. Returns what the
    /// cell-init is to be asked, and the descriptors; nothing where it was refused: the caller was
    /// told.
    pub(super) fn start(
        &mut self,
        order: StartOrder,
        cell: &Cell,
    ) -> Option<(Launch, Vec<OwnedFd>)> {
        let StartOrder {
            record,
            extras,
            reservation,
            reply,
        } = order;
        let uid = record.meta.uid;
        let record = container::beside(record, self, cell);
        match record.and_then(|record| prepare(record, extras, self, cell)) {
            Ok((executable, prepared)) => {
                let directory = executable.leaf.try_clone().map(Cgroup::into_fd);
                let starting = Starting {
                    executable,
                    source: prepared.source,
                    reservation,
                    reply,
                };
                self.insert_starting(uid, starting);
                match directory {
                    Ok(directory) => {
                        let mut fds = vec![directory];
                        fds.extend(prepared.fds);
                        return Some((prepared.launch, fds));
                    }
                    Err(error) => {
                        self.not_started(uid, kernel_failed("a descriptor", &error), cell);
                    }
                }
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
        None
    }

    /// The program was executed: it is an executable of the cell from here on. An error says what
    /// is wrong with what the cell-init has handed over.
    pub(super) fn started(
        &mut self,
        uid: Uid,
        started_ns: u64,
        given: Vec<OwnedFd>,
        cell: &Cell,
    ) -> Result<(), LinkError> {
        let Some(starting) = self.take_starting(&uid) else {
            let what = "it started an executable without a request";
            return Err(LinkError::Malformed(what.to_owned()));
        };
        match handed_over(&starting, given, cell) {
            Ok(begun) => {
                let started = Timestamp(started_ns);
                let executable = starting.begin(begun, started, cell);
                self.insert(uid, executable);
                Ok(())
            }
            Err(error) => {
                self.insert_starting(uid, starting);
                Err(error)
            }
        }
    }

    /// The cell-init could not start it, or has not in time.
    pub(super) fn start_failed(&mut self, uid: Uid, failure: &Failure, cell: &Cell) {
        // Before its group is gone.
        let starting = self.starting(&uid);
        let met = starting.and_then(|s| full::refusal(failure, &s.executable, cell));
        let name = starting.map(|s| s.executable.record.meta.path.to_string());
        let error = met
            .unwrap_or_else(|| not_executed(failure).about("executable", name.unwrap_or_default()));
        self.not_started(uid, error, cell);
    }

    /// Takes back what was made for it.
    pub(super) fn not_started(&mut self, uid: Uid, error: Error, cell: &Cell) {
        let Some(starting) = self.take_starting(&uid) else {
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
        leaf::remove(&cell.group, &executable.leaf_name());
        cell.shared.offered.forget(uid);
        drop(reservation);
        let _ = reply.send(Err(error));
    }
}

impl Starting {
    /// Its program runs: has its output stored, and tells of it.
    fn begin(self, begun: Begun, started: Timestamp, cell: &Cell) -> Box<Executable> {
        let Begun {
            pid,
            pidfd,
            terminal,
        } = begun;
        let Starting {
            mut executable,
            source,
            reservation,
            reply,
        } = self;
        if let Some(master) = &terminal {
            // Without a second descriptor there is no input; the output matters more.
            executable.input = master.try_clone().ok().map(Arc::new);
        }
        executable.status.pid = pid;
        executable.status.started = Some(started);
        if let Err(error) = executable.step(Life::Started) {
            tracing::error!(%error, "a start out of turn");
        }
        let source = source.or(terminal.map(LogSource::Terminal));
        if cell.outlives_its_init() {
            executable.spare = Spare::of(Some(pidfd), source.as_ref());
        }
        if executable.effective.main {
            cell.shared.hooks.started(cell.record.meta.uid, pid);
        }
        if let Some(source) = source {
            cell.beside(executable.attach_logs(source, cell));
        }
        let shared = &cell.shared;
        shared.offered.began(executable.uid());
        if let Some(idempotency_key) = &executable.record.idempotency_key {
            shared
                .index
                .remember(&cell.key.tenant, idempotency_key, executable.uid());
        }
        let object = Object::Executable(executable.status.clone());
        if let Some(displaced) = shared.index.publish_new(object, reservation) {
            shared.forget_beside(&displaced);
        }
        executable.starter = Some(reply);
        executable
    }
}

impl Executable {
    /// Has the output stored from now on; the end of it is not stored before that has begun.
    pub(super) fn attach_logs(
        &self,
        source: LogSource,
        cell: &Cell,
    ) -> impl Future<Output = Event> + Send + use<> {
        let uid = self.uid();
        let owner = LogOwner {
            tenant: cell.key.tenant.clone(),
            path: self.record.meta.path.clone(),
            uid,
            policy: self.effective.logs,
        };
        let attached = cell.shared.logs.attach(owner, source);
        async move { Event::Attached(uid, attached.await) }
    }

    /// Its output is being stored, or can't be.
    pub(super) fn attached(&mut self, outcome: Result<(), Error>, cell: &Cell) -> End {
        if let Err(error) = outcome {
            tracing::error!(executable = %self.record.meta.path, %error, "output is not stored");
            let condition = condition("OutputNotStored", "LogUnavailable", error.message.clone());
            self.status.conditions.push(condition);
            self.publish(cell);
        }
        self.is_logged = true;
        self.tell_starter(cell);
        End::LogOpened
    }
}

/// The leaf and the streams of an executable, and what its cell-init is told.
fn prepare(
    record: ExecutableRecord,
    mut extras: Extras,
    executables: &Executables,
    cell: &Cell,
) -> Result<(Box<Executable>, launch::Prepared), Error> {
    let uid = record.meta.uid;
    let written = record::encode(&record)?;
    inits::admit_record(&cell.shared, &cell.key.tenant, written.held())?;
    let mut effective = record.effective().within("executable.spec")?;
    main_process::check(&effective, cell)?;
    // The node's own users are in the groups that the node's own file says, as with any service.
    effective.member |= cell.has_nodes(&[Namespace::User, Namespace::Mount]);
    let seccomp = cell
        .shared
        .seccomp
        .compile(&effective, has_no_set_id_filter(cell))?;
    let pids = container::pids(&effective, executables, cell)?;
    let wanted = limits::of(&effective.resources)?;
    limits::enable(&cell.group, &effective.resources)?;
    limits::check_protection(&cell.group, &effective.resources)?;
    let name = record.leaf();
    if effective.ending.kill_mode.leaves() {
        leaf::admit_left(&cell.group)?;
    }
    let leaf = leaf::make(&cell.group, &name, cell.root_id)
        .map_err(|e| kernel_failed("the executable's cgroup could not be made", &e))?;
    let groups = match container::delegates(&effective, cell) {
        true => leaf::delegate(&leaf, (cell.root_id, cell.root_id)),
        false => hand_on(&leaf, &cell.group, extras.delegate.take()),
    };
    let groups = groups.map_err(|e| kernel_failed("its cgroup could not be handed on", &e));
    let (devices, networks) = (extras.devices.take(), extras.networks.take());
    let prepared = groups
        .and_then(|()| limits::set(&leaf, &wanted))
        .and_then(|()| restrict_devices(&leaf, devices))
        .and_then(|()| restrict_networks(&leaf, networks))
        .and_then(|()| launch::prepare(&record.meta, &effective, pids, written, seccomp, extras));
    let prepared = prepared.and_then(|mut prepared| {
        let direct = std::mem::take(&mut prepared.direct);
        let offered = &cell.shared.offered;
        offered.offer(&cell.key.tenant, uid, direct)?;
        Ok(prepared)
    });
    match prepared {
        Ok(mut prepared) => {
            let mut executable = Executable::new(record, effective, Arc::new(leaf));
            executable.input = prepared.input.take().map(Arc::new);
            if executable.effective.main {
                prepared.launch.before = hooks::before(&cell.shared, &cell.record.meta);
            }
            Ok((executable, prepared))
        }
        Err(error) => {
            leaf::remove(&cell.group, &name);
            Err(error)
        }
    }
}

/// Lets the user of a service make groups below its leaf, with all controllers that the node has.
fn hand_on(leaf: &Cgroup, cell: &Cgroup, to: Option<(u32, u32)>) -> Result<(), kernel::Error> {
    let Some(owner) = to else { return Ok(()) };
    limits::enable_usual(cell, &[])?;
    leaf::delegate(leaf, owner)
}

/// Has the kernel refuse other devices to what will be in a leaf.
fn restrict_devices(leaf: &Cgroup, rules: Option<Vec<Rule>>) -> Result<(), Error> {
    let Some(rules) = rules else { return Ok(()) };
    leaf.allow_devices(&rules).map_err(|error| {
        let message = format!("its devices can't be restricted: {error}");
        Error::new(Reason::Unsupported, message)
            .errno(error.errno())
            .field("sandbox.devices")
    })
}

/// Has the kernel drop what a leaf's sockets may not send or get.
fn restrict_networks(leaf: &Cgroup, networks: Option<Networks>) -> Result<(), Error> {
    let Some(networks) = networks else {
        return Ok(());
    };
    leaf.restrict_addresses(&networks).map_err(|error| {
        let message = format!("its addresses can't be restricted: {error}");
        Error::new(Reason::Unsupported, message)
            .errno(error.errno())
            .field("sandbox.networks")
    })
}

/// Whether a program may set set-id bits: all of the node's files are the cell's own to grant, or
/// it is a container that no file of the node can be written from, now or later.
fn has_no_set_id_filter(cell: &Cell) -> bool {
    let among_node_mounts = cell
        .host()
        .is_some_and(|(key, spec)| key.path.parent().is_none() && spec.shares(Namespace::Mount));
    among_node_mounts || container::is_sealed(cell)
}

/// What the cell-init hands over of an executable that has begun.
struct Begun {
    /// As the daemon numbers it; none where it has ended.
    pid: Option<u32>,
    pidfd: OwnedFd,
    /// Where it has one.
    terminal: Option<OwnedFd>,
}

/// Its process and its terminal.
fn handed_over(starting: &Starting, given: Vec<OwnedFd>, cell: &Cell) -> Result<Begun, LinkError> {
    let mut given = given.into_iter();
    let wants_terminal = starting.source.is_none();
    let (pidfd, process) = fds::pidfd(given.next())?;
    let terminal = wants_terminal.then(|| fds::terminal(given.next()));
    let pid = process_in(&cell.group, &starting.executable.leaf, process);
    Ok(Begun {
        pid: pid.map_err(LinkError::Malformed)?,
        pidfd,
        terminal: terminal.transpose()?,
    })
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
    let folder = detail.trim_start_matches("chdir ");
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
            "it must be a file that the executable's user, label and profile let it execute",
        ),
        // No limit is met now, or it is one of the node itself.
        Step::Clone if failed.errno == Errno::AGAIN.raw_os_error() => Error::new(
            Reason::LimitExceeded,
            format!("the program was not started: {}", said(failed)),
        )
        .errno(failed.errno)
        .hint("try again: there were as many processes as there may be, and some have ended")
        .retry_after(AGAIN),
        // What it was to run beside has ended since it was asked for.
        Step::Namespace if failed.errno == Errno::SRCH.raw_os_error() => Error::new(
            Reason::WrongState,
            "the main process of the container has ended",
        )
        .hint("start that again first"),
        Step::User => error(
            Reason::InvalidField,
            format!("there is no such user or group in the cell: {detail} ({text})"),
            "user",
            "give a number, or a name of the cell's own /etc/passwd and /etc/group",
        ),
        Step::Directory => error(
            Reason::InvalidField,
            format!("can't enter working directory {folder}: {text}"),
            "cwd",
            "give a folder that exists in the cell and that the user may enter",
        ),
        Step::Rlimit => unsupported(failed, "rlimits", "the node's own hard limit is lower"),
        Step::Priority => unsupported(failed, "nice", "the node itself may not do this"),
        Step::Affinity => unsupported(failed, "cpu_affinity", "name CPUs that the cell has"),
        Step::Scheduling => unsupported(failed, "scheduling", "the node itself may not do this"),
        Step::Open => error(
            Reason::InvalidField,
            format!("the standard stream {detail} can't be opened: {text}"),
            "streams",
            "name a file that can be opened in the cell, or a terminal where that is asked for",
        ),
        Step::Sandbox
        | Step::SandboxNetwork
        | Step::SandboxUsers
        | Step::SandboxFilter
        | Step::SandboxLabel
        | Step::SandboxMemory => sandbox(failed),
        Step::Label => lsm::refused(failed),
        Step::Capabilities => unsupported(failed, "capabilities", "name fewer capabilities"),
        Step::Seccomp => unsupported(failed, "seccomp", "the kernel refused the filter"),
        Step::Before | Step::Listener => by_others(failed),
        _ => failure("the program was not started", failed),
    }
}

/// A step at which a program of the node's or of the container's has its say.
fn by_others(failed: &Failure) -> Error {
    let (what, field, hint) = match failed.step {
        Step::Before => (
            "a hook before the program has failed",
            "argv",
            "mend the hook startContainer of its container",
        ),
        _ => (
            "the agent of its filter didn't take its listener",
            "seccomp.custom",
            "have the agent listen at listenerPath, then try again",
        ),
    };
    Error::new(Reason::WrongState, format!("{what}: {}", failed.detail))
        .errno(failed.errno)
        .field(format!("executable.spec.{field}"))
        .hint(hint)
}

/// A step of [`crate::sandbox::Sandbox`]; the detail says whose it is.
fn sandbox(failed: &Failure) -> Error {
    let part = match failed.step {
        Step::SandboxNetwork => "network",
        Step::SandboxUsers => "users",
        Step::SandboxFilter => "filter",
        Step::SandboxLabel => "label",
        Step::SandboxMemory => "memory",
        _ => "mounts",
    };
    let text = std::io::Error::from_raw_os_error(failed.errno);
    Error::new(Reason::Unsupported, format!("{}: {text}", failed.detail))
        .errno(failed.errno)
        .field(format!("sandbox.{part}"))
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
