// SPDX-License-Identifier: Apache-2.0
//! Volumes that are files and folders of the node: what must be there is looked at, and made where
//! the spec says so. An administrator has asked for it (`handle`).

use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use model::cell::{Access, Mount};
use model::error::Error;
use model::pod::volume::{Host, HostKind, VolumeMount};

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
    make(host).map_err(|e| wrong(format!("{} can't be made: {e}", host.path)))?;
    let found = std::fs::symlink_metadata(&host.path);
    let found = found.map_err(|e| wrong(format!("{}: {e}", host.path)))?;
    let (is, what) = match host.kind {
        HostKind::Any => (true, ""),
        HostKind::Folder | HostKind::FolderOrCreate => (found.is_dir(), "folder"),
        HostKind::File | HostKind::FileOrCreate => (found.is_file(), "regular file"),
        HostKind::Socket => (found.file_type().is_socket(), "socket"),
    };
    if !is {
        let problem = format!("{} is no {what} (mode {:o})", host.path, found.mode());
        return Err(wrong(problem));
    }
    let writes = host.owner_uid.is_some() && !mount.read_only;
    Ok(match writes {
        false => Mount {
            source,
            ..plain(Path::new(""), &mount.path, Access::Read)
        },
        true => Mount {
            source,
            owner_uid: host.owner_uid,
            owner_gid: host.owner_gid,
            // Whoever names uid 0 in a pod's volume is an administrator, and has named it.
            allow_root_owner: host.owner_uid == Some(0),
            ..plain(Path::new(""), &mount.path, Access::Write)
        },
    })
}

/// Makes what is to be made where nothing is, as the kubelet does: 0755, 0644, the node's root's.
fn make(host: &Host) -> io::Result<()> {
    match host.kind {
        HostKind::FolderOrCreate => {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o755).create(&host.path)
        }
        HostKind::FileOrCreate => {
            let mut options = std::fs::OpenOptions::new();
            match options
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(&host.path)
            {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                _ => Ok(()),
            }
        }
        HostKind::Any | HostKind::Folder | HostKind::File | HostKind::Socket => Ok(()),
    }
}
