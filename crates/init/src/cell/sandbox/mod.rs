// SPDX-License-Identifier: Apache-2.0
//! What a program is kept from ([`Sandbox`]), carried out by the child that is about to be it
//! ([`super::launch`]). Nothing is made outside of the child's own namespaces, so nothing is left
//! behind where it ends in between: a namespace ends with its last process.
//!
//! In the order of systemd's manager: network, security label, memory, mounts, host name; then,
//! with the user, the user namespace; the filters last of all.

mod devices;
mod mounts;
mod places;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use kernel::clone::{self, Cloned};
use kernel::namespace::{self, Namespaces as Kinds};
use kernel::wait::{self, ExitStatus, Reap, Target};
use kernel::{Context, process, sched, seccomp};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::launch::path_of;
use crate::failure::InStep;
use crate::protocol::sandbox::{Label, Sandbox};
use crate::protocol::{Failure, Step};

/// What is kept for the later steps.
pub(super) struct Inside {
    /// This process's folder of `/proc`, as it was before the mounts.
    own: OwnedFd,
}

/// Goes into the namespaces, all but the user's.
pub(super) fn enter(sandbox: &Sandbox) -> Result<Inside, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = rustix::fs::open("/proc/self", flags, Mode::empty()).call("open /proc/self");
    let own = own.step(Step::Sandbox)?;
    if let Some(file) = &sandbox.network {
        join(file, Kinds::NET).step(Step::SandboxNetwork)?;
    }
    if let Some(file) = &sandbox.ipc {
        join(file, Kinds::IPC).step(Step::Sandbox)?;
    }
    if let Some(label) = &sandbox.label {
        set_label(&own, label)?;
    }
    if let Some(policy) = &sandbox.memory {
        let set = sched::set_memory_policy(policy.mode.into(), &policy.nodes);
        set.step(Step::SandboxMemory)?;
    }
    if let Some(wanted) = &sandbox.mounts {
        mounts::build(wanted)?;
    }
    if sandbox.hostname {
        namespace::unshare(Kinds::UTS).step(Step::Sandbox)?;
    }
    Ok(Inside { own })
}

fn join(file: &[u8], kind: Kinds) -> kernel::Result<()> {
    let path = path_of(file);
    let open = namespace::open(path)?;
    namespace::join(open, kind).map_err(|error| error.on(path))
}

/// Has the next program begin with a label. It is written now: later this process is another user,
/// whom the kernel wouldn't let.
fn set_label(own: &OwnedFd, label: &Label) -> Result<(), Failure> {
    let path = Path::new("attr").join(&label.file);
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let write = || {
        let file = rustix::fs::openat(own, &path, flags, Mode::empty())?;
        rustix::io::write(file, label.text.as_bytes())
    };
    match write() {
        Ok(_) => Ok(()),
        Err(_) if label.optional => Ok(()),
        Err(errno) => {
            let detail = format!("{} by {}", label.text, path.display());
            Err(Failure::new(
                Step::SandboxLabel,
                errno.raw_os_error(),
                detail,
            ))
        }
    }
}

impl Inside {
    /// Goes into a user namespace in which root and these two are themselves. It has the groups
    /// already that it is to have.
    ///
    /// Its map has two lines, which only a process outside of it may write: a clone does.
    pub(super) fn own_users(&self, uid: u32, gid: u32) -> Result<(), Failure> {
        let step = Step::SandboxUsers;
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let (wait_for, tell) = rustix::pipe::pipe_with(flags).call("pipe2").step(step)?;
        match clone::clone(clone::Options::default()).step(step)? {
            Cloned::Child => {
                drop(tell);
                let told = rustix::io::read(&wait_for, &mut [0; 1]);
                let done = told == Ok(1) && self.write_maps(uid, gid).is_ok();
                process::exit(if done { 0 } else { 1 });
            }
            Cloned::Parent(_, helper) => {
                drop(wait_for);
                let made = namespace::unshare(Kinds::USER);
                if made.is_ok() {
                    let _ = rustix::io::write(&tell, b"1");
                }
                drop(tell);
                let ended = wait::wait(Target::PidFd(helper.as_fd()), Reap::Yes);
                made.step(step)?;
                match ended.step(step)?.status {
                    ExitStatus::Code(0) => Ok(()),
                    _ => Err(Failure::new(
                        step,
                        Errno::PERM.raw_os_error(),
                        "the map of its user namespace can't be written",
                    )),
                }
            }
        }
    }

    fn write_maps(&self, uid: u32, gid: u32) -> rustix::io::Result<()> {
        let write = |name: &str, id: u32| {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&self.own, name, flags, Mode::empty())?;
            let mut text = String::from("0 0 1\n");
            if id != 0 {
                text.push_str(&format!("{id} {id} 1\n"));
            }
            rustix::io::write(file, text.as_bytes()).map(drop)
        };
        write("uid_map", uid)?;
        write("gid_map", gid)
    }
}

/// The last step before the program: its filters.
pub(super) fn filter(sandbox: &Sandbox) -> Result<(), Failure> {
    let mut all = sandbox.filters.iter();
    all.try_for_each(|filter| seccomp::install(filter, false).step(Step::SandboxFilter))
}
