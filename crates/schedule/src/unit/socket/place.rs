// SPDX-License-Identifier: Apache-2.0
//! The files of socket units: folders above them, FIFOs, owners and modes, links, and their
//! removal. Others may own a folder on the way: nothing but a socket, a FIFO or a link is ever
//! removed, and rights are given to what was made here, by its descriptor.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, mknodat, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::rules::Rules;
use super::taken;
use crate::unit::accounts;

/// Makes the folders above a path, where they aren't there.
pub(crate) fn parents(path: &str, mode: u32) -> Result<(), String> {
    let Some(parent) = Path::new(path).parent() else {
        return Ok(());
    };
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(parent);
    made.map_err(|error| format!("the folder {}: {error}", parent.display()))
}

/// As fchown(2) takes it.
type Owner = (Option<Uid>, Option<Gid>);

/// Whom the files of a unit belong to; `None`: to whom they belong anyway.
fn owner(rules: &Rules) -> Result<Option<Owner>, String> {
    if rules.user.is_none() && rules.group.is_none() {
        return Ok(None);
    }
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let mut owner = (None, None);
    if let Some(name) = &rules.user {
        let user = accounts::user(&read("/etc/passwd"), name);
        let user = user.ok_or_else(|| format!("SocketUser={name}: there is no such user"))?;
        owner = (Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)));
    }
    if let Some(name) = &rules.group {
        let group = accounts::group(&read("/etc/group"), name);
        let group = group.ok_or_else(|| format!("SocketGroup={name}: there is no such group"))?;
        owner.1 = Some(Gid::from_raw(group));
    }
    Ok(Some(owner))
}

/// Gives a file that was just made its mode and owner. Who owns its folder may have put something
/// else there meanwhile: that is looked at, and refused.
pub(crate) fn give(rules: &Rules, path: &str) -> Result<(), String> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let told = |errno: Errno| format!("its rights: {errno}");
    let file = openat(CWD, path, flags, Mode::empty()).map_err(told)?;
    let status = rustix::fs::fstat(&file).map_err(told)?;
    let kind = FileType::from_raw_mode(status.st_mode);
    let own = status.st_uid == rustix::process::geteuid().as_raw();
    if !matches!(kind, FileType::Socket | FileType::Fifo) || !own {
        return Err("something else was put in its place".to_owned());
    }
    let by = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    rustix::fs::chmod(&by, Mode::from_raw_mode(rules.mode)).map_err(told)?;
    if let Some((user, group)) = owner(rules)? {
        rustix::fs::chownat(CWD, &by, user, group, AtFlags::empty()).map_err(told)?;
    }
    Ok(())
}

/// A FIFO, made where it isn't there.
pub(crate) fn fifo(rules: &Rules, path: &str) -> Result<OwnedFd, String> {
    parents(path, rules.directory_mode)?;
    let mode = Mode::from_raw_mode(rules.mode);
    let made = match mknodat(CWD, path, FileType::Fifo, mode, 0) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(format!("mkfifo: {error}")),
    };
    let flags =
        OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let fd = openat(CWD, path, flags, Mode::empty()).map_err(|it| format!("open: {it}"))?;
    let status = rustix::fs::fstat(&fd).map_err(|it| it.to_string())?;
    if FileType::from_raw_mode(status.st_mode) != FileType::Fifo {
        return Err("it is there, and is no FIFO".to_owned());
    }
    match made {
        true => give(rules, path)?,
        // systemd.socket(5): one that is there must be as it would be made.
        false if status.st_mode & 0o777 != rules.mode & 0o777 => {
            let has = status.st_mode & 0o777;
            return Err(format!("the FIFO is there, with the mode {has:04o}"));
        }
        false => {}
    }
    Ok(fd)
}

/// Removes what is in the way of a socket: one that no process listens on any more, or a link.
pub(crate) fn make_way(path: &str, kind: SocketType) -> Result<(), String> {
    let there = fs::symlink_metadata(path).map_err(|it| it.to_string())?;
    let file_type = there.file_type();
    if !file_type.is_symlink() && !file_type.is_socket() {
        return Err("something is there that is no socket; it is left alone".to_owned());
    }
    if file_type.is_socket()
        && let Some(who) = listens(path, kind)
    {
        return Err(taken::words(who));
    }
    fs::remove_file(path).map_err(|it| format!("what was there can't be removed: {it}"))
}

/// Whether a process listens at a path, and which one where that can be told.
fn listens(path: &str, kind: SocketType) -> Option<Option<String>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None).ok()?;
    match connect(&socket, &SocketAddrUnix::new(path).ok()?) {
        Ok(()) => Some(taken::peer(&socket)),
        // A full queue, or a socket of another kind: a process is there.
        Err(Errno::AGAIN | Errno::PROTOTYPE) => Some(None),
        Err(_) => None,
    }
}

/// Makes the links of `Symlinks=`. What is in the way stays, and is told, but where `FreeBind=`
/// says that it goes.
pub(crate) fn link(rules: &Rules, unit: &str) {
    let Some(target) = rules.only_path() else {
        return;
    };
    for link in &rules.symlinks {
        let made = parents(link, 0o755).and_then(|()| link_one(target, link, rules.free_bind));
        if let Err(error) = made {
            tracing::warn!(unit, link, error, "a link to a socket is not made");
        }
    }
}

fn link_one(target: &str, link: &str, removes: bool) -> Result<(), String> {
    match std::os::unix::fs::symlink(target, link) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if fs::read_link(link).is_ok_and(|to| to == Path::new(target)) {
                return Ok(());
            }
            if !removes {
                return Err("something else is there".to_owned());
            }
            fs::remove_file(link).map_err(|it| it.to_string())?;
            std::os::unix::fs::symlink(target, link).map_err(|it| it.to_string())
        }
        made => made.map_err(|it| it.to_string()),
    }
}

/// Removes the files of a unit, and links to them (`RemoveOnStop=`).
pub(crate) fn remove(rules: &Rules, unit: &str) {
    for wanted in &rules.listens {
        let gone = match (wanted.directive, &wanted.address) {
            ("ListenSpecial", _) => continue,
            ("ListenMessageQueue", units::value::Address::Path(path)) => {
                kernel::socket::remove_message_queue(path).map_err(|it| it.to_string())
            }
            (_, units::value::Address::Path(path)) => remove_one(path),
            _ => continue,
        };
        if let Err(error) = gone {
            tracing::warn!(
                unit,
                what = wanted.shown(),
                error,
                "a file of a socket unit stays"
            );
        }
    }
    for link in &rules.symlinks {
        if fs::symlink_metadata(link).is_ok_and(|it| it.is_symlink()) {
            let _ = fs::remove_file(link);
        }
    }
}

fn remove_one(path: &str) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(meta) if !meta.file_type().is_socket() && !meta.file_type().is_fifo() => {
            Err("it is no socket and no FIFO".to_owned())
        }
        _ => fs::remove_file(path).map_err(|it| it.to_string()),
    }
}
