// SPDX-License-Identifier: Apache-2.0
//! The mounts of a cell, prepared as detached mounts with the node's privileges. They come into the
//! cell by `staging`; its init copies them to their places.
//!
//! A source is opened without following any symbolic link: write access to a folder on the way
//! doesn't decide what is mounted. A read-only mount is a plain read-only bind: mode bits go on
//! meaning what they mean on the node. A writable mount maps one on-disk owner to the cell's root
//! and no other owner. A folder that the node has made for a cell has files of the cell's own ids,
//! and is mapped by nothing.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use init::protocol::MountTarget;
use kernel::fsutil::{self, OpenFlags, Resolve};
use kernel::idmap::IdMap;
use kernel::mount::{self, Attributes, Change, Propagation};
use model::cell::{Access, Mount};
use model::error::{Error, Reason};
use rustix::io::Errno;

/// A mount that is attached nowhere yet.
pub(crate) struct Prepared {
    pub(crate) mount: OwnedFd,
    /// What of it is mounted, where it isn't its root: a file of this name.
    pub(crate) file: Option<&'static str>,
    pub(crate) target: MountTarget,
}

/// Makes a detached mount for a cell whose root is the node's `root_id`.
///
/// # Errors
/// `INVALID_FIELD` for a source that isn't there or leads over a symbolic link, `UNSUPPORTED`
/// naming the file system where it has no idmapped mounts.
pub(crate) fn prepare(mount: &Mount, root_id: u32) -> Result<Prepared, Error> {
    let source = open(&mount.source)?;
    let directory = File::from(source.try_clone().map_err(|e| io(mount, &e))?)
        .metadata()
        .map_err(|e| io(mount, &e))?
        .is_dir();
    let failed = |e: kernel::Error| {
        let message = format!("{} can't be mounted: {e}", mount.source);
        Error::new(Reason::Unsupported, message).errno(e.errno())
    };
    let tree = mount::copy_tree_at(&source, Path::new(""), false).map_err(failed)?;
    let safe = Attributes::NO_SUID | Attributes::NO_DEV;
    let change = Change {
        propagation: Some(Propagation::Private),
        ..Change::default()
    };
    match mount.owner() {
        None => {
            let set = match mount.access {
                Access::Own => safe,
                Access::Read | Access::OwnRead | Access::Write => safe | Attributes::READ_ONLY,
            };
            mount::set_attributes(&tree, &Change { set, ..change }).map_err(failed)?;
        }
        Some((uid, gid)) => {
            let one = |id| {
                [IdMap {
                    inside: id,
                    outside: root_id,
                    count: 1,
                }]
            };
            let namespace = mount::userns::with_maps(&one(uid), &one(gid)).map_err(failed)?;
            let id_map = Some(namespace.as_fd());
            mount::set_attributes(
                &tree,
                &Change {
                    set: safe,
                    id_map,
                    ..change
                },
            )
            .map_err(|e| not_mapped(mount, &e))?;
        }
    }
    let target = mount.effective_target().as_bytes().to_vec();
    Ok(Prepared {
        mount: tree,
        file: None,
        target: MountTarget { target, directory },
    })
}

fn open(source: &str) -> Result<OwnedFd, Error> {
    let bad = |e: kernel::Error| {
        let problem = match Errno::from_raw_os_error(e.errno()) {
            Errno::LOOP => format!("{source} leads over a symbolic link"),
            errno => format!("{source}: {}", std::io::Error::from(errno)),
        };
        Error::invalid("cell.spec.mounts.source", problem)
            .errno(e.errno())
            .hint("name an existing file or folder of the node by its real path")
    };
    let root = fsutil::open_directory(Path::new("/")).map_err(bad)?;
    let below = match source.trim_start_matches('/') {
        "" => ".",
        below => below,
    };
    fsutil::open_below(
        root,
        Path::new(below),
        OpenFlags::PATH,
        0,
        Resolve::BeneathNoSymlinks,
    )
    .map_err(bad)
}

fn io(mount: &Mount, error: &std::io::Error) -> Error {
    Error::internal(format!("{}: {error}", mount.source))
        .errno(error.raw_os_error().unwrap_or_default())
}

fn not_mapped(mount: &Mount, error: &kernel::Error) -> Error {
    let kind = file_system(Path::new(&mount.source));
    Error::new(
        Reason::Unsupported,
        format!(
            "{} can't be mounted for writing: its file system ({kind}) has no idmapped mounts here ({error})",
            mount.source
        ),
    )
    .errno(error.errno())
    .field("cell.spec.mounts")
    .hint("mount a folder on ext4, xfs or btrfs, mount it for reading, or use a volume")
}

/// The type of the file system that a path is on.
fn file_system(path: &Path) -> String {
    let mounts = mount::info::read().unwrap_or_default();
    let on = mounts.iter().filter(|m| path.starts_with(&m.target));
    // Of mounts at the same place the last one covers the others.
    let innermost = on.max_by_key(|m| m.target.components().count());
    innermost.map_or_else(|| "of an unknown type".to_owned(), |m| m.fs_type.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Mount {
        Mount {
            source: source.to_owned(),
            target: String::new(),
            access: Access::Read,
            owner_uid: None,
            owner_gid: None,
            allow_root_owner: false,
        }
    }

    #[test]
    fn a_source_behind_a_link_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        for source in [link.clone(), link.join("passwd"), dir.path().join("none")] {
            let error = prepare(&read(source.to_str().unwrap()), 0).err().unwrap();
            assert_eq!(error.reason, Reason::InvalidField, "{error}");
        }
    }
}
