// SPDX-License-Identifier: Apache-2.0
//! `create`, `start`, `run`, `kill`, `delete`, `pause`, `resume`.

use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use kernel::poll::{self, Deadline, Interest};
use kernel::signal::Signal;
use kernel::{pidfd, wait};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::load;
use crate::args;
use crate::cgroup::{self, Groups};
use crate::config::Spec;
use crate::container::console::{self, Socket};
use crate::container::create::{self, Created, Request};
use crate::container::foreground::{self, Foreground};
use crate::container::hooks;
use crate::container::state::{Folder, Record, Status, check_id};
use crate::error::{Doing, Result, refuse};
use crate::log;

/// How long a killed container may take to end.
const END: Duration = Duration::from_secs(10);

pub(super) fn create(global: &args::Global, root: &Path, asked: &args::Create) -> Result<()> {
    // Relative paths are the caller's, not the bundle's.
    let paths = Paths::of(asked)?;
    let opened = create::open_bundle(&asked.bundle)?;
    let socket = connect(&opened.0, &paths)?;
    make(global, root, asked, &paths, socket, opened).map(|_| ())
}

/// The caller's paths, absolute.
struct Paths {
    pid_file: Option<std::path::PathBuf>,
    console: Option<std::path::PathBuf>,
    pidfd: Option<std::path::PathBuf>,
}

impl Paths {
    fn of(asked: &args::Create) -> Result<Paths> {
        let whole = |path: &Option<std::path::PathBuf>| {
            path.as_ref()
                .map(std::path::absolute)
                .transpose()
                .doing("the working directory")
        };
        Ok(Paths {
            pid_file: whole(&asked.pid_file)?,
            console: whole(&asked.console_socket)?,
            pidfd: whole(&asked.pidfd_socket)?,
        })
    }
}

/// The socket for the terminal, where there is to be one.
fn connect(spec: &Spec, paths: &Paths) -> Result<Option<Socket>> {
    let terminal = spec
        .process
        .as_ref()
        .is_some_and(|process| process.terminal);
    match (terminal, &paths.console) {
        (true, Some(path)) => console::connect(path).doing("--console-socket").map(Some),
        (true, None) => refuse(
            "cannot allocate tty if runc will detach without setting console socket \
             (process.terminal needs --console-socket)",
        ),
        (false, Some(_)) => refuse(
            "cannot use console socket if runc will not detach or allocate tty \
             (--console-socket needs process.terminal)",
        ),
        (false, None) => Ok(None),
    }
}

fn make(
    global: &args::Global,
    root: &Path,
    asked: &args::Create,
    paths: &Paths,
    console: Option<Socket>,
    opened: (Spec, Vec<u8>, std::path::PathBuf),
) -> Result<Created> {
    let request = Request {
        root,
        id: &asked.id,
        groups: groups(global),
        pid_file: paths.pid_file.as_deref(),
        console,
        pidfd_socket: paths.pidfd.as_deref(),
        no_pivot: asked.no_pivot,
        no_new_keyring: asked.no_new_keyring,
        preserve_fds: asked.preserve_fds.into(),
    };
    create::create(request, opened)
}

fn groups(global: &args::Global) -> Groups {
    match (global.cgroup_manager.as_deref(), global.systemd_cgroup) {
        (Some("disabled"), _) => Groups::None,
        (Some("systemd"), _) | (None, true) => Groups::Systemd,
        _ => Groups::Path,
    }
}

pub(super) fn start(root: &Path, id: &str) -> Result<()> {
    let (folder, record) = load(root, id)?;
    match record.status(&folder) {
        Status::Created => begin(&folder, &record, &folder.spec()?),
        Status::Stopped => refuse("cannot start a container that has stopped"),
        Status::Running | Status::Paused => refuse("cannot start an already running container"),
    }
}

/// Lets the process go on, and runs the hooks that come then.
fn begin(folder: &Folder, record: &Record, spec: &Spec) -> Result<()> {
    let path = folder.fifo();
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fifo = match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(fifo) => fifo,
        Err(Errno::NXIO) => {
            return refuse("the container's process has ended before it was started");
        }
        Err(Errno::NOENT) => return refuse("cannot start an already running container"),
        Err(errno) => return Err(errno).doing_on("open", &path),
    };
    // One of two that start it at once gets here.
    std::fs::remove_file(&path).doing_on("remove", &path)?;
    std::fs::File::from(fifo)
        .write_all(b"0")
        .doing_on("write", &path)?;
    let state = record.show("running");
    let started = hooks::run("poststart", &spec.hooks.poststart, &state);
    if started.is_err() {
        kill_all(record);
    }
    started
}

pub(super) fn run(global: &args::Global, root: &Path, asked: &args::Run) -> Result<ExitCode> {
    let paths = Paths::of(&asked.create)?;
    let opened = create::open_bundle(&asked.create.bundle)?;
    if asked.detach {
        let socket = connect(&opened.0, &paths)?;
        let created = make(global, root, &asked.create, &paths, socket, opened)?;
        begin_or_remove(&created)?;
        return Ok(ExitCode::SUCCESS);
    }
    let terminal = opened
        .0
        .process
        .as_ref()
        .is_some_and(|process| process.terminal);
    if paths.console.is_some() {
        return refuse("cannot use console socket if runc will not detach or allocate tty");
    }
    if !asked.no_subreaper {
        foreground::adopt()?;
    }
    let standing = Foreground::begin(terminal)?;
    let created = make(
        global,
        root,
        &asked.create,
        &paths,
        standing.console()?,
        opened,
    )?;
    begin_or_remove(&created)?;
    let code = standing.stand_by(&created.pidfd)?;
    if !asked.keep {
        remove(&created.folder, &created.record)?;
    }
    Ok(ExitCode::from(code))
}

fn begin_or_remove(created: &Created) -> Result<()> {
    let begun = begin(&created.folder, &created.record, &created.spec);
    if begun.is_err() {
        kill_all(&created.record);
        let _ = wait::wait(wait::Target::PidFd(created.pidfd.as_fd()), wait::Reap::Yes);
        remove(&created.folder, &created.record)?;
    }
    begun
}

pub(super) fn kill(root: &Path, asked: &args::Kill) -> Result<()> {
    let word = asked.signal.trim_start_matches('-');
    if word == "0" {
        // The question whether it is there.
        let (_, record) = load(root, &asked.id)?;
        return match record.is_alive() || asked.all {
            true => Ok(()),
            false => refuse("container not running"),
        };
    }
    let signal: Signal = match word.parse() {
        Ok(signal) => signal,
        Err(_) => return refuse(format!("unknown signal {:?}", asked.signal)),
    };
    let (_, record) = load(root, &asked.id)?;
    // Where its pids are others', too, its end isn't the end of those it has started.
    if asked.all || (signal == Signal::KILL && record.shares_pids) {
        return signal_all(&record, signal, asked.all);
    }
    signal_process(&record, signal)
}

/// To the container's own process, which can't be taken for another one.
fn signal_process(record: &Record, signal: Signal) -> Result<()> {
    let stopped = || refuse("container not running");
    let process = match pidfd::open(record.pid) {
        Ok(process) => process,
        Err(_) => return stopped(),
    };
    if !record.is_alive() {
        return stopped();
    }
    match pidfd::send_signal(&process, signal) {
        Err(error) if error.is(Errno::SRCH.raw_os_error()) => stopped(),
        other => other.doing("kill"),
    }
}

/// To all that are in the container's group and below; `content` with there being none.
fn signal_all(record: &Record, signal: Signal, content: bool) -> Result<()> {
    let Some(group) = record.group() else {
        return signal_process(record, signal);
    };
    if !content && group.events().is_ok_and(|events| !events.populated) {
        return refuse("container not running");
    }
    if signal == Signal::KILL {
        return group.kill().doing("kill");
    }
    for pid in super::inspect::processes(&group) {
        if let Ok(process) = pidfd::open(pid) {
            // It may have ended meanwhile.
            let _ = pidfd::send_signal(&process, signal);
        }
    }
    Ok(())
}

/// By the group where there is one: a process that forks can't get away.
fn kill_all(record: &Record) {
    let by_group = record.group().is_some_and(|group| group.kill().is_ok());
    if !by_group || record.is_alive() {
        // It may have ended meanwhile.
        let _ = signal_process(record, Signal::KILL);
    }
}

pub(super) fn delete(root: &Path, id: &str, force: bool) -> Result<()> {
    check_id(id)?;
    let (folder, record) = match load(root, id) {
        Ok(found) => found,
        Err(_) if force => {
            // What a `create` that was cut short has left behind.
            let rest = root.join(id);
            if rest.exists() {
                std::fs::remove_dir_all(&rest).doing_on("remove", &rest)?;
            }
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    match record.status(&folder) {
        Status::Stopped => {}
        Status::Created => end(&record)?,
        _ if force => end(&record)?,
        status => {
            return refuse(format!(
                "cannot delete container {id} that is not stopped: {}",
                status.word()
            ));
        }
    }
    remove(&folder, &record)
}

/// Kills it and waits until it has ended.
fn end(record: &Record) -> Result<()> {
    let process = pidfd::open(record.pid);
    kill_all(record);
    let Ok(process) = process else { return Ok(()) };
    if record.is_alive() && !poll::wait(&process, Interest::Readable, Deadline::after(END))? {
        return refuse("the container's process doesn't end");
    }
    Ok(())
}

/// What is left of a container that has ended.
fn remove(folder: &Folder, record: &Record) -> Result<()> {
    let spec = folder.spec();
    if let Some(group) = record.group() {
        // Without a pid namespace of its own, others may have outlived its process.
        match group.kill_and_wait(END) {
            // systemd has taken it away meanwhile: nothing was left in it.
            Err(_) if !group.path().exists() => {}
            other => other.doing("kill what is left")?,
        }
        cgroup::remove(group.path(), record.unit.as_deref())?;
    } else if let Some(unit) = &record.unit {
        // systemd takes an empty scope's group away at once; the unit may be there as failed.
        cgroup::systemd::stop(unit)?;
    }
    folder.remove()?;
    if let Ok(spec) = spec {
        let state = record.show("stopped");
        let ran = hooks::run("poststop", &spec.hooks.poststop, &state);
        // The container is gone whatever they say (the specification's step 13).
        ran.unwrap_or_else(|error| log::warn(error.to_string()));
    }
    Ok(())
}

pub(super) fn freeze(root: &Path, id: &str, on: bool) -> Result<()> {
    let (folder, record) = load(root, id)?;
    let status = record.status(&folder);
    let Some(group) = record.group() else {
        return refuse("the container has no cgroup of its own, so it can't be paused");
    };
    match (on, status) {
        (true, Status::Running | Status::Created) => group.freeze(END).doing("pause"),
        (false, Status::Paused) => group.thaw(END).doing("resume"),
        (true, status) => refuse(format!("container not running: {}", status.word())),
        (false, _) => refuse("container not paused"),
    }
}
