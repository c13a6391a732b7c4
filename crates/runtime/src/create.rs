// SPDX-License-Identifier: Apache-2.0
//! Making a cell: cgroups, ids, socket, mounts, its init, its owner. What was made is taken back
//! when a later step fails ([`Made`]), so that a cell is there altogether or not at all.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::init::protocol::{CellEvent, CellLaunch, CellRequest, Failure, Namespaces, Step, Volume};
use kernel::cgroup::Cgroup;
use kernel::seqpacket;
use model::cell::{CellSpec, Draft, Namespace};
use model::error::{Error, Reason};
use model::lifecycle::State;
use model::name::Uid;
use model::status::{CellStatus, Object};

use rustix::io::Errno;

use super::Shared;
use super::caller::{Callers, given_up};
use super::cell::init::{self, InitProcess};
use super::cell::owner::{Beginning, Line, Owner};
use super::cell::{CellHandle, limits};
use super::ids::IdRange;
use super::index::{Key, Reservation};
use super::link::cell::CellLink;
use super::link::node::{CreateError, NodeInit};
use super::link::{GREETING, LinkError};
use super::mounts::Prepared;
use super::record::{self, CellRecord};
use super::tenant;

/// How long it may take to let go of what a dead cell left in the place of a new one.
const LEFT: Duration = Duration::from_secs(1);
/// How long the kernel may take to let go of what a failed attempt left.
const UNDO: Duration = Duration::from_secs(10);
/// When whoever met something that passes is to try again.
const AGAIN: Duration = Duration::from_secs(1);

/// What there is of a cell that is being made, to be taken back unless it is kept. The name and the
/// ids stay reserved until nothing of a failed cell lives any more: nobody else is to have ids that
/// a process still has.
struct Made {
    reservation: Reservation,
    parent: Cgroup,
    name: String,
    socket: PathBuf,
    /// Its init was made: it is to be killed, and the end of it acknowledged.
    init: Option<(NodeInit, ::init::protocol::Uid, Arc<InitProcess>)>,
}

impl Made {
    /// Takes everything back; what was killed may take a moment to go.
    async fn undo(self) {
        let Made {
            reservation,
            parent,
            name,
            socket,
            init,
        } = self;
        if let Some((node, uid, process)) = init {
            process.kill();
            node.acknowledge(uid).await;
        }
        let parent = Arc::new(parent);
        loop {
            let (parent, name, socket) = (parent.clone(), name.clone(), socket.clone());
            let removed = tokio::task::spawn_blocking(move || {
                let _ = std::fs::remove_file(socket);
                if let Ok(group) = parent.child(&name) {
                    super::cell::leaf::kill(&group);
                }
                parent.remove(&name, UNDO).map_err(|e| e.to_string())
            });
            match removed.await.unwrap_or_else(|e| Err(e.to_string())) {
                Ok(()) => break,
                Err(error) => tracing::error!(%error, "a failed cell can't be taken back yet"),
            }
            tokio::time::sleep(UNDO).await;
        }
        drop(reservation);
    }
}

/// Makes a cell whose name is reserved. Answers a failure when nothing of the cell is left, unless
/// that takes long.
pub(crate) async fn cell(
    shared: &Arc<Shared>,
    mut record: CellRecord,
    reservation: Reservation,
    callers: &Callers,
) -> Result<CellHandle, Error> {
    let key = Key {
        tenant: record.meta.tenant.clone(),
        path: record.meta.path.clone(),
    };
    record.ids = reservation.range();
    let effective = effective(&record.spec, &key, record.ids);
    let _being_created = shared.creations.take(&key.tenant, 1)?;
    shared
        .index
        .admit_tmpfs(&key.tenant, tmpfs_bytes(&record.spec))?;
    let around = Around::find(shared, &key)?;
    let bytes = record::encode(&record)?;
    let made_groups = groups(shared, &key, record.meta.uid, &effective)?;
    let Groups {
        inits,
        parent,
        group,
    } = made_groups;
    let mut made = Made {
        reservation,
        parent,
        name: key.path.name().to_owned(),
        socket: socket_path(shared, &record),
        init: None,
    };
    let wanted = Wanted {
        key,
        record,
        effective,
        around,
        bytes,
        inits,
    };
    match with_init(shared, wanted, group, &mut made, callers).await {
        Ok((owner, line, status)) => Ok(publish(shared, owner, line, status, made.reservation)),
        Err(error) => {
            let undoing = tokio::spawn(made.undo());
            // The rest of a longer one goes on beside.
            let _ = tokio::time::timeout(UNDO, undoing).await;
            Err(error)
        }
    }
}

/// A cell to be.
struct Wanted {
    key: Key,
    record: CellRecord,
    effective: Draft,
    around: Around,
    /// The record, as its init keeps it.
    bytes: Vec<u8>,
    /// The group of its init.
    inits: Cgroup,
}

/// Makes the init in its group, and an owner, and registers that.
async fn with_init(
    shared: &Arc<Shared>,
    wanted: Wanted,
    group: Cgroup,
    made: &mut Made,
    callers: &Callers,
) -> Result<(Owner, Line, CellStatus), Error> {
    let Wanted {
        key,
        record,
        effective,
        around,
        bytes,
        inits,
    } = wanted;
    let mut fds = vec![inits.into_fd(), listen(&made.socket)?];
    fds.extend(around.pidfd);
    let root_id = record.ids.or(around.ids).map_or(0, |ids| ids.first);
    let mounts = effective.mounts.iter();
    let mounts = mounts.map(|mount| super::mounts::prepare(mount, root_id));
    let mounts = mounts.collect::<Result<Vec<_>, _>>()?;
    let launch = CellLaunch {
        init_id: record.ids.or(around.ids).map_or(0, IdRange::init_id),
        title: format!("{}/{}", key.tenant, key.path),
        ..launch(&record, &effective, around.nested, bytes)
    };
    let uid = launch.uid;
    let created = shared.node.create(launch, fds, callers).await;
    let created = created.map_err(|e| not_made(e, &key))?;
    let process = Arc::new(created.process);
    made.init = Some((shared.node.clone(), uid, process.clone()));
    let lost =
        |e: LinkError| Error::internal(format!("the new cell's init can't be talked to: {e}"));
    let (mut link, _) = super::link::cell::connect(&made.socket, uid)
        .await
        .map_err(lost)?;
    bring(shared, &mut link, mounts).await?;
    let below = shared.root_below.join(key.below());
    let status = status(&record, effective, process.pid(), &below);
    let ids = record.ids;
    let beginning = Beginning {
        key: key.clone(),
        record,
        status: status.clone(),
        group,
        root_id,
        parent_frozen: false,
        init: process,
        link,
        socket: made.socket.clone(),
        exit: Some(created.exit),
    };
    let (owner, line) = Owner::new(shared.clone(), beginning);
    let tmpfs = tmpfs_bytes(&status.spec);
    shared
        .index
        .register(key, line.handle.clone(), ids, tmpfs)?;
    Ok((owner, line, status))
}

/// Brings its mounts to a cell that has just been made.
async fn bring(shared: &Shared, link: &mut CellLink, mounts: Vec<Prepared>) -> Result<(), Error> {
    if mounts.is_empty() {
        return Ok(());
    }
    let (mounts, targets): (Vec<_>, Vec<_>) = mounts
        .into_iter()
        .map(|prepared| (prepared.mount, prepared.target))
        .unzip();
    let directories = targets.iter().map(|to| to.directory).collect();
    let (stage, slave) = shared.staging.open(directories)?;
    ask(link, CellRequest::Stage { request: 0 }, vec![slave]).await?;
    stage.attach(mounts)?;
    for (to, from) in targets.into_iter().zip(0..) {
        let mount = CellRequest::Mount {
            request: 0,
            from,
            to,
        };
        ask(link, mount, Vec::new()).await?;
    }
    Ok(())
}

/// Asks a cell-init whose cell has no owner yet, who would ask more than one thing at a time.
async fn ask(link: &mut CellLink, request: CellRequest, fds: Vec<OwnedFd>) -> Result<(), Error> {
    let lost = |e: LinkError| Error::internal(format!("the new cell's init is lost: {e}"));
    link.send(&request, fds).map_err(lost)?;
    let answer = tokio::time::timeout(GREETING, link.next()).await;
    let answer = answer.map_err(|_| lost(LinkError::Silent(GREETING)))?;
    match answer.map_err(lost)?.event {
        CellEvent::Done { request: 0 } => Ok(()),
        CellEvent::Failed {
            request: 0,
            failure,
        } => Err(creation_failed(&failure)),
        other => Err(lost(LinkError::Malformed(format!(
            "{other:?} is no answer"
        )))),
    }
}

/// Lets everybody know, and the owner begin.
fn publish(
    shared: &Arc<Shared>,
    owner: Owner,
    line: Line,
    status: CellStatus,
    reservation: Reservation,
) -> CellHandle {
    if let Some(asked) = owner.request_id() {
        shared
            .index
            .remember(&status.meta.tenant, asked, status.meta.uid);
    }
    if let Some(displaced) = shared.index.publish_new(Object::Cell(status), reservation) {
        shared.forget_beside(displaced);
    }
    tokio::spawn(owner.run(line.inbox, line.over));
    line.handle
}

/// What the cell is made in.
struct Around {
    nested: bool,
    /// Of the enclosing cell's init.
    pidfd: Option<OwnedFd>,
    /// Its ids; `None`: the node's.
    ids: Option<IdRange>,
}

impl Around {
    fn find(shared: &Shared, key: &Key) -> Result<Self, Error> {
        let Some(parent) = key.parent() else {
            return Ok(Self {
                nested: false,
                pidfd: None,
                ids: None,
            });
        };
        let object = shared.index.at(&parent);
        let Some(Object::Cell(cell)) = object.as_deref() else {
            return Err(Error::not_found("cell", parent.path.to_string()));
        };
        if cell.state != State::Running {
            let message = format!("the cell {} is {}", parent.path, cell.state);
            return Err(
                Error::new(Reason::WrongState, message).about("cell", parent.path.to_string())
            );
        }
        Ok(Self {
            nested: true,
            pidfd: Some(init_of(shared, &parent)?),
            ids: shared.index.ids(&parent),
        })
    }
}

/// The pidfd of a cell's init.
fn init_of(shared: &Shared, key: &Key) -> Result<OwnedFd, Error> {
    let message = || format!("the cell {} has ended", key.path);
    let cell = shared.index.cell(key);
    let cell = cell.ok_or_else(|| Error::new(Reason::WrongState, message()))?;
    rustix::io::fcntl_dupfd_cloexec(cell.init(), 3).map_err(|errno| {
        let error = kernel::Error::new("fcntl", errno);
        kernel_failed("the init of the cell around it", &error)
    })
}

/// Where the cgroup of a cell is.
pub(crate) fn group_path(shared: &Shared, key: &Key) -> PathBuf {
    shared.root.path().join(key.below())
}

/// What the volumes of a cell may hold together.
pub(crate) fn tmpfs_bytes(spec: &CellSpec) -> u64 {
    let sizes = spec.volumes.iter().map(|volume| volume.effective_size());
    sizes.fold(0, u64::saturating_add)
}

/// Where the socket of a cell is.
pub(crate) fn socket_path(shared: &Shared, record: &CellRecord) -> PathBuf {
    shared
        .settings
        .cells_dir
        .join(format!("{}.sock", record.meta.uid))
}

/// With every default filled in, and the ids that it got.
pub(crate) fn effective(spec: &CellSpec, key: &Key, ids: Option<IdRange>) -> Draft {
    let mut effective = spec.effective(&key.path);
    effective.id_range = ids.map(|ids| ids.count);
    effective
}

/// The status of a cell whose init runs. `below`: where its group is below the mount point.
pub(crate) fn status(record: &CellRecord, effective: Draft, pid: i32, below: &Path) -> CellStatus {
    CellStatus {
        meta: record.meta.clone(),
        spec: record.spec.clone(),
        effective,
        state: State::Running,
        conditions: Vec::new(),
        pid: u32::try_from(pid).ok().filter(|pid| *pid > 0),
        first_uid: record.ids.map(|ids| ids.first),
        started: Some(record.started),
        finished: None,
        running_children: 0,
        cgroup: below.display().to_string(),
        final_usage: None,
    }
}

fn kernel_failed(what: &str, error: &kernel::Error) -> Error {
    Error::new(Reason::Internal, format!("{what}: {error}")).errno(error.errno())
}

/// The groups of a cell.
struct Groups {
    /// Of its tenant's inits.
    inits: Cgroup,
    /// The one around it.
    parent: Cgroup,
    group: Cgroup,
}

/// Makes the cell's group with its limits, and its tenant's where that isn't there.
fn groups(shared: &Shared, key: &Key, uid: Uid, effective: &Draft) -> Result<Groups, Error> {
    let failed = |e: kernel::Error| kernel_failed("the cell's cgroup could not be made", &e);
    let wanted = limits::of(&effective.resources)?;
    limits::enable(&shared.root, &effective.resources)?;
    let tenant = tenant::group(shared, &key.tenant).map_err(failed)?;
    limits::enable_usual(&tenant, &[]).map_err(failed)?;
    limits::enable(&tenant, &effective.resources)?;
    let inits = init::group_of_inits(&tenant).map_err(failed)?;
    let around = key
        .path
        .labels()
        .split_last()
        .map_or(&[][..], |(_, around)| around);
    let mut parent = tenant;
    for label in around {
        parent = parent.child(label.as_str()).map_err(failed)?;
        limits::enable(&parent, &effective.resources)?;
    }
    limits::check_protection(&parent, &effective.resources)?;
    let group = new_group(&parent, key.path.name()).map_err(failed)?;
    let made = limits::set(&group, &wanted)
        .and_then(|()| limits::enable_usual(&group, &[]).map_err(failed))
        .and_then(|()| init::mark(&group, uid).map_err(failed));
    match made {
        Ok(()) => Ok(Groups {
            inits,
            parent,
            group,
        }),
        Err(error) => {
            super::cell::leaf::remove(&parent, key.path.name());
            Err(error)
        }
    }
}

/// Makes the group of a name that is ours alone: what has it is a dead cell's.
fn new_group(parent: &Cgroup, name: &str) -> Result<Cgroup, kernel::Error> {
    match parent.create(name) {
        Err(error) if error.is(Errno::EXIST.raw_os_error()) => {
            super::cell::leaf::kill(&parent.child(name)?);
            parent.remove(name, LEFT)?;
            parent.create(name)
        }
        other => other,
    }
}

fn listen(socket: &Path) -> Result<OwnedFd, Error> {
    // Uids are never used twice: what is there was left by an attempt that a crash cut short.
    let _ = std::fs::remove_file(socket);
    seqpacket::listen(socket, 4, seqpacket::Mode::Nonblocking)
        .map_err(|e| kernel_failed("the cell's socket could not be made", &e))
}

fn launch(record: &CellRecord, effective: &Draft, nested: bool, bytes: Vec<u8>) -> CellLaunch {
    let map = record.ids.map(IdRange::extents).unwrap_or_default();
    CellLaunch {
        uid: record::wire(record.meta.uid),
        unshare: unshare(&record.spec, nested),
        parent: nested,
        gid_map: map.clone(),
        uid_map: map,
        init_id: 0,
        title: String::new(),
        hostname: effective.hostname.clone(),
        volumes: effective
            .volumes
            .iter()
            .map(|volume| Volume {
                target: volume.path.clone().into_bytes(),
                size_bytes: volume.effective_size(),
                mode: volume.effective_mode(),
            })
            .collect(),
        record: bytes,
    }
}

fn unshare(spec: &CellSpec, nested: bool) -> Namespaces {
    let bit = |namespace| match namespace {
        Namespace::User => Namespaces::USER,
        Namespace::Mount => Namespaces::MOUNT,
        Namespace::Pid => Namespaces::PID,
        Namespace::Net => Namespaces::NET,
        Namespace::Ipc => Namespaces::IPC,
        Namespace::Uts => Namespaces::UTS,
        Namespace::Cgroup => Namespaces::CGROUP,
    };
    let shared = |namespace| spec.shares(namespace) && !(nested && namespace == Namespace::Cgroup);
    let own = Namespace::ALL.into_iter().filter(|ns| !shared(*ns));
    Namespaces(own.fold(0, |set, namespace| set | bit(namespace)))
}

fn not_made(error: CreateError, key: &Key) -> Error {
    let failed = match error {
        CreateError::Failed(failed) => failed,
        CreateError::GivenUp => return given_up(),
        CreateError::Gone => {
            return Error::new(
                Reason::ShuttingDown,
                "node-init is gone: no cell can be made",
            )
            .hint("try again when the node's daemon was started again");
        }
    };
    creation_failed(&failed).about("cell", key.path.to_string())
}

/// What another try may not meet: the spawner was busy or replaced, or what works at the cell was
/// killed or held up.
fn passing(failed: &Failure) -> Option<Error> {
    let (reason, hint) = match Errno::from_raw_os_error(failed.errno) {
        Errno::AGAIN => (
            Reason::LimitExceeded,
            "the node makes as many cells as it can, or the cell around it may have no more \
             processes: try again",
        ),
        Errno::CHILD | Errno::TIMEDOUT => (
            Reason::Internal,
            "try again; if it goes on, look at the cell's memory limit, and at what runs in the \
             cell around it",
        ),
        _ => return None,
    };
    let message = format!("the cell was not made: {}", failed.detail);
    let error = Error::new(reason, message).errno(failed.errno);
    Some(error.hint(hint).retry_after(AGAIN))
}

fn creation_failed(failed: &Failure) -> Error {
    if failed.step == Step::Clone
        && let Some(error) = passing(failed)
    {
        return error;
    }
    let unsupported = |hint: &str| {
        let message = format!("the cell was not made: {}", super::cell::start_said(failed));
        Error::new(Reason::Unsupported, message)
            .errno(failed.errno)
            .hint(hint)
    };
    match failed.step {
        Step::Attach if failed.errno == Errno::ROFS.raw_os_error() => {
            Error::new(Reason::Unsupported, failed.detail.clone())
                .errno(failed.errno)
                .field("cell.spec.mounts")
        }
        Step::Template | Step::Clone | Step::Namespace => unsupported(
            "the node can't make isolated cells as it runs now (`aurae node info` says why); share \
             the namespaces it can't make, or run auraed where /proc is not masked",
        ),
        Step::Attach | Step::Mount => unsupported("check the mounts and volumes of the cell"),
        _ => super::cell::start_failure("the cell was not made", failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_to_be_tried_again_and_what_the_node_lacks_is_not() {
        let failed = |errno: Errno| {
            creation_failed(&Failure {
                step: Step::Clone,
                errno: errno.raw_os_error(),
                detail: "why".into(),
            })
        };
        for errno in [Errno::AGAIN, Errno::CHILD, Errno::TIMEDOUT] {
            let error = failed(errno);
            assert_ne!(error.reason, Reason::Unsupported);
            assert_eq!(error.retry_after, Some(AGAIN));
            assert_eq!(error.errno, Some(errno.raw_os_error()));
        }
        let error = failed(Errno::PERM);
        assert_eq!(
            (error.reason, error.retry_after),
            (Reason::Unsupported, None)
        );
    }
}
