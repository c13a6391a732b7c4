// SPDX-License-Identifier: Apache-2.0
//! The runtime's part of `create`: checks everything, makes the group, clones the container's
//! process, runs hooks, and writes down what it has made. Whatever fails, nothing stays.

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use kernel::namespace::Namespaces;
use kernel::signal::Signal;
use kernel::wait::{Reap, Target};
use kernel::{pidfd, process, seqpacket, wait};
use rustix::fs::{Mode, OFlags};

use super::console::{self, Socket};
use super::life::{self, Life};
use super::namespaces::Plan;
use super::net_devices::Moved;
use super::state::{self, Folder, Record};
use super::talk::{self, End, Said};
use super::user::Prepared;
use super::{hooks, maps, seccomp};
use crate::cgroup::{self, Groups, Placed};
use crate::config::{self, Process, Spec, check};
use crate::error::{Doing, Error, Result, refuse};
use crate::log;
use crate::root::{Root, mounts};

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) root: &'a Path,
    pub(crate) id: &'a str,
    pub(crate) groups: Groups,
    pub(crate) pid_file: Option<&'a Path>,
    pub(crate) console: Option<Socket>,
    pub(crate) pidfd_socket: Option<&'a Path>,
    pub(crate) no_pivot: bool,
    pub(crate) no_new_keyring: bool,
    pub(crate) preserve_fds: i32,
}

/// A container that waits for `start`.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) folder: Folder,
    pub(crate) record: Record,
    pub(crate) spec: Spec,
    pub(crate) pidfd: OwnedFd,
}

/// Reads a bundle's configuration and goes there; relative paths in it begin there.
pub(crate) fn open_bundle(bundle: &Path) -> Result<(Spec, Vec<u8>, PathBuf)> {
    let bundle = std::fs::canonicalize(bundle).doing_on("--bundle", bundle)?;
    let bytes = config::load(&bundle)?;
    let spec = Spec::parse(&bytes)?;
    check::spec(&spec)?;
    std::env::set_current_dir(&bundle).doing_on("chdir", &bundle)?;
    Ok((spec, bytes, bundle))
}

/// Makes the container.
pub(crate) fn create(request: Request<'_>, opened: (Spec, Vec<u8>, PathBuf)) -> Result<Created> {
    let folder = Folder::create(request.root, request.id)?;
    let mut group = None;
    let made = make(&request, opened, &folder, &mut group);
    if made.is_err() {
        group.into_iter().for_each(Placed::undo);
        folder
            .remove()
            .unwrap_or_else(|error| log::warn(error.to_string()));
    }
    made
}

/// Tells who asked for it which process it is.
fn tell(request: &Request<'_>, child: &Child) -> Result<()> {
    if let Some(socket) = request.pidfd_socket {
        send_pidfd(socket, child)?;
    }
    match request.pid_file {
        Some(path) => write_pid(path, child.pid),
        None => Ok(()),
    }
}

fn make(
    request: &Request<'_>,
    (spec, bytes, bundle): (Spec, Vec<u8>, PathBuf),
    folder: &Folder,
    placed: &mut Option<Placed>,
) -> Result<Created> {
    let Some(process) = spec.process.clone() else {
        return refuse("process: a container needs one");
    };
    let preserved = preserved(request.preserve_fds)?;
    let prepared = prepare(process, &spec, preserved)?;
    let path = spec
        .root
        .as_ref()
        .map(|root| bundle.join(&root.path))
        .unwrap_or_default();
    let path = std::fs::canonicalize(&path).doing_on("root.path:", &path)?;
    let fifo = make_fifo(folder)?;
    folder.save_spec(&bytes)?;
    *placed = cgroup::set_up(&spec, request.id, request.groups)?;
    let group = placed.as_ref().map(|placed| &placed.group);
    let plan = Plan::of(&spec)?;
    warn_of_stragglers(group.is_some(), &plan);
    let root = match plan.new.has(Namespaces::MOUNT) {
        true => Some(Root::plan(&spec, &path, request.no_pivot)?),
        false => None,
    };
    let mut record = Record {
        oci_version: spec.oci_version.clone(),
        id: request.id.to_owned(),
        pid: 0,
        start_ticks: 0,
        bundle,
        rootfs: path,
        created: log::now(),
        owner: process::effective_uid(),
        cgroup: group.map(|group| group.path().to_owned()),
        unit: placed.as_ref().and_then(Placed::unit),
        shares_pids: !plan.new.has(Namespaces::PID),
        annotations: spec.annotations.clone(),
    };
    let (ours, theirs) = talk::pair()?;
    let console = request.console.as_ref().map(Socket::try_clone);
    let life = Life {
        spec: &spec,
        plan: &plan,
        prepared: &prepared,
        root,
        end: theirs,
        console: console.transpose()?,
        fifo,
        preserved,
        new_keyring: !request.no_new_keyring,
        by_user: record.owner != 0,
        state: record.show("creating"),
    };
    let (pid, pidfd) = plan.clone(group, || {
        let closed = process::close_copy(ours.as_fd());
        closed.map_or(1, |()| life.live())
    })?;
    drop(plan);
    let child = Child { pidfd, pid };
    record.pid = pid;
    record.start_ticks = state::start_ticks(pid).unwrap_or(0);
    maps::write_new(&spec, pid)?;
    let devices = Moved::all(&spec, pid)?;
    attend(&child, &ours, &spec, &prepared, &record, folder)?;
    tell(request, &child)?;
    devices.keep();
    Ok(Created {
        folder: folder.clone(),
        record,
        spec,
        pidfd: child.keep()?,
    })
}

/// Without a group and a pid namespace what a container leaves behind is found by nothing.
fn warn_of_stragglers(grouped: bool, plan: &Plan) {
    if !grouped && !plan.has(Namespaces::PID) {
        log::warn(
            "a container with neither a cgroup nor a pid namespace of its own: what it starts can't \
             be ended with it. Such configuration is strongly discouraged: set linux.cgroupsPath to \
             a group that this user may write, or make a pid namespace",
        );
    }
}

fn prepare(mut process: Process, spec: &Spec, preserved: i32) -> Result<Prepared> {
    let listen = preserved_by_activation();
    if listen > 0 && preserved >= listen {
        life::activation(&mut process, listen);
    }
    let filter = spec.linux.seccomp.as_ref().map(seccomp::compile);
    Prepared::of(&process, filter.transpose()?, &spec.linux)
}

/// The process until it stands on its own: dropped, it is killed and reaped.
struct Child {
    pidfd: OwnedFd,
    pid: i32,
}

impl Child {
    fn keep(self) -> Result<OwnedFd> {
        let pidfd = self.pidfd.try_clone().doing("dup")?;
        std::mem::forget(self);
        Ok(pidfd)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = pidfd::send_signal(&self.pidfd, Signal::KILL);
        let _ = wait::wait(Target::PidFd(self.pidfd.as_fd()), Reap::Yes);
    }
}

/// Stands by until the process is ready for `start`.
fn attend(
    child: &Child,
    end: &End,
    spec: &Spec,
    prepared: &Prepared,
    record: &Record,
    folder: &Folder,
) -> Result<()> {
    prepared.limit(child.pid)?;
    folder.save(record)?;
    end.go();
    loop {
        match end.hear()? {
            Said::Ready => {
                log::debug("init: closing the pipe to signal completion: it waits for start");
                end.go();
                if record.owner != 0 {
                    // Until it has closed its end: then an ordinary user may enter it.
                    end.hear()?;
                }
                return Ok(());
            }
            Said::Failed(error) => {
                return Err(error.while_doing("unable to start container process"));
            }
            Said::Gone => return refuse("the container's process has ended before it was ready"),
            Said::Built => {
                let state = record.show("creating");
                hooks::run("prestart", &spec.hooks.prestart, &state)?;
                hooks::run("createRuntime", &spec.hooks.create_runtime, &state)?;
                end.go();
            }
            Said::Listener(listener) => {
                hand_over(spec, &listener, record)?;
                end.go();
            }
            Said::Map(number, mount) => {
                mounts::map(spec, number, &mount)?;
                end.go();
            }
        }
    }
}

/// Sends a filter's listener to the agent, with the specification's document about it.
pub(super) fn hand_over(spec: &Spec, listener: &OwnedFd, record: &Record) -> Result<()> {
    let Some(seccomp) = &spec.linux.seccomp else {
        return refuse("a listener without linux.seccomp");
    };
    let path = Path::new(&seccomp.listener_path);
    let document = serde_json::json!({
        "ociVersion": record.oci_version,
        "fds": ["seccompFd"],
        "pid": record.pid,
        "metadata": seccomp.listener_metadata,
        "state": record.show("creating"),
    });
    let socket = UnixStream::connect(path).doing_on(
        "linux.seccomp.listenerPath: failed to connect with seccomp agent",
        path,
    )?;
    let text = document.to_string();
    seqpacket::send(&socket, text.as_bytes(), &[listener.as_fd()])
        .doing_on("linux.seccomp.listenerPath:", path)
}

/// Its reader is the process itself, so that opening it never waits, and it is there at once.
fn make_fifo(folder: &Folder) -> Result<OwnedFd> {
    let path = folder.fifo();
    let mode = Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).doing_on("mkfifo", &path)?;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(&path, flags, Mode::empty()).doing_on("open", &path)
}

/// How many descriptors from 3 on are passed on: those of `--preserve-fds`, and those of socket
/// activation. Every other one was marked at the start.
pub(crate) fn preserved(asked: i32) -> Result<i32> {
    let count = asked.max(preserved_by_activation());
    for number in 3..3 + asked {
        if !process::is_open(number) {
            return refuse(format!("--preserve-fds: descriptor {number} isn't open"));
        }
    }
    Ok(count)
}

/// `LISTEN_FDS`, where it is meant for this process.
pub(crate) fn preserved_by_activation() -> i32 {
    let number = |name: &str| std::env::var(name).ok()?.parse::<i32>().ok();
    number("LISTEN_FDS")
        .filter(|count| (1..1024).contains(count))
        .unwrap_or(0)
}

fn send_pidfd(path: &Path, child: &Child) -> Result<()> {
    let socket = console::connect(path).doing("--pidfd-socket")?;
    seqpacket::send(&socket.stream, b"pidfd", &[child.pidfd.as_fd()]).doing("--pidfd-socket")
}

/// Whole or not at all: engines wait for the file to appear.
pub(crate) fn write_pid(path: &Path, pid: i32) -> Result<()> {
    let mut name = OsStr::new(".").to_owned();
    name.push(path.file_name().unwrap_or_default());
    let beside = path.with_file_name(name);
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| file.write_all(pid.to_string().as_bytes()))
        .and_then(|()| std::fs::rename(&beside, path));
    written.map_err(Error::from).doing_on("--pid-file", path)
}
