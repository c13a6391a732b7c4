// SPDX-License-Identifier: Apache-2.0
//! `exec`: one more process in a container's namespaces and group, with the rights that the
//! configuration gives, not with those of the runtime.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use kernel::cgroup::{Cgroup, find};
use kernel::namespace::Namespaces;
use kernel::{process, sched};

use super::console::{Console, Socket};
use super::create::hand_over;
use super::life;
use super::namespaces::Plan;
use super::program::Program;
use super::state::Record;
use super::talk::{self, End, Said};
use super::user::Prepared;
use crate::config::Spec;
use crate::error::{Doing, Result, refuse};
use crate::log;
use crate::root::tree::{self, Tree};

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) record: &'a Record,
    pub(crate) spec: &'a Spec,
    pub(crate) prepared: &'a Prepared,
    /// A group below the container's.
    pub(crate) group: Option<&'a Path>,
    pub(crate) console: Option<Socket>,
    pub(crate) preserved: i32,
    pub(crate) no_new_keyring: bool,
}

/// Starts the process; answers when it has become its program.
pub(crate) fn start(request: &Request<'_>) -> Result<(i32, OwnedFd)> {
    let plan = Plan::of_process(request.record.pid)?;
    let group = group(request)?;
    // A descriptor of the node within the container's reach is one too many: so only where it is
    // needed.
    let proc = request
        .prepared
        .is_labelled()
        .then(tree::node_proc)
        .transpose()?;
    let (ours, theirs) = talk::pair()?;
    let (pid, pidfd) = plan.clone(group.as_ref(), || match process::close_copy(ours.as_fd()) {
        Ok(()) => live(request, &plan, proc.as_ref(), &theirs),
        Err(_) => 1,
    })?;
    drop(theirs);
    request.prepared.limit(pid)?;
    ours.go();
    let mut ready = false;
    loop {
        match ours.hear()? {
            Said::Ready | Said::Built => {
                log::debug("setns_init: about to exec");
                ready = true;
                ours.go();
            }
            // The exec has closed its end.
            Said::Gone if ready => return Ok((pid, pidfd)),
            Said::Gone => return refuse("the process has ended before it was ready"),
            Said::Map(..) => return refuse("a process that has no mounts wants one mapped"),
            Said::Failed(error) => return Err(error.while_doing("exec failed")),
            Said::Listener(listener) => {
                hand_over(request.spec, &listener, request.record)?;
                ours.go();
            }
        }
    }
}

/// The container's group, or the one that was asked for. A group that hands on controllers takes no
/// process: then it is the one where the container's own process is by now.
fn group(request: &Request<'_>) -> Result<Option<Cgroup>> {
    if request.record.cgroup.is_none() {
        return Ok(None);
    }
    let own = request.record.group();
    if let (Some(below), Some(group)) = (request.group, &own) {
        let below = below.strip_prefix("/").unwrap_or(below);
        let plain = |part| matches!(part, std::path::Component::Normal(_));
        if !below.components().all(plain) {
            return refuse(format!(
                "--cgroup: bad sub cgroup path: {}",
                below.display()
            ));
        }
        return match below.as_os_str().is_empty() {
            true => Ok(own),
            false => Ok(Some(group.descendant(below).doing("--cgroup")?)),
        };
    }
    match own {
        Some(group) if group.enabled()?.is_empty() => Ok(Some(group)),
        _ => Ok(Some(Cgroup::open(&find::path_of_process(
            request.record.pid,
        )?)?)),
    }
}

/// The process's life, in the container's namespaces.
fn live(request: &Request<'_>, plan: &Plan, proc: Option<&Tree>, end: &End) -> i32 {
    let error = match prepare(request, plan, proc, end) {
        Ok(program) => match end.say_and_wait(b'r', &[]) {
            Ok(()) => program.exec(),
            Err(error) => error,
        },
        Err(error) => error,
    };
    end.fail(&error);
    1
}

fn prepare(request: &Request<'_>, plan: &Plan, proc: Option<&Tree>, end: &End) -> Result<Program> {
    // Before anything of the container is touched: its root may trace what is dumpable.
    process::set_dumpable(false)?;
    end.wait()?;
    log::debug("child process in init(): it has joined the container's namespaces");
    if plan.joins(Namespaces::USER) {
        life::become_root()?;
    }
    process::new_session().doing("setsid")?;
    if !request.no_new_keyring {
        life::keyring()?;
    }
    affinity(request)?;
    let root = life::own_root()?;
    if let Some(socket) = &request.console {
        Console::open(&root, &request.prepared.process)?.take(socket)?;
    }
    let keep = [end.as_fd()];
    life::become_user(
        request.prepared,
        root,
        proc.map(Tree::try_clone).transpose()?,
        end,
        &keep,
        request.preserved,
    )
}

fn affinity(request: &Request<'_>) -> Result<()> {
    let Some(affinity) = &request.prepared.process.exec_cpu_affinity else {
        life::all_cpus();
        return Ok(());
    };
    for list in [&affinity.initial, &affinity.last] {
        if list.is_empty() {
            continue;
        }
        let Some(cpus) = sched::parse_cpu_list(list) else {
            return refuse(format!(
                "process.execCPUAffinity: {list:?} is no list of CPUs"
            ));
        };
        let mask = sched::affinity_mask(&cpus);
        sched::set_affinity(&mask).doing("process.execCPUAffinity")?;
        let digits: String = mask
            .iter()
            .rev()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        log::debug(format!(
            "nsexec: affinity: 0x{}",
            digits.trim_start_matches('0')
        ));
    }
    Ok(())
}
