// SPDX-License-Identifier: Apache-2.0
//! `auraed unpack`: unpacks one layer of an image, in a process that has nothing of the node but
//! the layer's folder and its stream. The daemon starts it (`images`); what it does is
//! `image::unpack`'s, which confines itself to the folder. Here comes what the library can't do:
//! the tenant's cgroup, the namespaces, the filter of system calls.
//!
//! It keeps `CAP_SYS_ADMIN`, without which overlayfs' marks can't be written. The filter takes away
//! what else that would be good for.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use kernel::cgroup::Cgroup;
use kernel::namespace::{self, Namespaces};
use kernel::process;
use kernel::seccomp::{self, Action, Arch, Profile, groups};
use kernel::signal::Signal;

/// What a refused call answers.
const EPERM: u16 = 1;

/// Calls and groups of calls that unpacking doesn't need, and that lead out of a folder, start
/// something, or reach the kernel by other ways than files.
const REFUSED: &[&str] = &[
    "@clock",
    "@debug",
    "@module",
    "@mount",
    "@network-io",
    "@obsolete",
    "@raw-io",
    "@reboot",
    "@swap",
    "bpf",
    "clone",
    "clone3",
    "execve",
    "execveat",
    "fanotify_init",
    "fork",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kill",
    "memfd_create",
    "name_to_handle_at",
    "open_by_handle_at",
    "perf_event_open",
    "pidfd_getfd",
    "pidfd_open",
    "pidfd_send_signal",
    "process_vm_readv",
    "process_vm_writev",
    "setdomainname",
    "sethostname",
    "setns",
    "tgkill",
    "tkill",
    "unshare",
    "userfaultfd",
    "vfork",
];

/// Unpacks standard input into the current folder.
pub(crate) fn run(parent: i32, group: &Path, options: &str) -> ExitCode {
    match confine(parent, group) {
        Ok(()) => image::unpack::command(options),
        Err(error) => image::unpack::refused(&format!("{error:#}")),
    }
}

fn confine(parent: i32, group: &Path) -> anyhow::Result<()> {
    process::set_parent_death_signal(Some(Signal::KILL))?;
    // It may have died before that.
    ensure!(process::parent_id() == parent, "the daemon is gone");
    Cgroup::open(group)
        .and_then(|group| group.enter())
        .context("the tenant's group can't be entered")?;
    process::set_dumpable(false)?;
    process::set_no_new_privileges()?;
    namespace::unshare(Namespaces::NET | Namespaces::IPC | Namespaces::UTS)?;
    seccomp::install(&filter()?, false)?;
    Ok(())
}

fn filter() -> anyhow::Result<Vec<u8>> {
    let mut calls: Vec<&str> = Vec::new();
    for name in REFUSED {
        match name.starts_with('@') {
            true => calls.extend(groups::calls(name).with_context(|| format!("no group {name}"))?),
            false => calls.push(name),
        }
    }
    // The library changes its root.
    calls.retain(|name| *name != "chroot" && Arch::NATIVE.number(name).is_some());
    let profile = Profile::deny_list(calls, Action::Errno(EPERM));
    Ok(profile.compile(Arch::NATIVE)?.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refused_call_is_known() {
        assert!(!filter().unwrap().is_empty());
        let known = |name: &&str| match name.starts_with('@') {
            true => groups::calls(name).is_some(),
            false => Arch::NATIVE.number(name).is_some(),
        };
        let unknown: Vec<_> = REFUSED.iter().filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
