// SPDX-License-Identifier: Apache-2.0
//! Nested cells, created from outside of the enclosing cell.
//!
//! An enclosing cell can't create one itself: it may not mount a proc. And the spawner can't in one
//! step, because a pid namespace is created only below the one that its creator *is in*, and a user
//! namespace only by a process whose id is mapped in the enclosing one. So two helper processes do
//! it, which end afterwards:
//!
//! ```text
//! worker ─── clone ─▶ first: joins the enclosing cell's pid namespace (for its children)
//!                       └── clone, into the inits' group ─▶ second: is in it. Joins what is
//!                                │             shared, then the enclosing user namespace, as the
//!                                │             user that the cell-init is to have
//!                                │             └── clone, the new namespaces ─▶ cell-init
//!                       joins the enclosing user namespace, *keeping* the kernel's uid 0,
//!                       writes the maps (the files belong to root, the writer must be in there)
//! ```
//!
//! The worker and the first run in the node's own cgroup. The first, which has the permission,
//! clones the second into the cgroup of the tenant's inits; the cell-init then inherits that group
//! and needs no permission. No limit of the enclosing cell applies to any of them. But the second
//! is in the enclosing cell's pid namespace and, at the end, in its user namespace: the enclosing
//! cell's root may kill it and stop it. So the worker knows of it by a descriptor that the first
//! hands over, and waits for both no longer than [`helpers::BOUND`]; other cells are created
//! meanwhile.

use std::os::fd::{AsFd, OwnedFd};

use kernel::clone::{self, Cloned};
use kernel::namespace::{self, Namespaces as Kinds};
use kernel::poll::Deadline;
use kernel::{idmap, process, seqpacket};
use rustix::io::Errno;

use super::helpers::{self, Helper};
use super::place::{self, Place, translate};
use super::stage::Ids;
use super::{Gates, MakerGates, Parts, enter_root, kinds};
use crate::cell::setup::{self, Creation};
use crate::codec::Packet;
use crate::failure::InStep;
use crate::protocol::{CellLaunch, Failure, IdMap, Namespaces, Root, Step};

/// The enclosing cell of a nested one.
struct Parent {
    /// The descriptor of its cell-init.
    pidfd: OwnedFd,
    /// Its user namespace is the node's.
    node_user: bool,
    uid_map: Vec<IdMap>,
    gid_map: Vec<IdMap>,
}

impl Parent {
    fn look_at(place: &Place, pidfd: OwnedFd) -> Result<Parent, Failure> {
        let pid = place.pid_of(&pidfd).step(Step::Namespace)?;
        let folder = place.process(pid).step(Step::Namespace)?;
        // Now the folder is held; had the pid been given to another meanwhile, this one would be
        // gone.
        place.pid_of(&pidfd).step(Step::Namespace)?;
        let node_user = place.is_node_user(&folder).step(Step::Namespace)?;
        let uid_map = place.map_of(&folder, "uid_map").step(Step::IdMap)?;
        let gid_map = place.map_of(&folder, "gid_map").step(Step::IdMap)?;
        Ok(Parent {
            pidfd,
            node_user,
            uid_map,
            gid_map,
        })
    }
}

/// [`super::make`] for a nested cell.
pub(super) fn make(
    place: &Place,
    launch: CellLaunch,
    mut parts: Parts,
    gates: Gates,
) -> Result<(i32, OwnedFd, MakerGates), Failure> {
    let gone = || {
        Failure::new(
            Step::Namespace,
            Errno::SRCH.raw_os_error(),
            "the enclosing cell",
        )
    };
    let parent = Parent::look_at(place, parts.parent.take().ok_or_else(gone)?)?;
    let uids = translate(&launch.uid_map, &parent.uid_map)?;
    let gids = translate(&launch.gid_map, &parent.gid_map)?;
    let ((first, to_first), (second, to_second)) = (helpers::pair()?, helpers::pair()?);
    let maps = launch.unshare.has(Namespaces::USER);
    if launch.root != Root::Node {
        // This process is the cell's own: it need not come back.
        let (uids, gids) = match (maps, parent.node_user) {
            (true, _) => (&launch.uid_map[..], &launch.gid_map[..]),
            (false, false) => (&parent.uid_map[..], &parent.gid_map[..]),
            (false, true) => (&[][..], &[][..]),
        };
        enter_root(place, &launch.root, &parts, &Ids { uids, gids })?;
    }
    let sibling = clone::Options {
        sibling: true,
        ..Default::default()
    };
    match clone::clone(sibling).step(Step::Clone)? {
        Cloned::Child => {
            drop(first);
            drop(second);
            let work = Work {
                place,
                parent,
                to_second,
            };
            match work.first(launch, parts, gates, &to_first, &uids, &gids) {
                Ok(()) => process::exit(0),
                Err(failure) => fail(&to_first, &failure),
            }
        }
        Cloned::Parent(_, pidfd) => {
            drop(to_first);
            drop(to_second);
            let first = Helper::new(first, pidfd);
            let (pid, pidfd) = attend(place, &first, second, maps)?;
            Ok((pid, pidfd, gates.maker()))
        }
    }
}

/// Hears the helpers out. What fails leaves a cell-init, if it came to be, without its go: it ends
/// by itself, or with its group.
fn attend(
    place: &Place,
    first: &Helper,
    second: OwnedFd,
    maps: bool,
) -> Result<(i32, OwnedFd), Failure> {
    let deadline = Deadline::after(helpers::BOUND);
    let second = Helper::new(second, given(first.answer(deadline)?)?);
    let pidfd = given(second.answer(deadline)?)?;
    let pid = place.pid_of(&pidfd).step(Step::Clone)?;
    if maps {
        first.tell(&pid.to_le_bytes())?;
        first.answer(deadline)?;
    }
    Ok((pid, pidfd))
}

fn given(pidfd: Option<OwnedFd>) -> Result<OwnedFd, Failure> {
    pidfd.ok_or_else(|| Failure::new(Step::Clone, Errno::BADF.raw_os_error(), "no pidfd came"))
}

fn fail(socket: &OwnedFd, failure: &Failure) -> ! {
    let mut packet = Vec::new();
    if failure.encode(&mut packet).is_ok() {
        let _ = seqpacket::send(socket, &packet, &[]);
    }
    process::exit(1)
}

/// The descriptors and data of both helpers.
struct Work<'a> {
    place: &'a Place,
    parent: Parent,
    to_second: OwnedFd,
}

impl Work<'_> {
    fn first(
        self,
        launch: CellLaunch,
        parts: Parts,
        gates: Gates,
        spawner: &OwnedFd,
        uids: &[IdMap],
        gids: &[IdMap],
    ) -> Result<(), Failure> {
        namespace::join(&self.parent.pidfd, Kinds::PID).step(Step::Namespace)?;
        let options = clone::Options {
            sibling: true,
            cgroup: Some(parts.group.as_fd()),
            ..Default::default()
        };
        match clone::clone(options).step(Step::Clone)? {
            Cloned::Child => match self.second(launch, parts, gates) {
                Ok(()) => process::exit(0),
                Err((failure, socket)) => fail(&socket, &failure),
            },
            Cloned::Parent(_, pidfd) => {
                drop(self.to_second);
                drop(gates);
                seqpacket::send(spawner, &[0], &[pidfd.as_fd()]).step(Step::Clone)?;
                if launch.unshare.has(Namespaces::USER) {
                    write_maps(self.place, &self.parent, spawner, uids, gids)?;
                }
                Ok(())
            }
        }
    }

    fn second(
        self,
        launch: CellLaunch,
        parts: Parts,
        gates: Gates,
    ) -> Result<(), (Failure, OwnedFd)> {
        let Work {
            place,
            parent,
            to_second,
        } = self;
        let prepared = join_shared(&parent, launch.unshare)
            .and_then(|()| place::join_others(&launch, &parts.joins))
            .and_then(|()| place::shared_views(&launch))
            .and_then(|views| become_init(&parent, launch.init_id).map(|()| views));
        let mounts = match prepared {
            Ok(mounts) => mounts,
            Err(failure) => return Err((failure, to_second)),
        };
        let options = clone::Options {
            namespaces: kinds(launch.unshare),
            sibling: true,
            ..Default::default()
        };
        match clone::clone(options) {
            Ok(Cloned::Child) => {
                drop(to_second);
                let node_user = parent.node_user && !launch.unshare.has(Namespaces::USER);
                let creation = gates.creation(
                    place,
                    nested(launch),
                    (parts.listener, parts.record),
                    node_user,
                );
                setup::live(Creation { mounts, ..creation })
            }
            Ok(Cloned::Parent(_, pidfd)) => {
                let sent = seqpacket::send(&to_second, &[0], &[pidfd.as_fd()]).step(Step::Clone);
                sent.map_err(|failure| (failure, to_second))
            }
            Err(error) => Err((Failure::of(Step::Clone, &error), to_second)),
        }
    }
}

/// A nested cell's executables always have their own cgroup root: to share the enclosing cell's
/// would be to share what each of that cell's executables has for itself.
fn nested(mut launch: CellLaunch) -> CellLaunch {
    launch.unshare.0 |= Namespaces::CGROUP;
    launch
}

fn join_shared(parent: &Parent, own: Namespaces) -> Result<(), Failure> {
    let shared = [
        (Namespaces::MOUNT, Kinds::MOUNT),
        (Namespaces::NET, Kinds::NET),
        (Namespaces::IPC, Kinds::IPC),
        (Namespaces::UTS, Kinds::UTS),
    ];
    let shared = shared.iter().filter(|(one, _)| !own.has(*one));
    let shared = shared.fold(Kinds::NONE, |set, (_, kind)| set.and(*kind));
    if shared.is_empty() {
        return Ok(());
    }
    namespace::join(&parent.pidfd, shared).step(Step::Namespace)
}

/// Becomes the user of the cell-init to be, in the enclosing user namespace: there the cell's own
/// is made from, by a user that has a number in it.
fn become_init(parent: &Parent, id: u32) -> Result<(), Failure> {
    if id != 0 {
        process::set_uid_and_stay_capable(id).step(Step::Identity)?;
    }
    if !parent.node_user {
        namespace::join(&parent.pidfd, Kinds::USER).step(Step::Namespace)?;
        process::set_gid(0).step(Step::Identity)?;
    }
    process::set_dumpable(false).step(Step::Identity)
}

fn write_maps(
    place: &Place,
    parent: &Parent,
    spawner: &OwnedFd,
    uids: &[IdMap],
    gids: &[IdMap],
) -> Result<(), Failure> {
    let mut pid = [0; 4];
    let packet = seqpacket::receive(spawner, &mut pid).map_err(kernel::Error::from);
    if packet
        .step(Step::IdMap)?
        .is_none_or(|packet| packet.length != pid.len())
    {
        // The spawner has given the cell up.
        return Ok(());
    }
    let process = place.process(i32::from_le_bytes(pid)).step(Step::IdMap)?;
    if !parent.node_user {
        namespace::join(&parent.pidfd, Kinds::USER).step(Step::IdMap)?;
    }
    let map = |maps: &[IdMap]| maps.iter().map(place::to_kernel).collect::<Vec<_>>();
    idmap::write(&process, &map(uids), &map(gids)).step(Step::IdMap)?;
    seqpacket::send(spawner, &[0], &[]).step(Step::IdMap)
}
