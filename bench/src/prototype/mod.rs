// SPDX-License-Identifier: Apache-2.0
//! What the kernel alone takes for as much as a cell is: an init and its program, a group for the
//! cell and one for its program, which account memory, seven namespaces and mounts of its own, with
//! no daemon, no record and no log. The inits are in a group of their own, as a node's are.
//!
//! The bound of rows `memory` and `cell`: a cell of ours can't take less. Of row `run` it is
//! [`standing`]. The reference process makes them.

mod standing;

pub(crate) use standing::Standing;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kernel::cgroup::Cgroup;
use kernel::clone::{Cloned, Options, clone};
use kernel::exec::Prepared;
use kernel::mount::{self, Attributes};
use kernel::namespace::{self, Namespaces};
use kernel::process;
use kernel::wait::{Reap, Target, wait};
use rustix::pipe::PipeFlags;

use crate::reference::PROGRAM;

/// What a node hands on to the groups of its cells.
const CONTROLLERS: [&str; 4] = ["cpu", "io", "memory", "pids"];

/// Those of the init. Not the cgroup namespace: where the hierarchy is mounted with `nsdelegate`, a
/// process in one can't clone into a group outside of it. The program unshares its own.
const OF_INIT: Namespaces = Namespaces::ALL.without(Namespaces::CGROUP);

/// Until the kernel has let go of a group's last process.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a cell's program is, where it stands and where it ends at once.
const STANDS: [&str; 3] = ["busybox", "sleep", "1000000"];
const ENDS: [&str; 2] = ["busybox", "true"];

/// A group for many of them, which hands its controllers on.
pub(crate) fn place(within: &Cgroup, name: &str) -> Result<Cgroup> {
    hand_on(within)?;
    hands_on(within, name)
}

/// Stands until its group is killed: the init's pidfd.
pub(crate) fn begin(place: &Cgroup, name: &str) -> Result<OwnedFd> {
    make(place, name, &STANDS)
}

/// A cell whose program ends at once, until its groups are gone.
pub(crate) fn cell(place: &Cgroup) -> Result<()> {
    let init = make(place, "ends", &ENDS)?;
    wait(Target::PidFd(init.as_fd()), Reap::Yes)?;
    place.remove("ends", TIMEOUT)?;
    Ok(())
}

fn make(place: &Cgroup, name: &str, words: &[&str]) -> Result<OwnedFd> {
    let leaf = hands_on(place, name)?.create("one")?.into_fd();
    let (told, tell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    match clone_init(place)? {
        Cloned::Child => {
            drop(told);
            end(be_init(&leaf, tell, words))
        }
        Cloned::Parent(_, pidfd) => {
            drop(tell);
            ensure!(
                rustix::io::read(&told, &mut [0; 1])? == 1,
                "the prototype's init failed (see above)"
            );
            Ok(pidfd)
        }
    }
}

/// An init in the group of all inits, with namespaces of its own.
fn clone_init(place: &Cgroup) -> Result<Cloned> {
    let inits = place.ensure("inits")?.into_fd();
    let options = Options {
        namespaces: OF_INIT,
        cgroup: Some(inits.as_fd()),
        ..Options::default()
    };
    Ok(clone(options)?)
}

/// Ends this process, which is a prototype's init.
fn end(outcome: Result<()>) -> ! {
    let code = match outcome {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("prototype: {error:#}");
            1
        }
    };
    process::exit(code)
}

fn hands_on(within: &Cgroup, name: &str) -> Result<Cgroup> {
    let group = within.ensure(name)?;
    hand_on(&group)?;
    Ok(group)
}

/// Those of [`CONTROLLERS`] that the group has got.
fn hand_on(group: &Cgroup) -> Result<()> {
    let there = group.controllers()?;
    let wanted: Vec<&String> = there
        .iter()
        .filter(|one| CONTROLLERS.contains(&one.as_str()))
        .collect();
    group.enable(&wanted)?;
    Ok(())
}

/// Mounts what is the cell's own, starts its program, and waits for that.
fn be_init(leaf: &OwnedFd, tell: OwnedFd, words: &[&str]) -> Result<()> {
    let quiet = Attributes::NO_SUID | Attributes::NO_DEV | Attributes::NO_EXEC;
    // On folders that every node has; the program looks into none of them.
    let mounts = [
        (mount::proc(quiet)?, "/proc"),
        (mount::sysfs(quiet | Attributes::READ_ONLY)?, "/sys"),
        (mount::mqueue(quiet)?, "/dev"),
        (mount::tmpfs(0, 0o1777, quiet)?, "/tmp"),
    ];
    for (mounted, target) in &mounts {
        mount::attach(mounted, Path::new(target))?;
    }
    drop(mounts);
    let environment: [&str; 0] = [];
    let program = Prepared::new(words, &environment)?;
    let path = std::ffi::CString::new(PROGRAM)?;
    let options = Options {
        cgroup: Some(leaf.as_fd()),
        ..Options::default()
    };
    match clone(options)? {
        Cloned::Child => {
            if let Err(error) = namespace::unshare(Namespaces::CGROUP) {
                eprintln!("prototype: {error:#}");
                process::exit(127)
            }
            let failed = program.exec(&path).err();
            eprintln!("prototype: {failed:?}");
            process::exit(127)
        }
        Cloned::Parent(_, pidfd) => {
            rustix::io::write(&tell, &[1])?;
            drop(tell);
            wait(Target::PidFd(pidfd.as_fd()), Reap::Yes).context("the prototype's program")?;
            Ok(())
        }
    }
}
