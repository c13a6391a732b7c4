// SPDX-License-Identifier: Apache-2.0
//! The stage: the root of an image, put together for one cell.
//!
//! ```text
//! copy of the bare template, this process alone in it
//!   /mnt     the root: an overlay of all that is at /media          ([`ROOT`])
//!   /media   a tmpfs: links 0, 1, 2, … to the layers; the skeleton  ([`WORK`])
//!     layers     the folder of all layers, its owners mapped to the cell's ids
//!     upper      what the cell writes (upper/upper), and overlayfs's own (upper/work)
//!     skeleton   the uppermost layer: proc, sys, dev, as folders
//! ```
//!
//! /media is gone before the cell is cloned, so a cell's mounts are /mnt and those of every cell.
//! The clone into another user namespace locks their flags: read-only stays read-only and device
//! files do nothing, whatever the cell's root may do. The copy goes when this process leaves it:
//! what fails half-way leaves nothing behind, and two that are made at once don't meet.
//!
//! The skeleton makes /proc, /sys and /dev folders of the cell's root in every image: what a layer
//! has in their place (a link out, a file) is covered.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kernel::fsutil::{self, OpenFlags, Resolve};
use kernel::idmap::IdMap as Extent;
use kernel::mount::overlay::{self, Folders};
use kernel::mount::{self, Attributes, Change};
use kernel::namespace::{self, Namespaces as Kinds};
use kernel::{Context, Error};
use rustix::fs::{AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;

use super::place::{self, Place};
use crate::failure::InStep;
use crate::protocol::{Failure, IdMap, ImageRoot, MAX_LAYERS, Step};

/// Where the root of the image is, for the cell-init.
pub(crate) const ROOT: &str = "/mnt";
/// Where it is put together.
const WORK: &str = "/media";
/// The size of the tmpfs at [`WORK`], in bytes: links and a few folders.
const ROOM: u64 = 4 << 20;
/// The folders of the skeleton.
const SKELETON: [&str; 4] = ["skeleton", "skeleton/proc", "skeleton/sys", "skeleton/dev"];

/// The descriptors of [`ImageRoot`].
pub(super) struct Parts {
    pub(super) layers: OwnedFd,
    pub(super) upper: Option<OwnedFd>,
}

/// The ids of the cell, as ids of the node; empty where they are the node's own.
pub(super) struct Ids<'a> {
    pub(super) uids: &'a [IdMap],
    pub(super) gids: &'a [IdMap],
}

/// Moves this process into a copy of the bare template with the root at [`ROOT`]. After an error it
/// is somewhere on the way.
pub(super) fn enter(
    place: &Place,
    image: &ImageRoot,
    parts: &Parts,
    ids: &Ids<'_>,
) -> Result<(), Failure> {
    place.to_bare()?;
    namespace::unshare(Kinds::MOUNT).step(Step::Root)?;
    let work = Path::new(WORK);
    let tmpfs = mount::tmpfs(ROOM, 0o700, Attributes::NO_SUID | Attributes::NO_DEV);
    mount::attach(tmpfs.step(Step::Root)?, work).step(Step::Root)?;
    go_to(work)?;
    make_skeleton(ids)?;
    attach_folders(place, parts, ids)?;
    let lower = name_layers(image)?;
    let upper = parts.upper.as_ref().map(|_| ("upper/upper", "upper/work"));
    let folders = Folders {
        lower: &lower,
        upper,
        label: &image.file_label,
    };
    overlay::mount(folders, Path::new(ROOT)).step(Step::Root)?;
    go_to(Path::new("/"))?;
    mount::unmount(work, true).step(Step::Root)
}

fn go_to(path: &Path) -> Result<(), Failure> {
    rustix::process::chdir(path)
        .call_on("chdir", path)
        .step(Step::Root)
}

/// The node's number of the cell's root.
fn root_of(maps: &[IdMap]) -> u32 {
    let has = |map: &&IdMap| map.inside == 0;
    maps.iter().find(has).map_or(0, |map| map.outside)
}

fn make_skeleton(ids: &Ids<'_>) -> Result<(), Failure> {
    let owner = Some(Uid::from_raw(root_of(ids.uids)));
    let group = Some(Gid::from_raw(root_of(ids.gids)));
    for folder in SKELETON {
        let path = Path::new(folder);
        rustix::fs::mkdir(path, Mode::from_raw_mode(0o755))
            .call_on("mkdir", path)
            .step(Step::Root)?;
        rustix::fs::chownat(rustix::fs::CWD, path, owner, group, AtFlags::empty())
            .call_on("chown", path)
            .step(Step::Root)?;
    }
    Ok(())
}

/// Attaches the layers and the upper folder in the working directory: before Linux 6.15 overlayfs
/// takes no folder of a mount that is in no namespace.
fn attach_folders(place: &Place, parts: &Parts, ids: &Ids<'_>) -> Result<(), Failure> {
    let quiet = Attributes::NO_SUID | Attributes::NO_DEV;
    let folders = [
        ("layers", Some(&parts.layers)),
        ("upper", parts.upper.as_ref()),
    ];
    for (name, mount) in folders {
        let Some(mount) = mount else { continue };
        let set = match name {
            "layers" => quiet | Attributes::READ_ONLY,
            _ => quiet,
        };
        let change = Change {
            set,
            ..Change::default()
        };
        mount::set_attributes(mount, &change).step(Step::Root)?;
        if name == "layers" && !ids.uids.is_empty() {
            map_owners(place, mount, ids)?;
        }
        let path = Path::new(name);
        rustix::fs::mkdir(path, Mode::from_raw_mode(0o755))
            .call_on("mkdir", path)
            .step(Step::Root)?;
        mount::attach(mount, path).step(Step::Root)?;
    }
    Ok(())
}

/// Shows the owners of the layers' files as ids of the cell. Nothing on the disk changes.
fn map_owners(place: &Place, layers: &OwnedFd, ids: &Ids<'_>) -> Result<(), Failure> {
    let extents = |maps: &[IdMap]| maps.iter().map(place::to_kernel).collect::<Vec<Extent>>();
    let namespace = place
        .ids(&extents(ids.uids), &extents(ids.gids))
        .step(Step::IdMap)?;
    let change = Change {
        id_map: Some(namespace.as_fd()),
        ..Change::default()
    };
    mount::set_attributes(layers, &change).map_err(|error| {
        let kind = overlay::type_name(layers).unwrap_or_else(|error| error.to_string());
        let detail = match error.is(Errno::INVAL.raw_os_error()) {
            true => format!(
                "the layers of images are on {kind}, whose owners this kernel can't map to a cell's \
                 ids: move the images to ext4, xfs or btrfs"
            ),
            false => format!("{}: the layers of images are on {kind}", error.call()),
        };
        Failure::new(Step::Root, error.errno(), detail)
    })
}

/// Gives each layer a short name, the uppermost first, behind the skeleton.
fn name_layers(image: &ImageRoot) -> Result<Vec<String>, Failure> {
    if image.layers.is_empty() || image.layers.len() > MAX_LAYERS {
        let detail = format!(
            "an image of {} layers; 1 to {MAX_LAYERS} can be stacked",
            image.layers.len()
        );
        return Err(Failure::new(
            Step::Root,
            Errno::INVAL.raw_os_error(),
            detail,
        ));
    }
    let flags = OpenFlags::PATH | OpenFlags::DIRECTORY;
    let folder = fsutil::open_below(
        rustix::fs::CWD,
        Path::new("layers"),
        flags,
        0,
        Resolve::BeneathNoSymlinks,
    );
    let folder = folder.step(Step::Root)?;
    let mut names = vec!["skeleton".to_owned()];
    for (number, layer) in image.layers.iter().enumerate() {
        let path = Path::new(OsStr::from_bytes(layer));
        // It is there, is a folder, and isn't led to by a link.
        fsutil::open_below(&folder, path, flags, 0, Resolve::BeneathNoSymlinks)
            .map_err(|error| named(&error, path))?;
        let name = number.to_string();
        rustix::fs::symlink(Path::new("layers").join(path), name.as_str())
            .call_on("symlink", path)
            .step(Step::Root)?;
        names.push(name);
    }
    Ok(names)
}

fn named(error: &Error, layer: &Path) -> Failure {
    let detail = format!("layer `{}` of the image", layer.display());
    Failure::new(Step::Root, error.errno(), detail)
}
