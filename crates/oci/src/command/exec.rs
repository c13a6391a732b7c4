// SPDX-License-Identifier: Apache-2.0
//! `exec`: the flags, as a process of the configuration.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use kernel::seqpacket;

use super::load;
use crate::args;
use crate::config::{Capabilities, Process, Spec};
use crate::container::create::{preserved, write_pid};
use crate::container::exec::{self, Request};
use crate::container::foreground::{self, Foreground};
use crate::container::state::Status;
use crate::container::user::Prepared;
use crate::container::{console, seccomp};
use crate::error::{Doing, Result, refuse};

pub(super) fn run(root: &Path, asked: &args::Exec) -> Result<ExitCode> {
    let Some((id, command)) = asked.words.split_first() else {
        return refuse("exec: no container was named");
    };
    let (folder, record) = load(root, id)?;
    match record.status(&folder) {
        Status::Stopped => return refuse("cannot exec in a stopped container"),
        Status::Paused if !asked.ignore_paused => {
            return refuse("cannot exec in a paused container (use --ignore-paused to override)");
        }
        _ => {}
    }
    let spec = folder.spec()?;
    let process = process(asked, command, &spec)?;
    let terminal = process.terminal;
    let filter = spec.linux.seccomp.as_ref().map(seccomp::compile);
    let prepared = Prepared::of(&process, filter.transpose()?, &spec.linux)?;
    let preserved = preserved(asked.preserve_fds.into())?;
    if !asked.detach && !asked.no_subreaper {
        foreground::adopt()?;
    }
    let standing =
        (!asked.detach).then(|| Foreground::begin(terminal && asked.console_socket.is_none()));
    let standing = standing.transpose()?;
    let console = match (terminal, &asked.console_socket, &standing) {
        (true, Some(path), _) => Some(console::connect(path)?),
        (true, None, Some(standing)) => standing.console()?,
        (true, None, None) => {
            return refuse(
                "cannot allocate tty if runc will detach without setting console socket \
                 (a terminal needs --console-socket)",
            );
        }
        (false, Some(_), _) => {
            return refuse("cannot use console socket if runc will not detach or allocate tty");
        }
        (false, None, _) => None,
    };
    let request = Request {
        record: &record,
        spec: &spec,
        prepared: &prepared,
        group: group(asked)?,
        console,
        preserved,
        no_new_keyring: false,
    };
    let (pid, pidfd) = exec::start(&request)?;
    if let Some(path) = &asked.pidfd_socket {
        let socket = console::connect(path).doing("--pidfd-socket")?;
        seqpacket::send(&socket.stream, b"pidfd", &[pidfd.as_fd()]).doing("--pidfd-socket")?;
    }
    if let Some(path) = &asked.pid_file {
        write_pid(path, pid)?;
    }
    match standing {
        None => Ok(ExitCode::SUCCESS),
        Some(standing) => Ok(ExitCode::from(standing.stand_by(&pidfd)?)),
    }
}

/// `PATH`, or `CONTROLLER:PATH` of cgroup v1, which isn't.
fn group(asked: &args::Exec) -> Result<Option<&Path>> {
    match asked.cgroup.as_deref() {
        None => Ok(None),
        Some(word) if word.contains(':') => {
            refuse("--cgroup: cgroup v2 has one hierarchy, so no controllers are named")
        }
        Some(word) => Ok(Some(Path::new(word))),
    }
}

/// The process of the file, or the container's own changed by the flags.
fn process(asked: &args::Exec, command: &[String], spec: &Spec) -> Result<Process> {
    if let Some(path) = &asked.process {
        return Process::load(path);
    }
    let mut process = spec.process.clone().unwrap_or_default();
    if command.is_empty() {
        return refuse("exec: no command was given");
    }
    process.args = command.to_vec();
    process.env.extend(asked.env.iter().cloned());
    process.terminal = asked.tty;
    process.no_new_privileges |= asked.no_new_privs;
    if let Some(cwd) = &asked.cwd {
        process.cwd.clone_from(cwd);
    }
    if let Some(profile) = &asked.apparmor {
        process.apparmor_profile.clone_from(profile);
    }
    if let Some(label) = &asked.process_label {
        process.selinux_label.clone_from(label);
    }
    if !asked.cap.is_empty() {
        add(&asked.cap, process.capabilities.get_or_insert_default());
    }
    if let Some(user) = &asked.user {
        let (uid, gid) = match user.split_once(':') {
            Some((uid, gid)) => (uid.parse(), gid.parse().map(Some)),
            None => (user.parse(), Ok(None)),
        };
        let (Ok(uid), Ok(gid)) = (uid, gid) else {
            return refuse(format!("--user: {user:?} isn't UID or UID:GID"));
        };
        process.user.uid = uid;
        process.user.gid = gid.unwrap_or(process.user.gid);
    }
    process.user.additional_gids.extend(&asked.additional_gids);
    // A shell's `HOME` is its user's.
    if asked.user.is_some() {
        process
            .env
            .retain(|pair| !pair.starts_with("HOME=") || asked.env.contains(pair));
    }
    Ok(process)
}

/// To what the container's process has.
fn add(words: &[String], sets: &mut Capabilities) {
    // Programs of a container with inheritable ones may rely on being given them as ambient.
    let inherited = words.iter().filter(|word| sets.inheritable.contains(word));
    sets.ambient.extend(inherited.cloned().collect::<Vec<_>>());
    for set in [&mut sets.bounding, &mut sets.effective, &mut sets.permitted] {
        set.extend(words.iter().cloned());
    }
}
