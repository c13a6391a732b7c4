// SPDX-License-Identifier: Apache-2.0
//! The steps of the child, a clone of the cell-init, up to `execve` of the executable.
//!
//! Runs in the child alone, so it may allocate, block and fail. A failed step is written to a
//! close-on-exec pipe as one [`Failure`], and the child ends. Steps that need privileges come
//! before those are dropped; the filter comes last.

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kernel::caps::{self, CapabilitySet};
use kernel::exec::{self, Prepared};
use kernel::namespace::{self, Namespaces as Kinds};
use kernel::rlimit::{self, Limit, Resource};
use kernel::signal::{self, Signal, SignalSet};
use kernel::{Context, process, procfs, sched};
use rustix::io::Errno;

use super::clones::Inner;
use super::users::{self, Identity};
use super::{before, follow, image, listener, open, passed, sandbox};
use crate::codec::Packet;
use crate::failure::InStep;
use crate::protocol::sandbox::Label;
use crate::protocol::{CellRequest, Failure, Keyring, Launch, Namespaces, Root, Stdio, Step};

/// The soft limit of descriptors, where none is asked for: programs that use `select` break above
/// it.
const SOFT_DESCRIPTORS: u64 = 1024;
/// `PER_LINUX32`.
const LINUX32: u64 = 8;
/// The hard limit of descriptors: a program may raise its own up to this.
const HARD_DESCRIPTORS: u64 = 524_288;

/// The descriptors and data that the child has from its parent.
pub(super) struct Child<'a> {
    /// The packet of the [`CellRequest::Start`].
    pub(super) packet: &'a [u8],
    /// What becomes its standard streams, in their order.
    pub(super) streams: [BorrowedFd<'a>; 3],
    /// What the program gets from 3 on.
    pub(super) passed: &'a [OwnedFd],
    /// Where the listener of its filter goes; close-on-exec, and above what the program uses.
    pub(super) listener: Option<BorrowedFd<'a>>,
    /// Where a failure is written; close-on-exec. Its number is none that the program uses.
    pub(super) status: OwnedFd,
    /// The cell's own namespaces.
    pub(super) own: Namespaces,
    /// Those inside of them: in its pid namespace it is already, in a new mount namespace, too.
    pub(super) inner: Inner,
    /// What the root of the cell's files is.
    pub(super) root: &'a Root,
    /// The root of the cell's user namespace is the node's.
    pub(super) node_user: bool,
}

impl Child<'_> {
    /// What it needs itself until the exec closes it.
    fn own(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.listener.into_iter().chain([self.status.as_fd()])
    }
}

/// Becomes the executable, or reports the failed step and ends.
pub(super) fn run(child: &Child<'_>) -> ! {
    let failure = match attempt(child) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    let mut packet = Vec::new();
    if failure.encode(&mut packet).is_ok() {
        // A broken pipe: the cell-init is gone, and no process reads the failure.
        let _ = rustix::io::write(&child.status, &packet);
    }
    process::exit(127)
}

fn attempt(child: &Child<'_>) -> Result<Infallible, Failure> {
    let launch = decode(child.packet)?;
    if let Some(label) = &launch.label {
        set_label(label)?;
    }
    if let Inner::Of(main) = &child.inner {
        namespace::join(main, Kinds::MOUNT).step(Step::Namespace)?;
    }
    isolate(child, &launch)?;
    if let Inner::New = child.inner {
        image::renew(child.root, child.own, child.node_user)?;
    }
    // Among the cell-init's groups is the one that may clone into cells of the tenant: no file is
    // opened by its right. The program's own groups come later.
    process::set_groups(&[]).step(Step::User)?;
    set_streams(child, &launch)?;
    let of_image = matches!(child.root, Root::Image(_));
    let who = users::resolve(&launch, of_image)?;
    let inside = enter_sandbox(child, &launch)?;
    set_limits(&launch)?;
    let prepared = prepare(&launch, &who)?;
    let directory = Directory::find(&launch, &who, of_image)?;
    become_user(child, &launch, &who, inside.as_ref())?;
    directory.enter()?;
    finish(child, &launch)?;
    launch.before.as_ref().map_or(Ok(()), before::run)?;
    prepared.exec()
}

fn decode(packet: &[u8]) -> Result<Launch, Failure> {
    match CellRequest::decode(packet) {
        Ok(CellRequest::Start { launch, .. }) => Ok(launch),
        Ok(_) => Err(invalid(Step::Protocol, "not a Start")),
        Err(error) => Err(invalid(Step::Protocol, &error.to_string())),
    }
}

/// Has the program begin with a label. First of all: this is the cell-init's own proc still, which
/// no program of the cell can have mounted something over (runc's CVE-2019-16884), and this process
/// is its user still, whom the kernel lets.
fn set_label(label: &Label) -> Result<(), Failure> {
    let file = format!("self/attr/{}", label.file);
    let write = |proc: OwnedFd| procfs::write(proc, &file, label.text.as_bytes());
    match procfs::open().and_then(write) {
        Err(error) if !label.optional => {
            Err(Failure::new(Step::Label, error.errno(), label.text.clone()))
        }
        _ => Ok(()),
    }
}

pub(super) fn invalid(step: Step, detail: &str) -> Failure {
    Failure::new(step, Errno::INVAL.raw_os_error(), detail)
}

/// Namespaces of its own, made of what the cell shares with the node.
fn enter_sandbox(child: &Child<'_>, launch: &Launch) -> Result<Option<sandbox::Inside>, Failure> {
    let Some(wanted) = &launch.sandbox else {
        return Ok(None);
    };
    if *child.root != Root::Node || child.own.has(Namespaces::USER | Namespaces::MOUNT) {
        let detail = "a sandbox is for cells that share the node's mounts and users";
        return Err(invalid(Step::Sandbox, detail));
    }
    sandbox::enter(wanted).map(Some)
}

/// A session, a keyring and a cgroup root of its own.
fn isolate(child: &Child<'_>, launch: &Launch) -> Result<(), Failure> {
    process::new_session().step(Step::Stdio)?;
    // The cell-init's own keyring is empty and new too. So it may be shared where a container's
    // filter forbids another, or where the user's quota (200 keys) has run out.
    if launch.keyring != Keyring::Inherit
        && let Err(error) = process::new_session_keyring()
        && !is_tolerable(&error)
    {
        return Err(Failure::of(Step::Identity, &error));
    }
    if child.own.has(Namespaces::CGROUP) {
        namespace::unshare(Kinds::CGROUP).step(Step::Cgroup)?;
    }
    Ok(())
}

/// Of keyrings: a filter forbids them, the kernel has none, or the user has too many keys.
fn is_tolerable(error: &kernel::Error) -> bool {
    let tolerable = [Errno::NOSYS, Errno::PERM, Errno::ACCESS, Errno::DQUOT];
    tolerable.contains(&Errno::from_raw_os_error(error.errno()))
}

fn set_streams(child: &Child<'_>, launch: &Launch) -> Result<(), Failure> {
    let [input, output, error] = child.streams;
    let passed = passed::aside(child.passed)?;
    for (stream, number) in [(input, 0), (output, 1), (error, 2)] {
        process::place_fd(stream, number).step(Step::Stdio)?;
    }
    if matches!(launch.stdio, Stdio::Terminal { .. }) {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())
            .call("ioctl(TIOCSCTTY)")
            .step(Step::Stdio)?;
    }
    process::set_umask(launch.umask);
    if !launch.opens.is_empty() {
        // An open may hang for as long as a file system does: nothing of the cell-init's, such as
        // other executables' pipes, is held meanwhile.
        let kept: Vec<_> = passed.iter().map(AsFd::as_fd).chain(child.own()).collect();
        process::close_from_but(3, &kept).step(Step::Stdio)?;
    }
    let mut opens = launch.opens.iter();
    opens.try_for_each(|open| open::open(open, &launch.opens))?;
    let behind = passed::place(passed, launch.nonblocking)?;
    // Descriptors that are opened from here on are close-on-exec.
    let kept: Vec<_> = child.own().collect();
    process::close_from_but(behind, &kept).step(Step::Stdio)
}

/// How its threads get the processor and the disks.
fn set_scheduling(launch: &Launch) -> Result<(), Failure> {
    if let Some((class, level)) = launch.io_priority {
        sched::set_io_priority(class.into(), level.into()).step(Step::Scheduling)?;
    }
    if launch.policy.is_some() || launch.reset_on_fork {
        let (policy, priority) = launch.policy.unwrap_or_default();
        let flags = match launch.reset_on_fork {
            true => sched::Policy::RESET_ON_FORK,
            false => 0,
        };
        let nice = launch.nice.into();
        let attributes = sched::Policy::of(policy.into(), priority.into(), nice, flags);
        sched::set_policy(&attributes).step(Step::Scheduling)?;
    }
    if launch.timer_slack_ns > 0 {
        process::set_timer_slack(launch.timer_slack_ns).step(Step::Scheduling)?;
    }
    if launch.linux32 {
        sched::set_personality(LINUX32).step(Step::Scheduling)?;
    }
    Ok(())
}

fn set_limits(launch: &Launch) -> Result<(), Failure> {
    if launch.nice != 0 {
        sched::set_nice(launch.nice).step(Step::Priority)?;
    }
    if !launch.affinity.is_empty() {
        sched::set_affinity(&launch.affinity).step(Step::Affinity)?;
    }
    set_scheduling(launch)?;
    if !launch
        .rlimits
        .iter()
        .any(|(number, ..)| *number == Resource::NOFILE.number())
    {
        let hard = rlimit::get(Resource::NOFILE)
            .step(Step::Rlimit)?
            .hard
            .min(HARD_DESCRIPTORS);
        let limit = Limit {
            soft: SOFT_DESCRIPTORS.min(hard),
            hard,
        };
        rlimit::set(Resource::NOFILE, limit).step(Step::Rlimit)?;
    }
    for (number, soft, hard) in &launch.rlimits {
        let resource = Resource::from_number(*number)
            .ok_or_else(|| invalid(Step::Rlimit, &format!("there is no limit number {number}")))?;
        let limit = Limit {
            soft: *soft,
            hard: *hard,
        };
        rlimit::set(resource, limit).map_err(|error| {
            let detail = format!("RLIMIT_{resource}, soft {soft}, hard {hard}");
            Failure::of(Step::Rlimit, &error.about(detail))
        })?;
    }
    Ok(())
}

/// The program, where it may be, and its environment.
struct Ready {
    arguments: Prepared,
    candidates: Vec<CString>,
    program: Vec<u8>,
}

impl Ready {
    fn exec(&self) -> Result<Infallible, Failure> {
        self.arguments
            .exec_first(&self.candidates)
            .map_err(|error| {
                let program = String::from_utf8_lossy(&self.program).into_owned();
                Failure::new(Step::Exec, error.errno(), program)
            })
    }
}

fn prepare(launch: &Launch, who: &Identity) -> Result<Ready, Failure> {
    let env = environment(launch, who);
    let program = launch.program.as_ref().or(launch.argv.first());
    let program = program.ok_or_else(|| invalid(Step::Exec, "argv is empty"))?;
    let path = env.iter().find_map(|entry| entry.strip_prefix(b"PATH="));
    let path = path.unwrap_or(exec::DEFAULT_PATH);
    Ok(Ready {
        candidates: exec::candidates(program, path).step(Step::Exec)?,
        arguments: Prepared::new(&launch.argv, &env).step(Step::Exec)?,
        program: program.clone(),
    })
}

/// The environment as given, with what a login would add where it is absent.
fn environment(launch: &Launch, who: &Identity) -> Vec<Vec<u8>> {
    let mut env = launch.env.clone();
    for (name, value) in passed::variables(launch) {
        let start = [&name[..], b"="].concat();
        env.retain(|entry| !entry.starts_with(&start));
        env.push([start, value].concat());
    }
    let mut add = |name: &[u8], value: &[u8]| {
        let is_set = env.iter().any(|entry| {
            entry
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(b"="))
        });
        if !is_set && !value.is_empty() {
            env.push([name, b"=", value].concat());
        }
    };
    match &who.entry {
        Some(entry) => {
            add(b"HOME", &entry.home);
            add(b"USER", &entry.name);
            add(b"LOGNAME", &entry.name);
            add(b"SHELL", &entry.shell);
        }
        None => add(b"HOME", b"/"),
    }
    env
}

/// Makes the user own the terminal; else the user could not open it by its name.
///
/// Where the cell shares the mount namespace, the terminal is one of the node's devpts, whose group
/// has no mapping in the cell: then the cell's root keeps it.
fn own_terminal(uid: u32) -> Result<(), Failure> {
    let owner = rustix::fs::Uid::from_raw(uid);
    match rustix::fs::fchown(rustix::stdio::stdin(), Some(owner), None) {
        Ok(()) | Err(Errno::PERM) => Ok(()),
        Err(errno) => Err(invalid_user(uid, kernel::Error::new("fchown", errno))),
    }
}

fn invalid_user(id: u32, error: kernel::Error) -> Failure {
    let about = format!("id {id}: is it in the cell's range?");
    Failure::of(Step::User, &error.about(about))
}

/// The number of `CAP_KILL`.
const KILL: u64 = 5;

fn become_user(
    child: &Child<'_>,
    launch: &Launch,
    who: &Identity,
    inside: Option<&sandbox::Inside>,
) -> Result<(), Failure> {
    // In a shared pid namespace the cell-init is no PID 1, which signals would pass by.
    let exposed = child.own.has(Namespaces::USER) && !child.own.has(Namespaces::PID);
    let withheld = if exposed { 1 << KILL } else { 0 };
    let bounding = CapabilitySet(launch.bounding & !withheld);
    let ambient = CapabilitySet(launch.ambient).intersection(bounding);
    // With `no_new_privs` the filter is the very last thing. Without, the kernel wants
    // CAP_SYS_ADMIN for it, which is about to go.
    if !launch.no_new_privileges {
        listener::install_filters(child, launch)?;
    }
    process::set_groups(&who.groups).step(Step::User)?;
    let wanted = launch.sandbox.as_ref();
    if let Some(inside) = inside.filter(|_| wanted.is_some_and(|it| it.users)) {
        inside.own_users(who.uid, who.gid)?;
    }
    caps::limit_bounding(bounding).step(Step::Capabilities)?;
    if let Stdio::Terminal { .. } = launch.stdio {
        own_terminal(who.uid)?;
    }
    process::set_gid(who.gid).map_err(|error| invalid_user(who.gid, error))?;
    let keep = ambient != CapabilitySet::EMPTY && who.uid != 0;
    if let Some(bits) = wanted.map(|it| it.secure_bits).filter(|bits| *bits != 0) {
        caps::set_securebits(bits).step(Step::Capabilities)?;
    }
    process::set_keep_capabilities(keep).step(Step::Capabilities)?;
    process::set_uid(who.uid).map_err(|error| invalid_user(who.uid, error))?;
    if launch.keyring == Keyring::Shared {
        // The keyring of the user that this process is now. Where there is none to be had, as in
        // a container whose filter forbids it, the program has its own all the same.
        if let Err(error) = process::link_user_keyring()
            && !is_tolerable(&error)
        {
            return Err(Failure::of(Step::Identity, &error));
        }
    }
    // A kernel may be configured to keep a process dumpable after a change of user
    // (`fs.suid_dumpable`). Until the exec no other process may read or trace this one: it is a
    // copy of the cell-init.
    process::set_dumpable(false).step(Step::Identity)?;
    // The cell-init's user isn't root, so the kernel passes none of its capabilities on to an
    // executed program by itself.
    let (held, inheritable) = match who.uid {
        0 => (bounding, CapabilitySet::EMPTY),
        _ => (ambient, ambient),
    };
    let sets = caps::ThreadSets {
        effective: held,
        permitted: held,
        inheritable,
    };
    let now = caps::get().step(Step::Capabilities)?;
    let sets = caps::ThreadSets {
        effective: sets.effective.intersection(now.permitted),
        permitted: sets.permitted.intersection(now.permitted),
        ..sets
    };
    caps::set(&sets).step(Step::Capabilities)?;
    if keep {
        caps::set_ambient(ambient).step(Step::Capabilities)?;
    }
    Ok(())
}

/// The working directory to be. It is found before the filter comes, which may know no `openat2`,
/// and entered with the user's rights.
struct Directory {
    path: Vec<u8>,
    folder: OwnedFd,
    /// Where it can't be entered.
    instead: Option<OwnedFd>,
}

impl Directory {
    /// Not by way of a descriptor: what this process has open is not the program's.
    fn find(launch: &Launch, who: &Identity, of_image: bool) -> Result<Directory, Failure> {
        let home = who.entry.as_ref().map(|entry| &entry.home[..]);
        let home = home.filter(|home| home.starts_with(b"/"));
        let open = |path: &[u8]| follow::folder(path_of(path));
        let (path, folder, instead) = match launch.cwd.as_slice() {
            b"" => {
                let path = home.unwrap_or(b"/");
                let root = || open(b"/");
                (path, open(path).or_else(|_| root()), root().map(Some))
            }
            path if of_image && !launch.cwd_optional => {
                (path, follow::make_folder(path_of(path)), Ok(None))
            }
            path if launch.cwd_optional => {
                let root = || open(b"/");
                (path, open(path).or_else(|_| root()), root().map(Some))
            }
            path => (path, open(path), Ok(None)),
        };
        Ok(Directory {
            path: path.to_vec(),
            folder: folder.map_err(|error| no_directory(path, &error))?,
            instead: instead.map_err(|error| no_directory(path, &error))?,
        })
    }

    fn enter(&self) -> Result<(), Failure> {
        let enter = |folder: &OwnedFd| rustix::process::fchdir(folder).call("fchdir");
        let entered = match (&self.instead, enter(&self.folder)) {
            (Some(instead), Err(_)) => enter(instead),
            (_, entered) => entered,
        };
        entered.map_err(|error| no_directory(&self.path, &error))
    }
}

fn no_directory(path: &[u8], error: &kernel::Error) -> Failure {
    let detail = format!("chdir {}", path_of(path).display());
    Failure::new(Step::Directory, error.errno(), detail)
}

pub(super) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// The steps that can't be undone: signals, privileges, the filter.
fn finish(child: &Child<'_>, launch: &Launch) -> Result<(), Failure> {
    signal::set_mask(SignalSet::EMPTY).step(Step::Exec)?;
    if launch.ignore_sigpipe {
        signal::ignore(Signal::PIPE).step(Step::Exec)?;
    }
    if launch.no_new_privileges {
        process::set_no_new_privileges().step(Step::Capabilities)?;
        listener::install_filters(child, launch)?;
    }
    launch.sandbox.as_ref().map_or(Ok(()), sandbox::filter)
}
