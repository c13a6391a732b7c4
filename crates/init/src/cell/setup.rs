// SPDX-License-Identifier: Apache-2.0
//! The first steps of a cell-init, between its clone and its loop.
//!
//! It is a copy of the spawner, in the cell's new namespaces, with a user id of its own. It waits
//! until its maps are written and node-init has its pid; takes the cell's root's ids for the files
//! that it creates; makes itself undumpable; closes every descriptor that isn't the cell's; and
//! only then mounts what a cell has on top of the (locked) template. A step that fails is written
//! to the status pipe, which node-init reads, and the process ends.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use kernel::memory::Scratch;
use kernel::rlimit::{self, Limit, Resource};
use kernel::signal::{Signal, SignalFd, SignalSet};
use kernel::{Context, mount, process, procfs, seqpacket, signal};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::adopted::Heard;
use super::orphans::Orphans;
use super::room::Room;
use super::{Cell, ORPHANS, SIGNALS};
use super::{image, mounts};
use crate::codec::Packet;
use crate::failure::InStep;
use crate::poll::{Interest, Poll};
use crate::protocol::{CellLaunch, Failure, MAX_PACKET, Namespaces, Root, Step, Sysctl};
use crate::record::KeptRecord;

/// The user that the kernel shows for one without a mapping.
const OVERFLOW: u32 = 65_534;

/// Files of `/proc` that say more of the machine than a cell needs, or steer it. Most are closed to
/// a cell's root by their modes as well.
const MASKED_FILES: [&str; 6] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/timer_list",
    "/proc/sysrq-trigger",
    "/proc/latency_stats",
];
/// Folders of the same kind; an empty one of the template is shown instead.
const MASKED_FOLDERS: [&str; 4] = [
    "/proc/acpi",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/kernel/debug",
];
/// Made read-only where the cell's root is the node's: elsewhere their modes do it.
const READ_ONLY: [&str; 4] = ["/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs"];
/// The folder of the template that mounts of the node come by.
pub(crate) const STAGE: &str = "/dev/.mounts";
/// The empty folder of the template.
pub(crate) const EMPTY: &str = "/dev/.empty";

/// A clone of the spawner: the future cell-init.
pub(crate) struct Creation {
    pub(crate) launch: CellLaunch,
    pub(crate) listener: OwnedFd,
    /// The cell's record.
    pub(crate) record: KeptRecord,
    /// Gives one byte when the cell may go on, and with it the init's OOM score as a descriptor;
    /// its end without one means it may not.
    pub(crate) go: OwnedFd,
    /// Where readiness (`0`) or a [`Failure`] is written.
    pub(crate) status: OwnedFd,
    /// To be written; comes with the go.
    pub(crate) score: Option<OwnedFd>,
    pub(crate) mounts: Mounts,
    /// The root of the cell's user namespace is the node's.
    pub(crate) node_user: bool,
}

/// Runs the cell-init; never returns.
pub(crate) fn live(mut creation: Creation) -> ! {
    match seqpacket::receive(&creation.go, &mut [0]) {
        Ok(Some(go)) => creation.score = go.fds.into_iter().next(),
        Ok(None) | Err(_) => process::exit(1),
    }
    let (failure, status) = match prepare(creation) {
        Ok((cell, status)) => match rustix::io::write(&status, &[0]) {
            Ok(_) => {
                drop(status);
                cell.run()
            }
            Err(_) => process::exit(1),
        },
        Err(failed) => failed,
    };
    let mut packet = Vec::new();
    if failure.encode(&mut packet).is_ok() {
        let _ = rustix::io::write(&status, &packet);
    }
    process::exit(1)
}

/// A ready cell-init, or the failure; with the status pipe.
fn prepare(creation: Creation) -> Result<(Cell, OwnedFd), (Failure, OwnedFd)> {
    let Creation {
        launch,
        listener,
        record,
        go,
        status,
        score,
        mounts,
        node_user,
    } = creation;
    drop(go);
    let prepared = become_init_user(node_user)
        .and_then(|()| be_opaque(&listener, &status, score.as_ref(), &record, &mounts))
        .and_then(|()| furnish(&launch, &mounts, node_user))
        .and_then(|()| build(launch, (listener, record), score, node_user));
    drop(mounts);
    match prepared {
        Ok(cell) => Ok((cell, status)),
        Err(failure) => Err((failure, status)),
    }
}

/// Mounted by the process that cloned this one, and detached: where the cell shares the namespaces
/// that they show.
#[derive(Default)]
pub(crate) struct Mounts {
    pub(crate) proc: Option<OwnedFd>,
    pub(crate) sys: Option<OwnedFd>,
    /// Message queues.
    pub(crate) queues: Option<OwnedFd>,
}

/// Takes every capability in the cell's user namespace, as a user that has no number in it. So no
/// workload can become that user and signal this process, or change its limits or its priority. The
/// process was cloned as this user ([`CellLaunch::init_id`]). The files that it creates are the
/// cell's root's.
fn become_init_user(node_user: bool) -> Result<(), Failure> {
    if node_user {
        return Ok(());
    }
    process::set_gid(0).step(Step::Identity)?;
    process::set_file_ids(0, 0).step(Step::Identity)
}

/// From here on a workload of the same user can't look into this process, and there is nothing in
/// it.
fn be_opaque(
    listener: &OwnedFd,
    status: &OwnedFd,
    score: Option<&OwnedFd>,
    record: &KeptRecord,
    mounts: &Mounts,
) -> Result<(), Failure> {
    process::set_dumpable(false).step(Step::Identity)?;
    process::set_name(c"aurae-cell").step(Step::Identity)?;
    let Mounts { proc, sys, queues } = mounts;
    let mut keep: Vec<BorrowedFd<'_>> = vec![
        rustix::stdio::stdin(),
        rustix::stdio::stdout(),
        rustix::stdio::stderr(),
        listener.as_fd(),
        status.as_fd(),
    ];
    let given = proc.iter().chain(sys).chain(queues).chain(score);
    keep.extend(given.map(AsFd::as_fd));
    keep.extend(record.descriptor());
    process::close_all_but(&keep).step(Step::Identity)?;
    process::new_session().step(Step::Identity)?;
    match process::new_session_keyring() {
        Err(error) if error.is(Errno::NOSYS.raw_os_error()) => Ok(()),
        other => other.step(Step::Identity),
    }
}

/// Everything in the cell that isn't in the template.
fn furnish(launch: &CellLaunch, mounts: &Mounts, node_user: bool) -> Result<(), Failure> {
    if launch.unshare.has(Namespaces::UTS) && !launch.hostname.is_empty() {
        let name = launch.hostname.as_bytes();
        rustix::system::sethostname(name)
            .call("sethostname")
            .step(Step::Hostname)?;
    }
    if launch.unshare.has(Namespaces::NET) {
        kernel::netlink::bring_loopback_up().step(Step::Network)?;
    }
    if !launch.unshare.has(Namespaces::MOUNT) {
        return set_parameters(launch, None);
    }
    match &launch.root {
        Root::Image(root) => image::enter(launch, root, mounts)?,
        Root::Node | Root::Bare => {
            mount_kernel(mounts)?;
            set_parameters(launch, None)?;
            mask(node_user)?;
            mounts::mount_folders().step(Step::Mount)?;
            mount_terminals(launch)?;
        }
    }
    for volume in &launch.volumes {
        mounts::attach_volume(&launch.root, volume)?;
    }
    match &launch.root {
        Root::Bare => image::share(),
        Root::Node | Root::Image(_) => Ok(()),
    }
}

/// Sets the parameters that were asked for, by way of that proc, or of the one at `/proc`. They are
/// of this process's own namespaces: the kernel looks at who writes, not at whose proc it is.
pub(super) fn set_parameters(
    launch: &CellLaunch,
    proc: Option<BorrowedFd<'_>>,
) -> Result<(), Failure> {
    if launch.sysctls.is_empty() {
        return Ok(());
    }
    let own = match proc {
        Some(_) => None,
        None => Some(procfs::open().step(Step::Sysctl)?),
    };
    let Some(proc) = proc.or(own.as_ref().map(AsFd::as_fd)) else {
        return Ok(());
    };
    for Sysctl { path, value } in &launch.sysctls {
        procfs::write(proc, &format!("sys/{path}"), value.as_bytes()).step(Step::Sysctl)?;
    }
    Ok(())
}

fn mount_kernel(mounts: &Mounts) -> Result<(), Failure> {
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let (proc, sys) = (Path::new("/proc"), Path::new("/sys"));
    match &mounts.proc {
        Some(made) => mount::attach(made, proc),
        None => {
            rustix::mount::mount(c"proc", proc, c"proc", quiet, None).call_on("mount proc", proc)
        }
    }
    .step(Step::Mount)?;
    match &mounts.sys {
        Some(made) => mount::attach(made, sys),
        None => rustix::mount::mount(c"sysfs", sys, c"sysfs", quiet | MountFlags::RDONLY, None)
            .call_on("mount sysfs", sys),
    }
    .step(Step::Mount)
}

/// Shows nothing where a cell has no business. What isn't there needs no mask.
pub(super) fn mask(node_user: bool) -> Result<(), Failure> {
    let over = |with: &str, paths: &[&str]| -> Result<(), Failure> {
        for path in paths.iter().map(Path::new) {
            match rustix::mount::mount_bind(Path::new(with), path) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => {
                    let error = kernel::Error::new("mask", errno).on(path);
                    return Err(Failure::of(Step::Mount, &error));
                }
            }
        }
        Ok(())
    };
    over("/dev/null", &MASKED_FILES)?;
    over(EMPTY, &MASKED_FOLDERS)?;
    if !node_user {
        return Ok(());
    }
    for path in READ_ONLY.iter().map(Path::new) {
        match rustix::mount::mount_bind(path, path) {
            Err(Errno::NOENT) => continue,
            result => result.call_on("bind", path).step(Step::Mount)?,
        }
        let flags = MountFlags::BIND
            | MountFlags::RDONLY
            | MountFlags::NOSUID
            | MountFlags::NODEV
            | MountFlags::NOEXEC;
        rustix::mount::mount_remount(path, flags, c"")
            .call_on("remount", path)
            .step(Step::Mount)?;
    }
    Ok(())
}

/// A devpts of the cell's own, at `/dev/pts`.
pub(super) fn mount_terminals(launch: &CellLaunch) -> Result<(), Failure> {
    // The group `tty` owns terminals, where the cell has such a group.
    let has_tty = !launch.unshare.has(Namespaces::USER)
        || launch
            .gid_map
            .iter()
            .any(|map| (map.inside..).contains(&5) && 5 - map.inside < map.count);
    let mut options = "newinstance,ptmxmode=0666,mode=0620".to_owned();
    if has_tty {
        options.push_str(",gid=5");
    }
    if let Root::Image(image) = &launch.root
        && !image.file_label.is_empty()
    {
        options.push_str(&format!(",context=\"{}\"", image.file_label));
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let pts = Path::new("/dev/pts");
    let options = CString::new(options).map_err(|_| {
        let detail = "NUL in the label of files";
        Failure::new(Step::Mount, Errno::INVAL.raw_os_error(), detail)
    })?;
    rustix::mount::mount(c"devpts", pts, c"devpts", flags, options.as_c_str())
        .call_on("mount devpts", pts)
        .step(Step::Mount)
}

/// A descriptor of the devpts that [`mount_terminals`] mounted, taken before a workload can mount
/// over it.
fn open_devpts() -> Result<OwnedFd, Failure> {
    let path = Path::new("/dev/pts");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .call_on("open", path)
        .step(Step::Mount)
}

fn build(
    launch: CellLaunch,
    (listener, record): (OwnedFd, KeptRecord),
    score: Option<OwnedFd>,
    node_user: bool,
) -> Result<Cell, Failure> {
    let own = launch.unshare;
    if !own.has(Namespaces::PID) {
        // Not PID 1 here: orphans would become children of another init.
        process::set_child_subreaper(true).step(Step::Namespace)?;
    }
    // As many descriptors as it may have; workloads get limits of their own.
    if let Ok(limit) = rlimit::get(Resource::NOFILE) {
        let _ = rlimit::set(
            Resource::NOFILE,
            Limit {
                soft: limit.hard,
                ..limit
            },
        );
    }
    let listened = SignalSet::of(&[Signal::CHLD, Signal::TERM, Signal::USR1]);
    signal::set_mask(SignalSet::ALL).step(Step::Clone)?;
    let signals = SignalFd::new(listened).step(Step::Clone)?;
    rustix::io::ioctl_fionbio(&listener, true).step(Step::Protocol)?;
    let poll = Poll::new().step(Step::Clone)?;
    poll.add(&signals, SIGNALS, Interest::READ)
        .step(Step::Clone)?;
    let own_room = Room::open(0, (launch.uid, record), listener, &poll);
    let own_room = Some(Box::new(own_room.step(Step::Clone)?));
    let devpts = match own.has(Namespaces::MOUNT) {
        true => Some(open_devpts()?),
        false => None,
    };
    Ok(Cell {
        own,
        root: remembered(launch.root),
        away: false,
        node_user,
        node_uid: if node_user { 0 } else { OVERFLOW },
        poll,
        signals,
        score,
        devpts,
        reap_again: false,
        rooms: vec![own_room],
        last_room: 0,
        orphans: Orphans::at_most(ORPHANS),
        heard: Heard::default(),
        buffer: Some(Scratch::new(MAX_PACKET).step(Step::Limit)?),
        stop: None,
    })
}

/// Less the names of the layers, which are of no use any more.
fn remembered(mut root: Root) -> Root {
    if let Root::Image(image) = &mut root {
        image.layers = Vec::new();
    }
    root
}
