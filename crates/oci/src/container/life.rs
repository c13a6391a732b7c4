// SPDX-License-Identifier: Apache-2.0
//! The life of a container's process from its clone to the exec of its program.
//!
//! It is a copy of the runtime in the container's new namespaces. The order is the specification's:
//! root, hooks, into the root, what belongs to the namespaces, then rights go, one after the other;
//! the filter of system calls as late as its rights allow. Then it waits for `start`, with nothing
//! open but its streams and the fifo. Any failure is said to the runtime, and the process ends.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use kernel::namespace::Namespaces;
use kernel::signal::{self, Signal};
use kernel::{fsutil, process, sched, seccomp};
use rustix::io::Errno;

use super::console::{Console, Socket};
use super::hooks;
use super::namespaces::Plan;
use super::program::{self, Program};
use super::state::Shown;
use super::talk::End;
use super::user::Prepared;
use crate::config::{Process, Spec};
use crate::error::{Doing, Error, Result, refuse};
use crate::log;
use crate::root::tree::{self, Tree};
use crate::root::{Built, Root};

/// All that the process needs.
pub(crate) struct Life<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) plan: &'a Plan,
    pub(crate) prepared: &'a Prepared,
    pub(crate) root: Option<Root>,
    pub(crate) end: End,
    pub(crate) console: Option<Socket>,
    /// Read from, to wait for `start`.
    pub(crate) fifo: OwnedFd,
    /// Descriptors from 3 on that the program gets, beside its streams.
    pub(crate) preserved: i32,
    pub(crate) new_keyring: bool,
    /// The runtime isn't root, and so enters only namespaces of processes that may be dumped.
    pub(crate) by_user: bool,
    /// The state that hooks get.
    pub(crate) state: Shown,
}

impl Life<'_> {
    /// Runs; comes back only with a failure, as an exit code.
    pub(crate) fn live(mut self) -> i32 {
        let ready = self.prepare().and_then(|program| {
            self.end.say_and_wait(b'r', &[])?;
            Ok(program)
        });
        let program = match ready {
            Ok(program) => program,
            Err(error) => {
                self.end.fail(&error);
                return 1;
            }
        };
        if self.by_user {
            // For an `exec` before `start`. By now the process has no more rights than its program
            // will have, and the runtime listens to nothing it says. Where a filter refuses the
            // call, such an `exec` fails.
            let _ = process::set_dumpable(true);
        }
        drop(self.end);
        // From here on the runtime doesn't listen: the error goes to the standard error.
        let error = finish(self.spec, &self.state, &program, self.fifo);
        let _ = writeln!(std::io::stderr(), "{error}");
        1
    }

    fn prepare(&mut self) -> Result<Program> {
        self.end.wait()?;
        log::debug("child process in init(): maps are written, the root comes next");
        // The maps are written: from here on no other process looks in, also not of a pid namespace
        // that is shared.
        process::set_dumpable(false)?;
        process::set_umask(0);
        if self.plan.has(Namespaces::USER) {
            become_root()?;
        }
        process::new_session().doing("setsid")?;
        if self.new_keyring {
            keyring()?;
        }
        all_cpus();
        let proc = tree::node_proc()?;
        if self.plan.new.has(Namespaces::NET) {
            kernel::netlink::bring_loopback_up().doing("bring lo up")?;
        }
        let tree = match self.root.take() {
            Some(root) => self.enter_root(root)?,
            None => {
                self.hooks_of_runtime()?;
                self.open_console(&own_root()?)?;
                own_root()?
            }
        };
        self.name()?;
        for (key, value) in &self.spec.linux.sysctl {
            let path = format!("sys/{}", kernel::sysctl::path(key));
            tree::write_proc(&proc, &path, value.as_bytes()).doing("linux.sysctl")?;
        }
        let keep = [self.fifo.as_fd(), self.end.as_fd()];
        become_user(
            self.prepared,
            tree,
            Some(proc),
            &self.end,
            &keep,
            self.preserved,
        )
    }

    fn enter_root(&mut self, root: Root) -> Result<Tree> {
        let (built, root): (Built, Root) = root.build(self.spec, self.plan, &self.end)?;
        self.hooks_of_runtime()?;
        self.open_console(&built.tree)?;
        let hooks = &self.spec.hooks.create_container;
        // Hooks of other runtimes' users expect to begin there.
        rustix::process::fchdir(&built.tree).doing("root.path")?;
        hooks::run("createContainer", hooks, &self.state)?;
        root.enter(&built, self.spec)?;
        built.tree.try_clone()
    }

    /// The runtime runs them, in its own namespaces.
    fn hooks_of_runtime(&self) -> Result<()> {
        let hooks = &self.spec.hooks;
        match hooks.prestart.is_empty() && hooks.create_runtime.is_empty() {
            true => Ok(()),
            false => self.end.say_and_wait(b'b', &[]),
        }
    }

    fn open_console(&mut self, root: &Tree) -> Result<()> {
        let Some(socket) = self.console.take() else {
            return Ok(());
        };
        let console = Console::open(root, &self.prepared.process)?;
        if self.plan.new.has(Namespaces::MOUNT) {
            console.show(root)?;
        }
        console.take(&socket)
    }

    fn name(&self) -> Result<()> {
        if !self.spec.hostname.is_empty() {
            rustix::system::sethostname(self.spec.hostname.as_bytes()).doing("hostname")?;
        }
        if !self.spec.domainname.is_empty() {
            rustix::system::setdomainname(self.spec.domainname.as_bytes()).doing("domainname")?;
        }
        Ok(())
    }
}

/// Root of the new user namespace, whose maps are written by now.
pub(super) fn become_root() -> Result<()> {
    process::set_gid(0).doing("become root of the user namespace")?;
    process::set_uid(0).doing("become root of the user namespace")
}

/// Every processor of the group: not those alone to which the runtime is bound. The kernel leaves
/// out what the group's cpuset hasn't got.
pub(super) fn all_cpus() {
    // 8,192 of them, as many as Linux can have.
    if let Err(error) = sched::set_affinity(&[0xff; 1024]) {
        log::warn(format!(
            "the process keeps the runtime's CPU affinity: {error}"
        ));
    }
}

/// A session keyring of the container's own.
pub(super) fn keyring() -> Result<()> {
    match process::new_session_keyring() {
        // A kernel without keyrings, or a filter around the runtime: there is nothing to reach.
        Err(error) if error.is(Errno::NOSYS.raw_os_error()) => Ok(()),
        other => other.doing("--no-new-keyring wasn't given, and no keyring can be had"),
    }
}

/// This process's root.
pub(super) fn own_root() -> Result<Tree> {
    Ok(Tree::new(fsutil::open_directory(Path::new("/"))?))
}

/// Gives up all rights that the process isn't to have, finds its program with what is left, and
/// closes all but `keep`, the streams and what is preserved. The filter may come before the rights
/// go: so what it could refuse is done before, as far as it can be.
pub(super) fn become_user(
    prepared: &Prepared,
    root: Tree,
    proc: Option<Tree>,
    end: &End,
    keep: &[BorrowedFd<'_>],
    preserved: i32,
) -> Result<Program> {
    prepared.before(proc.as_ref())?;
    drop(proc);
    let env = program::environment(&prepared.process, &root)?;
    let cwd = root.folder(Path::new(&prepared.process.cwd));
    let cwd = cwd.doing("process.cwd")?;
    drop(root);
    let entered = rustix::process::fchdir(&cwd);
    let keep: Vec<BorrowedFd<'_>> = keep.iter().copied().chain([cwd.as_fd()]).collect();
    process::close_from_but(3 + preserved, &keep)?;
    prepared.limit_descriptors()?;
    Prepared::reset_signals()?;
    // Who stops a container that was not started yet expects it to end.
    signal::exit_on(&[Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP])?;
    prepared.become_user(|| install(prepared, end))?;
    if entered.is_err() {
        // It may be the user's alone, on a file system that knows no other root.
        rustix::process::fchdir(&cwd).doing("process.cwd")?;
    }
    drop(cwd);
    check_inside()?;
    prepared.drop_capabilities()?;
    let program = Program::find(&prepared.process, &env)?;
    if prepared.process.no_new_privileges {
        install(prepared, end)?;
    }
    Ok(program)
}

/// A working directory outside of the root would lead out (runc's CVE-2024-21626).
fn check_inside() -> Result<()> {
    let path = rustix::process::getcwd(Vec::new()).doing("process.cwd")?;
    match path.as_bytes().first() {
        Some(b'/') => Ok(()),
        _ => refuse(
            "process.cwd: current working directory is outside of container mount namespace root",
        ),
    }
}

/// Installs the filter, if there is one; its listener goes to the runtime.
fn install(prepared: &Prepared, end: &End) -> Result<()> {
    let Some(filter) = &prepared.filter else {
        return Ok(());
    };
    let listener = seccomp::install_with(&filter.program, filter.options);
    match listener.doing("linux.seccomp")? {
        None => Ok(()),
        Some(listener) => end.say_and_wait(b'l', &[listener.as_fd()]),
    }
}

fn finish(spec: &Spec, state: &Shown, program: &Program, fifo: OwnedFd) -> Error {
    let go = || -> Result<()> {
        let mut byte = [0];
        let read = File::from(fifo).read(&mut byte).doing("wait for start")?;
        if read == 0 {
            return refuse("wait for start: the fifo was closed");
        }
        let hooks = &spec.hooks.start_container;
        hooks::run_with("startContainer", hooks, state, program.env())
    };
    match go() {
        Ok(()) => program.exec(),
        Err(error) => error,
    }
}

/// The variables of socket activation, for descriptors that are passed on: the program is told its
/// own pid, which is 1 in a pid namespace of its own.
pub(crate) fn activation(process: &mut Process, count: i32) {
    process.env.push(format!("LISTEN_FDS={count}"));
    process.env.push("LISTEN_PID=1".to_owned());
}

impl std::fmt::Debug for Life<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Life")
            .field("id", &self.state.id)
            .field("fifo", &self.fifo.as_raw_fd())
            .finish_non_exhaustive()
    }
}
