// SPDX-License-Identifier: Apache-2.0
//! Making a cell: cgroups, ids, socket, mounts, its init, its owner. What was made is taken back
//! when a later step fails ([`Made`]), so that a cell is there altogether or not at all. Where
//! things are and how they look is [`super::layout`]'s.

pub(crate) mod again;
mod failure;
mod groups;
mod join;
mod launch;
pub(crate) mod light;
pub(crate) mod names;
pub(crate) mod network;
mod parameters;
mod root;
mod turn;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::init::protocol::{CellEvent, CellLaunch, CellRequest, Record};
use kernel::cgroup::Cgroup;
use kernel::seqpacket;
use model::cell::Draft;
use model::error::{Error, Reason};
use model::lifecycle::State;
use model::status::{CellStatus, Object};

use crate::caller::Callers;
use crate::cell::CellHandle;
use crate::cell::container;
use crate::cell::init::InitProcess;
use crate::cell::owner::{Beginning, Line, Owner};
use crate::devices;
use crate::ids::IdRange;
use crate::index::{Key, Reservation};
use crate::layout::{effective, socket_path, status};
use crate::link::cell::{CellLink, HelloSent};
use crate::link::node::NodeInit;
use crate::link::{HANDSHAKE, LinkError};
use crate::mounts::Prepared;
use crate::ports::{Hooks, Networks, Root};
use crate::record::{self, CellRecord, Written};
use crate::slices::Slice;
use crate::tenant;
use crate::{Shared, hooks};

use failure::{creation_failed, not_made};
use groups::{Groups, groups};
use join::Joined;
use launch::launch;
pub(crate) use turn::AT_THE_SPAWNER;

/// How long the kernel may take to let go of what a failed attempt left.
const UNDO: Duration = Duration::from_secs(10);

/// What there is of a cell that is being made, to be taken back unless it is kept. The name and the
/// ids stay reserved until nothing of a failed cell lives any more: no other cell is to have ids
/// that a process still has.
struct Made {
    reservation: Reservation,
    parent: Cgroup,
    name: String,
    socket: PathBuf,
    /// Its init was made: it is to be killed, and the end of it acknowledged.
    init: Option<(NodeInit, ::init::protocol::Uid, Arc<InitProcess>)>,
    networks: Arc<dyn Networks>,
    hooks: Arc<dyn Hooks>,
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
            networks,
            hooks,
        } = self;
        if let Some((node, uid, process)) = init {
            process.kill();
            node.acknowledge(uid).await;
            networks.detach(record::unwire(uid)).await;
            hooks.gone(record::unwire(uid)).await;
        }
        let parent = Arc::new(parent);
        loop {
            let (parent, name, socket) = (parent.clone(), name.clone(), socket.clone());
            let removed = tokio::task::spawn_blocking(move || {
                let _ = std::fs::remove_file(socket);
                if let Ok(group) = parent.child(&name) {
                    crate::cell::leaf::kill(&group);
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
    slices: &[Slice],
    callers: &Callers,
) -> Result<CellHandle, Error> {
    let key = Key {
        tenant: record.meta.tenant.clone(),
        path: record.meta.path.clone(),
    };
    if record.spec.light {
        return light::cell(shared, record, reservation, slices).await;
    }
    record.ids = reservation.range();
    record.attached = network::is_wanted(shared, &key, &record).await?;
    let effective = effective(&record, &key);
    let _being_created = shared.creations.take(&key.tenant, 1)?;
    shared
        .index
        .admit_storage(&key.tenant, record.spec.storage())?;
    let around = Around::find(shared, &key)?;
    container::check_writes(&shared.index, &key, &record.spec)?;
    parameters::check(&record.spec)?;
    let joined = join::find(shared, &key, &record)?;
    let cdi = &shared.settings.cdi;
    let devices = devices::find(&shared.index, &key, &record.spec, cdi)?;
    let image = shared.images.resolve(&key.tenant, &record.spec).await?;
    record.image = image.as_ref().map(Root::of_image);
    add_env(&mut record, &devices)?;
    let written = record::encode(&record)?;
    let Groups {
        inits,
        parent,
        group,
    } = groups(
        shared,
        &key,
        record.meta.uid,
        &effective,
        tenant::inits::CELL,
        &[],
        |group| devices::restrict(group, &record.spec, &devices.found),
    )?;
    let mut made = Made {
        reservation,
        parent,
        name: key.path.name().to_owned(),
        socket: socket_path(shared, &record),
        init: None,
        networks: shared.networks.clone(),
        hooks: shared.hooks.clone(),
    };
    let root_id = record.ids.or(around.ids).map_or(0, |ids| ids.first);
    let wanted = Wanted {
        key,
        record,
        effective,
        around,
        root_id,
        written,
        joined,
        image,
        devices,
    };
    match with_init(shared, wanted, (inits, group), &mut made, callers).await {
        Ok((owner, line, status)) => Ok(publish(shared, owner, line, status, made.reservation)),
        Err(error) => {
            let undoing = tokio::spawn(made.undo());
            // The rest of a longer one goes on beside.
            let _ = tokio::time::timeout(UNDO, undoing).await;
            Err(error)
        }
    }
}

/// What its devices say is in the environment of its programs.
fn add_env(record: &mut CellRecord, devices: &devices::Asked) -> Result<(), Error> {
    let Some(image) = &mut record.image else {
        return Ok(());
    };
    image.defaults.env.extend(devices.env.iter().cloned());
    image.defaults.check_weight()
}

/// A cell to be.
struct Wanted {
    key: Key,
    record: CellRecord,
    effective: Draft,
    around: Around,
    /// The record, as its init keeps it.
    written: Written,
    /// The node's id of its root.
    root_id: u32,
    /// Whose namespaces it joins.
    joined: Joined,
    /// What its root is made of.
    image: Option<Root>,
    /// Devices of the node that it asks for.
    devices: devices::Asked,
}

/// What node-init is asked for, and the descriptors that go with it, behind the group of its init
/// and the socket.
async fn order(
    shared: &Shared,
    wanted: &mut Wanted,
    mut fds: Vec<OwnedFd>,
) -> Result<(CellLaunch, Vec<OwnedFd>), Error> {
    let Wanted {
        key,
        record,
        effective,
        around,
        written,
        ..
    } = wanted;
    fds.extend(around.pidfd.take());
    let joined = std::mem::take(&mut wanted.joined);
    let (joins, inits): (Vec<_>, Vec<_>) = joined.into_iter().unzip();
    fds.extend(inits);
    let layers = wanted.image.as_ref().map(Root::layers);
    let (container, disks) = (record.spec.container.as_ref(), &shared.settings.disks);
    let rooted = root::prepare(container, layers, wanted.root_id, disks).await?;
    fds.extend(rooted.fds);
    fds.extend(written.file.take());
    let carried = std::mem::replace(&mut written.record, Record::Beside);
    let launch = CellLaunch {
        init_id: record.ids.or(around.ids).map_or(0, IdRange::init_id),
        title: format!("{}/{}", key.tenant, key.path),
        root: rooted.root,
        joins,
        ..launch(record, effective, around.nested, carried)
    };
    Ok((launch, fds))
}

/// Makes the init in its group, and an owner, and registers that.
async fn with_init(
    shared: &Arc<Shared>,
    mut wanted: Wanted,
    (inits, group): (Cgroup, Cgroup),
    made: &mut Made,
    callers: &Callers,
) -> Result<(Box<Owner>, Line, CellStatus), Error> {
    let fds = vec![inits.into_fd(), listen(&made.socket)?];
    let (launch, fds) = order(shared, &mut wanted, fds).await?;
    let Wanted {
        key,
        record,
        effective,
        around,
        root_id,
        image,
        devices,
        ..
    } = wanted;
    let of_devices = devices.hooks.clone();
    let devices = Some(&devices).filter(|_| image.is_some());
    let mounts = mounts(&effective, devices, root_id)?;
    let uid = launch.uid;
    let turn = match around.nested {
        true => None,
        false => turn::take(&shared.spawner, &key.tenant, callers).await,
    };
    let lost =
        |e: LinkError| Error::internal(format!("the new cell's init can't be talked to: {e}"));
    let hello = HelloSent::to(&made.socket).await.map_err(lost)?;
    let creation = shared.node.create(launch, fds, callers);
    let created = turn::during(turn, creation).await;
    let created = created.map_err(|e| not_made(e, &key))?;
    let process = Arc::new(created.process);
    made.init = Some((shared.node.clone(), uid, process.clone()));
    let (mut link, _) = hello.welcomed(uid).await.map_err(lost)?;
    let network = network::attach(shared, &record, &process, callers).await?;
    let files = names::files(shared, &key, &record, network.as_ref(), root_id)?;
    bring(shared, &mut link, files.mounts, mounts).await?;
    hooks::made(shared, &record, &process, of_devices).await?;
    drop(files.drafts);
    let below = shared.below_mount(&key);
    let status = CellStatus {
        conditions: devices::conditions(&record.spec, &group),
        ..status(&record, effective, process.pid(), &below, network)
    };
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
    let (handle, storage) = (line.handle.clone(), status.spec.storage());
    shared.index.register(key, handle, ids, storage)?;
    if let Some(image) = image {
        // Its owner lets go of it, and doesn't run yet.
        shared.images.hold(status.meta.uid, image.hold);
    }
    Ok((owner, line, status))
}

/// Its mounts and the nodes of its devices, attached nowhere yet.
fn mounts(
    effective: &Draft,
    devices: Option<&devices::Asked>,
    root_id: u32,
) -> Result<Vec<Prepared>, Error> {
    let brought = devices.into_iter().flat_map(|asked| &asked.mounts);
    let mounts = effective.mounts.iter().chain(brought);
    let mounts = mounts.map(|mount| crate::mounts::prepare(mount, root_id));
    let found = devices.into_iter().flat_map(|asked| &asked.found);
    mounts
        .chain(devices::prepare(found, root_id))
        .collect::<Result<Vec<_>, _>>()
}

/// Brings its mounts to a cell that has just been made, and before them files that it may do
/// without: an image need not have a place for them.
async fn bring(
    shared: &Shared,
    link: &mut CellLink,
    files: Vec<Prepared>,
    mounts: Vec<Prepared>,
) -> Result<(), Error> {
    let optional = files.len();
    let mounts: Vec<_> = files.into_iter().chain(mounts).collect();
    if mounts.is_empty() {
        return Ok(());
    }
    let (mounts, targets): (Vec<_>, Vec<_>) = mounts
        .into_iter()
        .map(|prepared| ((prepared.mount, prepared.file), prepared.target))
        .unzip();
    let directories = targets.iter().map(|to| to.directory).collect();
    let (stage, slave) = shared.staging.open(directories)?;
    ask(link, CellRequest::Stage { request: 0 }, vec![slave]).await?;
    stage.attach(mounts)?;
    for (to, from) in targets.into_iter().zip(0..) {
        let target = String::from_utf8_lossy(&to.target).into_owned();
        let mount = CellRequest::Mount {
            request: 0,
            from,
            to,
        };
        let brought = ask(link, mount, Vec::new()).await;
        match brought {
            Err(error) if (from as usize) < optional && error.errno.is_some() => {
                tracing::info!(target, %error, "the image has no place for a file of the node");
            }
            other => other?,
        }
    }
    Ok(())
}

/// Asks a cell-init whose cell has no owner yet, who would ask more than one thing at a time.
async fn ask(link: &mut CellLink, request: CellRequest, fds: Vec<OwnedFd>) -> Result<(), Error> {
    let lost = |e: LinkError| Error::internal(format!("the new cell's init is lost: {e}"));
    link.send(&request, fds).map_err(lost)?;
    let answer = tokio::time::timeout(HANDSHAKE, link.next()).await;
    let answer = answer.map_err(|_| lost(LinkError::Silent(HANDSHAKE)))?;
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
    owner: Box<Owner>,
    line: Line,
    status: CellStatus,
    reservation: Reservation,
) -> CellHandle {
    if let Some(idempotency_key) = owner.request_id() {
        shared
            .index
            .remember(&status.meta.tenant, idempotency_key, status.meta.uid);
    }
    if let Some(displaced) = shared.index.publish_new(Object::Cell(status), reservation) {
        shared.forget_beside(&displaced);
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
    rustix::io::fcntl_dupfd_cloexec(&*cell.init().process(), 3).map_err(|errno| {
        let error = kernel::Error::new("fcntl", errno);
        kernel_failed("the init of the cell around it", &error)
    })
}

fn kernel_failed(what: &str, error: &kernel::Error) -> Error {
    Error::new(Reason::Internal, format!("{what}: {error}")).errno(error.errno())
}

fn listen(socket: &Path) -> Result<OwnedFd, Error> {
    // Uids are never used twice: what is there was left by an attempt that a crash cut short.
    let _ = std::fs::remove_file(socket);
    seqpacket::listen(socket, 4, seqpacket::Mode::Nonblocking)
        .map_err(|e| kernel_failed("the cell's socket could not be made", &e))
}
