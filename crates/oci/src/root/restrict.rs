// SPDX-License-Identifier: Apache-2.0
//! Masked and read-only paths.
//!
//! Each is opened once, and what is done is done to that descriptor. What masks a file is the
//! node's own `/dev/null`, taken before the root changes and looked at: a `/dev/null` of the
//! container's could have been replaced (runc's CVE-2025-31133).

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::Path;

use kernel::mount::{self, Attributes, Change};
use rustix::fs::FileType;

use super::tree::{self, Tree};
use crate::config::Spec;
use crate::error::{Doing, Result, refuse};

/// What masks: a null device for files, an empty folder for folders.
#[derive(Debug)]
pub(crate) struct Masks {
    null: Mask,
    empty: Mask,
}

/// A mount that is used many times. Before Linux 6.15 a detached one can't be copied: so the first
/// use attaches the mount itself, and the others copy that.
#[derive(Debug)]
struct Mask {
    mount: OwnedFd,
    attached: Cell<bool>,
}

impl Mask {
    fn new(mount: OwnedFd) -> Mask {
        Mask {
            mount,
            attached: Cell::new(false),
        }
    }

    fn over(&self, target: &OwnedFd) -> Result<()> {
        if !self.attached.replace(true) {
            return Ok(mount::attach_on(&self.mount, target)?);
        }
        let copy = mount::copy_tree_at(&self.mount, Path::new(""), false)?;
        Ok(mount::attach_on(copy, target)?)
    }
}

impl Masks {
    /// Takes both; `None` where nothing is masked.
    pub(crate) fn take(spec: &Spec) -> Result<Option<Masks>> {
        if spec.linux.masked_paths.is_empty() {
            return Ok(None);
        }
        let null = mount::copy_tree(Path::new("/dev/null"), false).doing("/dev/null")?;
        let stat = rustix::fs::fstat(&null).doing("fstat")?;
        let device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
        if !device || stat.st_rdev != rustix::fs::makedev(1, 3) {
            return refuse("/dev/null of the node isn't the null device");
        }
        let quiet = Attributes::NO_SUID | Attributes::NO_DEV | Attributes::NO_EXEC;
        let empty = mount::tmpfs(4096, 0o755, quiet | Attributes::READ_ONLY)?;
        Ok(Some(Masks {
            null: Mask::new(null),
            empty: Mask::new(empty),
        }))
    }

    fn over(&self, target: &OwnedFd) -> Result<()> {
        match tree::is_folder(target)? {
            true => self.empty.over(target),
            false => self.null.over(target),
        }
    }
}

/// Makes the read-only paths read-only, then masks the others. What isn't there needs neither.
pub(crate) fn apply(spec: &Spec, masks: Option<&Masks>, root: &Tree) -> Result<()> {
    for path in &spec.linux.readonly_paths {
        if let Some(target) = root.find(path).doing_on("open", path)? {
            read_only(&target).doing_on("make read-only", path)?;
        }
    }
    let Some(masks) = masks else { return Ok(()) };
    let mut done: Vec<&Path> = Vec::new();
    for path in &spec.linux.masked_paths {
        if done.contains(&path.as_path()) {
            continue;
        }
        done.push(path);
        if let Some(target) = root.find(path).doing_on("open", path)? {
            masks.over(&target).doing_on("mask", path)?;
        }
    }
    Ok(())
}

fn read_only(target: &OwnedFd) -> Result<()> {
    let copy = mount::copy_tree_at(target, Path::new(""), true)?;
    let change = Change {
        set: Attributes::READ_ONLY,
        recursive: true,
        ..Change::default()
    };
    mount::set_attributes(&copy, &change)?;
    Ok(mount::attach_on(&copy, target)?)
}
