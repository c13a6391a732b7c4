// SPDX-License-Identifier: Apache-2.0
//! Volumes that are files and folders of the node: what must be there is looked at, and made where
//! the spec says so. An administrator has asked for it (`admit`). A folder on the way may be one
//! that a workload writes: each step is one from an open folder, and no link is followed, as where
//! the mount opens its source. So nothing is made elsewhere than where the spec says.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use model::cell::{Access, Mount};
use model::error::Error;
use model::pod::volume::{Host, HostKind, VolumeMount};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::volumes::plain;

/// The mount of one; its path is looked at now.
///
/// # Errors
/// `INVALID_FIELD` where something else is there, or nothing.
pub(super) fn mount(host: &Host, mount: &VolumeMount) -> Result<Mount, Error> {
    let source = match mount.sub_path.as_str() {
        "" => host.path.clone(),
        sub_path => format!("{}/{sub_path}", host.path.trim_end_matches('/')),
    };
    let wrong = |problem: String| {
        Error::invalid("pod.spec.volumes.host.path", problem)
            .hint("name an existing file or folder of the node by its real path")
    };
    let found = look(host).map_err(|errno| wrong(format!("{}: {}", host.path, said(errno))))?;
    let kind = FileType::from_raw_mode(found.st_mode);
    let (is, what) = match host.kind {
        HostKind::Any => (true, ""),
        HostKind::Folder | HostKind::FolderOrCreate => (kind == FileType::Directory, "folder"),
        HostKind::File | HostKind::FileOrCreate => (kind == FileType::RegularFile, "regular file"),
        HostKind::Socket => (kind == FileType::Socket, "socket"),
    };
    if !is {
        let problem = format!("{} is no {what} (mode {:o})", host.path, found.st_mode);
        return Err(wrong(problem));
    }
    let propagation = mount.propagation;
    let writes = host.owner_uid.is_some() && !mount.read_only;
    Ok(match writes {
        false => Mount {
            source,
            propagation,
            ..plain(Path::new(""), &mount.path, Access::Read)
        },
        true => Mount {
            source,
            propagation,
            owner_uid: host.owner_uid,
            owner_gid: host.owner_gid,
            // A user that names uid 0 in a pod's volume is an administrator, and has named it.
            allow_root_owner: host.owner_uid == Some(0),
            ..plain(Path::new(""), &mount.path, Access::Write)
        },
    })
}

/// What is at the path. Where nothing is, it is made as the kubelet does it: 0755, 0644, the node's
/// root's.
fn look(host: &Host) -> rustix::io::Result<rustix::fs::Stat> {
    let parts: Vec<_> = host.path.split('/').filter(|it| !it.is_empty()).collect();
    let mut at = rustix::fs::open("/", FOUND, Mode::empty())?;
    if let Some((last, above)) = parts.split_last() {
        let makes_folders = host.kind == HostKind::FolderOrCreate;
        for part in above {
            at = step(&at, part, makes_folders)?;
        }
        if host.kind == HostKind::FileOrCreate {
            make_file(&at, last)?;
        }
        at = step(&at, last, makes_folders)?;
    }
    rustix::fs::fstat(&at)
}

const FOUND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// What has that name in an open folder; a folder is made where nothing has it and that is asked.
fn step(at: &OwnedFd, name: &str, makes: bool) -> rustix::io::Result<OwnedFd> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let open = || rustix::fs::openat2(at, name, FOUND, Mode::empty(), within);
    match open() {
        Err(Errno::NOENT) if makes => {
            match rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => open(),
                Err(errno) => Err(errno),
            }
        }
        found => found,
    }
}

/// Makes an empty file, unless something has that name: a link, too, is left as it is.
fn make_file(at: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::openat(at, name, new, Mode::from_raw_mode(0o644)) {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn said(errno: Errno) -> String {
    match errno {
        Errno::LOOP | Errno::XDEV => "leads over a symbolic link".to_owned(),
        errno => io::Error::from(errno).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &Path, kind: HostKind) -> Host {
        Host {
            path: path.display().to_string(),
            kind,
            ..Host::default()
        }
    }

    fn mounted(path: &Path, kind: HostKind) -> Result<Mount, Error> {
        mount(&at(path, kind), &VolumeMount::default())
    }

    #[test]
    fn what_is_made_is_made_where_the_spec_says_and_over_no_link() {
        let above = tempfile::tempdir().unwrap();
        let above = above.path().canonicalize().unwrap();
        let (own, other) = (above.join("own"), above.join("other"));
        for folder in [&own, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        // What a workload may put into a folder of its own.
        std::os::unix::fs::symlink(&other, own.join("way")).unwrap();
        std::os::unix::fs::symlink(other.join("file"), own.join("last")).unwrap();
        for (path, kind) in [
            ("way/folder", HostKind::FolderOrCreate),
            ("way/file", HostKind::FileOrCreate),
            ("last", HostKind::FileOrCreate),
            ("last", HostKind::FolderOrCreate),
            ("way", HostKind::Any),
        ] {
            let error = mounted(&own.join(path), kind).unwrap_err();
            assert!(error.message.contains("symbolic link"), "{path}: {error:?}");
        }
        assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
        // Without a link on the way it is made, and is found then.
        for _ in 0..2 {
            mounted(&own.join("a/b/c"), HostKind::FolderOrCreate).unwrap();
            mounted(&own.join("a/file"), HostKind::FileOrCreate).unwrap();
        }
        assert!(own.join("a/b/c").is_dir() && own.join("a/file").is_file());
        mounted(&own.join("a/file"), HostKind::Folder).unwrap_err();
        mounted(&own.join("none/file"), HostKind::FileOrCreate).unwrap_err();
        mounted(Path::new("/"), HostKind::Folder).unwrap();
    }
}
