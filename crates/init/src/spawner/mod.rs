// SPDX-License-Identifier: Apache-2.0
//! The spawner: an almost empty process, so that its clones, the cell-inits, are almost empty too.
//!
//! A cell-init is a clone without exec, and such a clone copies its parent's memory and
//! descriptors. Node-init has other tenants' records in its memory and descriptors of all cells, so
//! cells aren't cloned from it. The spawner is a fresh execution of this binary, which has none of
//! node-init's memory. It runs in the [`template`] mount namespace, holds one socket, and keeps no
//! state between two requests. When it dies, node-init executes another.
//!
//! Its children become children of node-init (`CLONE_PARENT`), which reaps them. [`nested`] makes
//! cells inside of cells. A cell whose root isn't the node's is cloned from the [`bare`] template,
//! or from a copy of that with a [`stage`] in it.
//!
//! It is executed from a mount of its binary that can't be written, or from a sealed copy: a
//! workload may get at the file that its cell-init runs, as `/proc/PID/exe`, and with the node's
//! user ids would be able to change it.

mod bare;
mod helpers;
mod nested;
mod place;
mod root;
pub(crate) mod stage;
mod template;
pub(crate) mod wire;

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use kernel::clone::{self, Cloned};
use kernel::idmap;
use kernel::memory::Scratch;
use kernel::namespace::Namespaces as Kinds;
use kernel::seqpacket::{self, Mode, ReceiveError};
use kernel::signal::{self, Signal, SignalSet};
use kernel::{Context, process};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use kernel::title::Title;

use crate::cell::setup::{self, Creation, Mounts};
use crate::codec::{Packet, request_number};
use crate::failure::InStep;
use crate::protocol::{
    CLONERS, CellLaunch, Failure, MAX_PACKET, Namespaces, NodeRequest, Record, Root, Step,
};
use crate::record::KeptRecord;
use place::Place;
pub(crate) use template::{DEVICES, LINKS};
use wire::SpawnerEvent;

/// `argv[0]` of an execution that is to be the spawner; [`ROOM`], [`HIDDEN`] folders to hide and
/// the allow-list of the cells' root follow.
pub(crate) const NAME: &str = "auraed-spawner";
/// An argument that is nothing but long: the titles of cell-inits are written over it.
pub(crate) const ROOM: &str = match std::str::from_utf8(&[b'-'; 400]) {
    Ok(room) => room,
    Err(_) => "",
};
/// The state and run directories.
pub(crate) const HIDDEN: usize = 2;
/// Where the spawner finds its socket.
const SOCKET: i32 = 3;

/// Runs the spawner, if this execution is meant to be it: then it does not return.
pub(crate) fn run_if_named() {
    let mut arguments = std::env::args_os();
    if arguments.next().is_none_or(|name| name != NAME) {
        return;
    }
    // Cell-inits, which are clones of this process, too.
    kernel::oom_wait::wait_for_memory();
    kernel::memory::join_freed();
    let mut paths = arguments.skip(1).map(PathBuf::from);
    let hide: Vec<PathBuf> = paths.by_ref().take(HIDDEN).collect();
    let view = View {
        hide,
        allowed: paths.collect(),
    };
    // Not worth more than being shown.
    let title = Title::find().ok();
    if let Some(title) = title {
        title.set(NAME);
    }
    match kernel::inherit::take(SOCKET).and_then(|socket| {
        rustix::io::ioctl_fionbio(&socket, false).call("ioctl(FIONBIO)")?;
        Ok(socket)
    }) {
        Ok(socket) => run(socket, &view, title),
        Err(_) => process::exit(2),
    }
}

/// What cells see of the node's root.
struct View {
    /// What no cell sees, wherever it is.
    hide: Vec<PathBuf>,
    allowed: Vec<PathBuf>,
}

/// Serves node-init until it closes the socket.
fn run(socket: OwnedFd, view: &View, title: Option<Title>) -> ! {
    let template = settle(view, title);
    let isolation = match &template {
        Ok(place) => place
            .clones()
            .and_then(|()| template::try_isolation().step(Step::Template)),
        Err(failure) => Err(failure.clone()),
    };
    tell(
        &socket,
        &SpawnerEvent::Isolation { outcome: isolation },
        &[],
    );
    let Ok(mut buffer) = Scratch::new(MAX_PACKET) else {
        process::exit(1)
    };
    loop {
        let packet = match seqpacket::receive(&socket, &mut buffer) {
            Ok(Some(packet)) => packet,
            Err(ReceiveError::Os(error)) if error.is(Errno::INTR.raw_os_error()) => continue,
            Ok(None) | Err(ReceiveError::Os(_)) => process::exit(0),
            // Cut short, or without all its descriptors. The number still stands in the buffer.
            Err(error) => {
                let detail = format!("a request for a cell did not come whole: {error}");
                let failure = Failure::new(Step::Limit, Errno::MFILE.raw_os_error(), detail);
                refuse(&socket, &buffer, failure);
                continue;
            }
        };
        let bytes = buffer.get(..packet.length).unwrap_or_default();
        match NodeRequest::decode(bytes) {
            Ok(NodeRequest::CreateCell { request, launch }) => {
                let outcome = match &template {
                    Ok(place) => make(place, &socket, request, launch, packet.fds),
                    Err(failure) => Err(failure.clone()),
                };
                if let Err(failure) = outcome {
                    tell(&socket, &SpawnerEvent::Failed { request, failure }, &[]);
                }
            }
            Ok(_) => refuse(&socket, bytes, unreadable("not a request for a cell")),
            Err(error) => refuse(&socket, bytes, unreadable(&error.to_string())),
        }
        if packet.length > 8 * 1024 {
            buffer.discard();
        }
    }
}

fn settle(view: &View, title: Option<Title>) -> Result<Place, Failure> {
    let cloners = process::set_groups(&[CLONERS]).step(Step::Template);
    let mut place = Place::of_node(title, cloners).step(Step::Template)?;
    process::set_dumpable(false).step(Step::Template)?;
    process::set_name(c"aurae-spawner").step(Step::Template)?;
    // Nothing ignored and nothing preferred is to be inherited by workloads.
    signal::reset_dispositions().step(Step::Template)?;
    // A child that waits for its start byte may have been killed. Cell-inits set masks of their
    // own, for themselves and for workloads.
    signal::set_mask(SignalSet::of(&[Signal::PIPE])).step(Step::Template)?;
    let _ = kernel::sched::set_own_oom_score_adj(0);
    process::set_umask(0);
    template::enter(&view.hide, &view.allowed).step(Step::Template)?;
    place.in_template().step(Step::Template)?;
    template::forget_streams().step(Step::Template)?;
    place.make_bare(bare::enter).step(Step::Template)?;
    process::set_umask(0o022);
    Ok(place)
}

fn tell(socket: &OwnedFd, event: &SpawnerEvent, fds: &[std::os::fd::BorrowedFd<'_>]) {
    let mut packet = Vec::new();
    if event.encode(&mut packet).is_ok() && seqpacket::send(socket, &packet, fds).is_err() {
        // Node-init is gone.
        process::exit(0)
    }
}

fn unreadable(why: &str) -> Failure {
    let detail = format!("the spawner can't read what it is asked: {why}");
    Failure::new(Step::Protocol, Errno::BADMSG.raw_os_error(), detail)
}

fn refuse(socket: &OwnedFd, packet: &[u8], failure: Failure) {
    if let Some((_, request)) = request_number(packet) {
        tell(socket, &SpawnerEvent::Failed { request, failure }, &[]);
    }
}

/// The descriptors of a request, each in its role.
pub(super) struct Parts {
    /// The cgroup of the tenant's cell-inits.
    pub(super) group: OwnedFd,
    pub(super) listener: OwnedFd,
    pub(super) parent: Option<OwnedFd>,
    /// Of inits whose namespaces it joins, as many as the launch says.
    pub(super) joins: Vec<OwnedFd>,
    /// Of the root of an image.
    image: Option<stage::Parts>,
    /// The cell's record.
    record: KeptRecord,
}

impl Parts {
    fn take(launch: &mut CellLaunch, mut fds: Vec<OwnedFd>) -> Result<Parts, Failure> {
        let record = std::mem::replace(&mut launch.record, Record::Beside);
        let record = KeptRecord::take(record, &mut fds)?;
        let of_root = match &launch.root {
            Root::Node | Root::Bare => 0,
            Root::Image(image) => 1 + usize::from(image.writable),
        };
        let expected = 2 + usize::from(launch.parent) + launch.joins.len() + of_root;
        if fds.len() != expected {
            let detail = format!("{} descriptors came, {expected} are expected", fds.len());
            return Err(Failure::new(
                Step::Protocol,
                Errno::BADF.raw_os_error(),
                detail,
            ));
        }
        let mut fds = fds.into_iter();
        let mut next = || {
            fds.next()
                .ok_or_else(|| Failure::new(Step::Protocol, Errno::BADF.raw_os_error(), ""))
        };
        Ok(Parts {
            record,
            group: next()?,
            listener: next()?,
            parent: if launch.parent { Some(next()?) } else { None },
            joins: launch
                .joins
                .iter()
                .map(|_| next())
                .collect::<Result<_, _>>()?,
            image: match &launch.root {
                Root::Node | Root::Bare => None,
                Root::Image(image) => Some(stage::Parts {
                    layers: next()?,
                    upper: if image.writable { Some(next()?) } else { None },
                }),
            },
        })
    }
}

/// Refuses a malformed request before anything is created.
fn check(launch: &CellLaunch) -> Result<(), Failure> {
    let invalid = |detail| {
        Err(Failure::new(
            Step::Protocol,
            Errno::INVAL.raw_os_error(),
            detail,
        ))
    };
    let own = launch.unshare;
    let mapped = !launch.uid_map.is_empty() && !launch.gid_map.is_empty();
    if own.has(Namespaces::USER) != mapped {
        return invalid("a user namespace of its own and maps of ids go together");
    }
    let has = |map: &crate::protocol::IdMap| {
        launch
            .init_id
            .checked_sub(map.outside)
            .is_some_and(|at| at < map.count)
    };
    if mapped && (launch.init_id == 0 || launch.uid_map.iter().any(has)) {
        return invalid("the init's user must be one that the cell itself doesn't have");
    }
    let joinable = Namespaces::NET | Namespaces::IPC | Namespaces::UTS;
    let mut joined = launch.joins.iter().map(|it| it.0);
    if joined.any(|it| it == 0 || it & (own.0 | !joinable) != 0) {
        return invalid("other cells' namespaces are of network, IPC and UTS, and none is new");
    }
    if !own.has(Namespaces::MOUNT) && !launch.volumes.is_empty() {
        return invalid("volumes need a mount namespace of the cell's own");
    }
    if !own.has(Namespaces::MOUNT) && launch.root != Root::Node {
        return invalid("another root than the node's needs a mount namespace of the cell's own");
    }
    Ok(())
}

/// Makes one cell-init, or has it made: what works at a nested cell can be held up by the enclosing
/// one's root, so each has a worker of its own, and no other cell waits for it. So has a cell that
/// joins namespaces of another one: its maker doesn't come back from there.
fn make(
    place: &Place,
    socket: &OwnedFd,
    request: u64,
    mut launch: CellLaunch,
    fds: Vec<OwnedFd>,
) -> Result<(), Failure> {
    check(&launch)?;
    let parts = Parts::take(&mut launch, fds)?;
    if !launch.parent && launch.joins.is_empty() {
        return make_and_tell(place, socket, request, launch, parts);
    }
    let worker = clone::Options {
        sibling: true,
        ..Default::default()
    };
    match clone::clone(worker).step(Step::Clone)? {
        Cloned::Parent(..) => Ok(()),
        Cloned::Child => {
            if let Err(failure) = make_and_tell(place, socket, request, launch, parts) {
                tell(socket, &SpawnerEvent::Failed { request, failure }, &[]);
            }
            process::exit(0)
        }
    }
}

/// Clones one cell-init, reports it to node-init, and lets it go on: in this order, so that
/// node-init knows of every cell-init before it can end as one.
fn make_and_tell(
    place: &Place,
    socket: &OwnedFd,
    request: u64,
    launch: CellLaunch,
    parts: Parts,
) -> Result<(), Failure> {
    let gates = Gates::new()?;
    let (pid, pidfd, gates) = match launch.parent {
        true => nested::make(place, launch, parts, gates)?,
        false => make_top(place, launch, parts, gates)?,
    };
    // Its own to raise and lower, by a descriptor: the file itself belongs to the node's root as
    // long as the cell-init isn't dumpable, and it never is.
    let score = place.oom_score_adj(pid).step(Step::Priority)?;
    let cloned = SpawnerEvent::Cloned { request, pid };
    tell(socket, &cloned, &[pidfd.as_fd(), gates.status_read.as_fd()]);
    // It may have been killed meanwhile; node-init sees that.
    let _ = seqpacket::send(&gates.go, &[1], &[score.as_fd()]);
    Ok(())
}

/// What is between a cell-init that is being created and those who wait for it: a socket for its
/// go, a pipe for its status.
pub(super) struct Gates {
    go: OwnedFd,
    go_of_child: OwnedFd,
    status_read: OwnedFd,
    status_write: OwnedFd,
}

/// The makers' side of [`Gates`].
pub(super) struct MakerGates {
    pub(super) go: OwnedFd,
    pub(super) status_read: OwnedFd,
}

impl Gates {
    fn new() -> Result<Gates, Failure> {
        let (go, go_of_child) = seqpacket::pair(Mode::Blocking).step(Step::Limit)?;
        let (status_read, status_write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .call("pipe2")
            .step(Step::Limit)?;
        Ok(Gates {
            go,
            go_of_child,
            status_read,
            status_write,
        })
    }

    pub(super) fn maker(self) -> MakerGates {
        MakerGates {
            go: self.go,
            status_read: self.status_read,
        }
    }

    /// The child's side, with everything else that it becomes a cell-init of. The child must not
    /// hold the other end of its own gate, or it would wait for itself.
    fn creation(
        self,
        place: &Place,
        launch: CellLaunch,
        (listener, record): (OwnedFd, KeptRecord),
        node_user: bool,
    ) -> Creation {
        drop(self.go);
        drop(self.status_read);
        if let Some(title) = place.title {
            title.set(&format!("aurae-cell {}", launch.title));
        }
        let (go, status) = (self.go_of_child, self.status_write);
        Creation {
            launch,
            listener,
            record,
            go,
            status,
            score: None,
            mounts: Mounts::default(),
            node_user,
        }
    }
}

/// A cell whose parent is the node.
fn make_top(
    place: &Place,
    launch: CellLaunch,
    parts: Parts,
    gates: Gates,
) -> Result<(i32, OwnedFd, MakerGates), Failure> {
    place::join_others(&launch, &parts.joins)?;
    let mounts = place::shared_views(&launch)?;
    let options = clone::Options {
        namespaces: kinds(launch.unshare),
        sibling: true,
        cgroup: Some(parts.group.as_fd()),
        exit_signal: None,
    };
    let as_init = || as_init(launch.init_id, options);
    let ids = stage::Ids {
        uids: &launch.uid_map,
        gids: &launch.gid_map,
    };
    let cloned = match (launch.unshare.has(Namespaces::MOUNT), &launch.root) {
        (true, Root::Node) => as_init().step(Step::Clone),
        (false, _) => place.among_node_mounts(as_init).step(Step::Clone),
        (true, root) => {
            enter_root(place, root, &parts, &ids).and_then(|()| as_init().step(Step::Clone))
        }
    };
    let here = launch.unshare.has(Namespaces::MOUNT) && launch.root == Root::Node;
    if !here && !matches!(cloned, Ok(Cloned::Child)) && place.back_to_template().is_err() {
        // Node-init executes another.
        process::exit(1)
    }
    match cloned? {
        Cloned::Child => {
            let node_user = !launch.unshare.has(Namespaces::USER);
            let creation = gates.creation(place, launch, (parts.listener, parts.record), node_user);
            setup::live(Creation { mounts, ..creation })
        }
        Cloned::Parent(pid, pidfd) => {
            if launch.unshare.has(Namespaces::USER) {
                let process = place.process(pid).step(Step::IdMap)?;
                let map =
                    |maps: &[crate::protocol::IdMap]| maps.iter().map(place::to_kernel).collect();
                let (uids, gids): (Vec<_>, Vec<_>) = (map(&launch.uid_map), map(&launch.gid_map));
                idmap::write(&process, &uids, &gids).step(Step::IdMap)?;
            }
            Ok((pid, pidfd, gates.maker()))
        }
    }
}

/// Goes where a cell with a root other than the node's is cloned.
fn enter_root(
    place: &Place,
    root: &Root,
    parts: &Parts,
    ids: &stage::Ids<'_>,
) -> Result<(), Failure> {
    match (root, &parts.image) {
        (Root::Image(image), Some(parts)) => stage::enter(place, image, parts, ids),
        _ => place.to_bare(),
    }
}

/// Clones as the user that the cell-init is to have: in its own user namespace it can't become one
/// that has no number there. The parent is root again afterwards, or ends.
fn as_init(id: u32, options: clone::Options<'_>) -> kernel::Result<Cloned> {
    if id == 0 {
        return clone::clone(options);
    }
    process::set_uid_and_stay_capable(id)?;
    let cloned = clone::clone(options);
    if !matches!(cloned, Ok(Cloned::Child)) && process::set_uid(0).is_err() {
        // Node-init executes another.
        process::exit(1)
    }
    cloned
}

/// The namespaces to be cloned, or joined. Not the cgroup namespace: with `nsdelegate` a cell-init
/// that sat in one rooted at its own group could not clone into the leaves of its cell. Its
/// children unshare theirs, in their leaf.
pub(super) fn kinds(own: Namespaces) -> Kinds {
    let all = [
        (Namespaces::USER, Kinds::USER),
        (Namespaces::MOUNT, Kinds::MOUNT),
        (Namespaces::PID, Kinds::PID),
        (Namespaces::NET, Kinds::NET),
        (Namespaces::IPC, Kinds::IPC),
        (Namespaces::UTS, Kinds::UTS),
    ];
    all.iter()
        .filter(|(one, _)| own.has(*one))
        .fold(Kinds::NONE, |set, (_, kind)| set.and(*kind))
}
