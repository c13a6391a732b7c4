// SPDX-License-Identifier: Apache-2.0
//! `auraed hook`: takes a hook to where it is to run, and becomes it. Started by the daemon
//! ([`super`]) for one hook.
//!
//! The container's root is attached in a mount namespace of the hook's own, which is a copy of the
//! node's: what the hook writes there is in the container, and what it mounts is its own. That
//! namespace is the node's also where the hook is the container's root: it mounts nothing in it.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;
use kernel::mount::{self, Propagation};
use kernel::namespace::{self, Namespaces};
use kernel::process;

/// What the daemon says of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The daemon's process id
    #[arg(long, value_name = "PID")]
    parent: i32,
    /// The container's mount namespace
    #[arg(long, value_name = "FILE", requires = "root")]
    mounts: Option<PathBuf>,
    /// Where its root is attached
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// A network namespace to run in
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
    /// An IPC namespace to run in
    #[arg(long, value_name = "FILE")]
    ipc: Option<PathBuf>,
    /// A UTS namespace to run in
    #[arg(long, value_name = "FILE")]
    uts: Option<PathBuf>,
    /// A cgroup namespace to run in
    #[arg(long, value_name = "FILE")]
    cgroup: Option<PathBuf>,
    /// A user namespace, whose root it becomes
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// The cgroup to run it in
    #[arg(long, value_name = "DIR")]
    group: Option<PathBuf>,
    /// The hook
    program: PathBuf,
    /// Its arguments, with its name first
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Comes back where the hook can't be started.
pub(crate) fn run(options: &Options) -> ExitCode {
    let error = match settle(options) {
        Ok(()) => {
            let mut command = Command::new(&options.program);
            if let [name, rest @ ..] = options.words.as_slice() {
                command.arg0(name).args(rest);
            }
            anyhow::Error::from(command.exec())
        }
        Err(error) => error,
    };
    eprintln!("{}: {error:#}", options.program.display());
    ExitCode::FAILURE
}

fn settle(options: &Options) -> anyhow::Result<()> {
    crate::plugin::settle(options.parent, options.group.as_deref())?;
    // Opened before any is entered: behind that there is another proc.
    let spaces = [
        (&options.network, Namespaces::NET),
        (&options.ipc, Namespaces::IPC),
        (&options.uts, Namespaces::UTS),
        (&options.cgroup, Namespaces::CGROUP),
        // Last: who has entered it has no right to the others.
        (&options.users, Namespaces::USER),
    ];
    let open = |(path, kind): &(&Option<PathBuf>, Namespaces)| {
        let path = path.as_ref()?;
        let kind = *kind;
        Some(opened(path).map(|space| (space, kind)))
    };
    let spaces: Vec<_> = spaces
        .iter()
        .filter_map(open)
        .collect::<anyhow::Result<_>>()?;
    if let (Some(mounts), Some(root)) = (&options.mounts, &options.root) {
        show_root(mounts, root)?;
    }
    for (space, kind) in spaces {
        namespace::join(space, kind).context("a namespace of the container")?;
    }
    if options.users.is_some() {
        process::set_groups(&[])?;
        process::set_gid(0)?;
        process::set_uid(0).context("becoming the container's root")?;
        // Another user has lost it.
        crate::plugin::end_with(options.parent)?;
    }
    Ok(())
}

fn opened(path: &Path) -> anyhow::Result<OwnedFd> {
    namespace::open(path).with_context(|| format!("{}: no namespace", path.display()))
}

/// Attaches the root of that mount namespace, in one of this process's own.
fn show_root(mounts: &Path, root: &Path) -> anyhow::Result<()> {
    let theirs = opened(mounts)?;
    let ours = opened(Path::new("/proc/self/ns/mnt"))?;
    let here = Path::new("/");
    namespace::join(theirs, Namespaces::MOUNT).context("the container's mounts")?;
    let tree = mount::copy_tree(here, true).context("the container's root")?;
    namespace::join(ours, Namespaces::MOUNT)?;
    namespace::unshare(Namespaces::MOUNT)?;
    mount::set_propagation(here, Propagation::Private, true)?;
    mount::attach(tree, root).context("the container's root in its bundle")?;
    std::env::set_current_dir(here).context("/")
}
