// SPDX-License-Identifier: Apache-2.0
//! The mounts of a cell, prepared as detached mounts with the node's privileges. They come into the
//! cell by `staging`; its init copies them to their places.
//!
//! A source is opened without following any symbolic link: write access to a folder on the way
//! doesn't decide what is mounted. A read-only mount is a plain read-only bind: mode bits go on
//! meaning what they mean on the node. A writable mount maps one on-disk owner to the cell's root
//! and no other owner. A folder that the node has made for a cell has files of the cell's own ids,
//! and is mapped by nothing.
//!
//! What is mounted below the source comes along where the mount asks for it, and what is mounted
//! there later where it is a slave of the node's (ADR 81): every copy on the way into the cell is
//! one, too. Neither is mapped. What was there gets the flags of the mount; what comes later has
//! those of the node.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use init::protocol::MountTarget;
use kernel::fsutil::{self, OpenFlags, Resolve};
use kernel::idmap::IdMap;
use kernel::mount::{self, Attributes, Change};
use model::cell::{Access, Mount, Propagation};
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
    let propagation = match mount.propagation {
        Propagation::None | Propagation::Rprivate => mount::Propagation::Private,
        Propagation::Rslave => {
            check_shared(mount, &source)?;
            mount::Propagation::Slave
        }
    };
    let recursive = mount.propagation != Propagation::None;
    let tree = mount::copy_tree_at(&source, Path::new(""), recursive).map_err(failed)?;
    if let Some(owner) = mount.owner() {
        map_owner(&tree, owner, root_id)
            .map_err(failed)?
            .map_err(|e| not_mapped(mount, &e))?;
    }
    let safe = Attributes::NO_SUID | Attributes::NO_DEV;
    let writes = mount.owner().is_some() || mount.access == Access::Own;
    let set = match writes {
        true => safe,
        false => safe | Attributes::READ_ONLY,
    };
    let change = Change {
        set,
        propagation: Some(propagation),
        recursive,
        ..Change::default()
    };
    mount::set_attributes(&tree, &change).map_err(failed)?;
    let target = mount.effective_target().as_bytes().to_vec();
    Ok(Prepared {
        mount: tree,
        file: None,
        target: MountTarget { target, directory },
    })
}

/// Maps one owner on the disk to the cell's root. The inner error says that the file system can't.
fn map_owner(
    tree: &OwnedFd,
    (uid, gid): (u32, u32),
    root_id: u32,
) -> kernel::Result<kernel::Result<()>> {
    let one = |id| {
        [IdMap {
            inside: id,
            outside: root_id,
            count: 1,
        }]
    };
    let namespace = mount::userns::with_maps(&one(uid), &one(gid))?;
    let change = Change {
        id_map: Some(namespace.as_fd()),
        ..Change::default()
    };
    Ok(mount::set_attributes(tree, &change))
}

/// Nothing that is mounted later would come through a mount that is private on the node.
fn check_shared(mount: &Mount, source: &OwnedFd) -> Result<(), Error> {
    let failed = |error: kernel::Error| {
        Error::internal(format!("{}: {error}", mount.source)).errno(error.errno())
    };
    let on = mount::info::of(source).map_err(failed)?;
    let spreads = |it: &mount::info::MountInfo| it.is_shared() || it.is_slave();
    if on.as_ref().is_some_and(spreads) {
        return Ok(());
    }
    let problem = format!(
        "is rslave, and {} is on a mount that is private on the node: nothing that is mounted \
         there later would come",
        mount.source
    );
    let at = on.map_or_else(|| "/".into(), |it| it.target);
    let hint = format!(
        "share it on the node (mount --make-rshared {}), or ask for rprivate",
        at.display()
    );
    Err(Error::invalid("cell.spec.mounts.propagation", problem).hint(hint))
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
            propagation: Propagation::None,
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
