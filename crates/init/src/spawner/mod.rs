// SPDX-License-Identifier: Apache-2.0
//! The spawner: a process with nothing in it, so that what is cloned from it has nothing in it
//! either.
//!
//! A cell-init is a clone without exec, and such a clone copies its maker's memory and descriptors.
//! Node-init has other tenants' records in its memory and everybody's descriptors, so it isn't the
//! maker. The spawner is a fresh execution of this binary (the kernel itself sees to it that
//! nothing of node-init is left), sits in the [`template`] mount namespace, holds one socket, and
//! keeps no state between two requests. Should it die, node-init executes another.
//!
//! Its children become children of node-init (`CLONE_PARENT`), which reaps them. [`nested`] makes
//! cells inside of cells.

mod helpers;
mod nested;
mod place;
mod template;
pub(crate) mod wire;

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use kernel::clone::{self, Cloned};
use kernel::idmap;
use kernel::memory::Scratch;
use kernel::namespace::Namespaces as Kinds;
use kernel::seqpacket::{self, ReceiveError};
use kernel::signal::{self, Signal, SignalSet};
use kernel::{Context, process};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::cell::setup::{self, Creation};
use crate::codec::{Packet, request_number};
use crate::failure::InStep;
use crate::protocol::{CellLaunch, Failure, MAX_PACKET, Namespaces, NodeRequest, Step};
use place::Place;
use wire::SpawnerEvent;

/// `argv[0]` of an execution that is to be the spawner; the folders to hide follow.
pub(crate) const NAME: &str = "auraed-spawner";
/// Where the spawner finds its socket.
const SOCKET: i32 = 3;

/// Is the spawner, if this execution is meant to be: then it does not return.
pub(crate) fn run_if_named() {
    let mut arguments = std::env::args_os();
    if arguments.next().is_none_or(|name| name != NAME) {
        return;
    }
    // Cell-inits, which are clones of this process, too.
    kernel::oom_wait::wait_for_memory();
    let hide: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    match kernel::inherit::take(SOCKET).and_then(|socket| {
        rustix::io::ioctl_fionbio(&socket, false).call("ioctl(FIONBIO)")?;
        Ok(socket)
    }) {
        Ok(socket) => run(socket, &hide),
        Err(_) => process::exit(2),
    }
}

/// Serves node-init until it closes the socket. `hide` are folders of the node that no cell sees.
fn run(socket: OwnedFd, hide: &[PathBuf]) -> ! {
    let template = settle(hide);
    let isolation = match &template {
        Ok(_) => template::try_isolation().step(Step::Template),
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

fn settle(hide: &[PathBuf]) -> Result<Place, Failure> {
    let mut place = Place::of_node().step(Step::Template)?;
    process::set_dumpable(false).step(Step::Template)?;
    process::set_name(c"aurae-spawner").step(Step::Template)?;
    // Nothing ignored and nothing preferred is to be inherited by workloads.
    signal::reset_dispositions().step(Step::Template)?;
    // Whoever is to be given its go may have been killed. Cell-inits set masks of their own, for
    // themselves and for workloads.
    signal::set_mask(SignalSet::of(&[Signal::PIPE])).step(Step::Template)?;
    let _ = kernel::sched::set_own_oom_score_adj(0);
    process::set_umask(0);
    template::enter(hide).step(Step::Template)?;
    place.in_template().step(Step::Template)?;
    template::forget_streams().step(Step::Template)?;
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
    pub(super) leaf: OwnedFd,
    pub(super) listener: OwnedFd,
    pub(super) parent: Option<OwnedFd>,
    pub(super) mounts: Vec<OwnedFd>,
}

impl Parts {
    fn take(launch: &CellLaunch, fds: Vec<OwnedFd>) -> Result<Parts, Failure> {
        let expected = 2 + usize::from(launch.parent) + launch.mounts.len();
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
            leaf: next()?,
            listener: next()?,
            parent: if launch.parent { Some(next()?) } else { None },
            mounts: fds.collect(),
        })
    }
}

/// What is refused before anything is made.
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
    if !own.has(Namespaces::MOUNT) && (!launch.mounts.is_empty() || !launch.volumes.is_empty()) {
        return invalid("mounts and volumes need a mount namespace of the cell's own");
    }
    Ok(())
}

/// Makes one cell-init, tells node-init of it, and lets it go on: in this order, so that node-init
/// knows of every cell-init before it can end as one.
fn make(
    place: &Place,
    socket: &OwnedFd,
    request: u64,
    launch: CellLaunch,
    fds: Vec<OwnedFd>,
) -> Result<(), Failure> {
    check(&launch)?;
    let parts = Parts::take(&launch, fds)?;
    let gates = Gates::new()?;
    let (pid, pidfd, gates) = match launch.parent {
        true => nested::make(place, launch, parts, gates)?,
        false => make_top(place, launch, parts, gates)?,
    };
    let cloned = SpawnerEvent::Cloned { request, pid };
    tell(socket, &cloned, &[pidfd.as_fd(), gates.status_read.as_fd()]);
    // It may have been killed meanwhile; node-init sees that.
    let _ = rustix::io::write(&gates.go_write, &[1]);
    Ok(())
}

/// The two pipes between a cell-init that is being created and those who wait for it.
pub(super) struct Gates {
    go_read: OwnedFd,
    go_write: OwnedFd,
    status_read: OwnedFd,
    status_write: OwnedFd,
}

/// The makers' side of [`Gates`].
pub(super) struct MakerGates {
    pub(super) go_write: OwnedFd,
    pub(super) status_read: OwnedFd,
}

impl Gates {
    fn new() -> Result<Gates, Failure> {
        let pipe = || {
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
                .call("pipe2")
                .step(Step::Limit)
        };
        let ((go_read, go_write), (status_read, status_write)) = (pipe()?, pipe()?);
        Ok(Gates {
            go_read,
            go_write,
            status_read,
            status_write,
        })
    }

    pub(super) fn maker(self) -> MakerGates {
        MakerGates {
            go_write: self.go_write,
            status_read: self.status_read,
        }
    }

    /// The child's side, with everything else that it becomes a cell-init of. The child must not
    /// hold the write end of its own gate, or it would wait for itself.
    pub(super) fn creation(
        self,
        launch: CellLaunch,
        listener: OwnedFd,
        mounts: Vec<OwnedFd>,
        node_user: bool,
    ) -> Creation {
        drop(self.go_write);
        drop(self.status_read);
        let (go, status) = (self.go_read, self.status_write);
        Creation {
            launch,
            listener,
            mounts,
            go,
            status,
            proc: None,
            sys: None,
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
    let (proc, sys) = place::shared_views(launch.unshare)?;
    delegate(parts.leaf.as_fd(), &launch, 0)?;
    let options = clone::Options {
        namespaces: kinds(launch.unshare),
        sibling: true,
        cgroup: Some(parts.leaf.as_fd()),
        exit_signal: None,
    };
    let cloned = match launch.unshare.has(Namespaces::MOUNT) {
        true => clone::clone(options),
        false => {
            let cloned = place.among_node_mounts(|| clone::clone(options));
            if !matches!(cloned, Ok(Cloned::Child)) && place.back_to_template().is_err() {
                // Node-init executes another.
                process::exit(1)
            }
            cloned
        }
    };
    match cloned.step(Step::Clone)? {
        Cloned::Child => {
            let node_user = !launch.unshare.has(Namespaces::USER);
            let Parts {
                listener, mounts, ..
            } = parts;
            let creation = gates.creation(launch, listener, mounts, node_user);
            setup::live(Creation {
                proc,
                sys,
                ..creation
            })
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

/// Gives the cell's root the `cgroup.procs` of the cell's group: the kernel asks for it of whoever
/// clones from `_init` into a leaf beside it. `shared_root` is the root's id where the user
/// namespace is shared.
pub(super) fn delegate(
    leaf: std::os::fd::BorrowedFd<'_>,
    launch: &CellLaunch,
    shared_root: u32,
) -> Result<(), Failure> {
    let root = launch
        .uid_map
        .iter()
        .find(|map| map.inside == 0)
        .map(|map| map.outside);
    let root = root.unwrap_or(shared_root);
    if root == 0 {
        return Ok(());
    }
    let owner = Some(rustix::fs::Uid::from_raw(root));
    rustix::fs::chownat(
        leaf,
        "../cgroup.procs",
        owner,
        None,
        rustix::fs::AtFlags::empty(),
    )
    .call("chown cgroup.procs")
    .step(Step::Cgroup)
}

/// The namespaces to be cloned. Not the cgroup namespace: with `nsdelegate` a cell-init that sat in
/// one rooted at `_init` could not clone into the leaves beside it. Its children unshare theirs, in
/// their leaf.
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
