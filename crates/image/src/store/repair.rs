// SPDX-License-Identifier: Apache-2.0
//! What a start does about a crash: what was in the making goes, what an ingest has brought stays
//! for a day, and what has no business in the store's folders is removed. Blobs are left alone:
//! without a name they are collection's matter.

use std::fs::DirEntry;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::ingest::parse_file_name;
use super::layers::Meta;
use super::{ImageError, Result, files};
use crate::digest::{Algorithm, Digest};

/// How long what an ingest has brought waits for the next attempt.
pub(super) const PARTIAL_FOR: Duration = Duration::from_secs(24 * 3600);

/// What a start has mended.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Repair {
    /// Folders of `work/` that were in the making.
    pub unfinished: u64,
    /// Partial blobs that were too old.
    pub stale: u64,
    /// Layers that the loss of power may have damaged.
    pub unsettled: u64,
    /// Files that nothing of ours has made.
    pub foreign: u64,
    /// `index.json` could not be read and was moved aside.
    pub names_lost: bool,
}

/// Mends a store that no process has open.
pub(super) fn run(root: &Path) -> Result<Repair> {
    let mut repair = Repair::default();
    each(&root.join("work"), |entry| {
        repair.unfinished += 1;
        remove(entry)
    })?;
    each(&root.join("ingest"), |entry| {
        match named(entry, parse_file_name) {
            Some(_) if !is_stale(entry) => Ok(()),
            Some(_) => {
                repair.stale += 1;
                remove(entry)
            }
            None => {
                repair.foreign += 1;
                remove(entry)
            }
        }
    })?;
    each(&root.join("aside"), |entry| match is_stale(entry) {
        true => remove(entry),
        false => Ok(()),
    })?;
    for algorithm in Algorithm::ALL {
        each(&root.join("blobs").join(algorithm.as_str()), |entry| {
            let hex = entry.file_name();
            if hex
                .to_str()
                .is_some_and(|hex| Digest::new(algorithm, hex).is_ok())
            {
                return Ok(());
            }
            repair.foreign += 1;
            remove(entry)
        })?;
    }
    layers(root, &mut repair)?;
    files::remove_file(&root.join("index.new"))?;
    files::remove_file(&root.join("oci-layout.new"))?;
    Ok(repair)
}

/// Removes layers that may not be whole: those that an earlier boot has made and that were never
/// put on disk. Their blobs are there.
fn layers(root: &Path, repair: &mut Repair) -> Result<()> {
    let boot = super::layers::boot()?;
    each(&root.join("layers"), |entry| {
        let meta = named(entry, Digest::from_file_name).and_then(|_| Meta::read(&entry.path()));
        match meta {
            Some(meta) if meta.boot.as_ref().is_none_or(|made| *made == boot) => Ok(()),
            Some(_) => {
                repair.unsettled += 1;
                remove(entry)
            }
            None => {
                repair.foreign += 1;
                remove(entry)
            }
        }
    })
}

fn named<T>(entry: &DirEntry, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    entry.file_name().to_str().and_then(parse)
}

pub(super) fn is_stale(entry: &DirEntry) -> bool {
    let modified = entry.metadata().and_then(|metadata| metadata.modified());
    let age = modified
        .ok()
        .and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > PARTIAL_FOR)
}

pub(super) fn each(folder: &Path, mut visit: impl FnMut(&DirEntry) -> Result<()>) -> Result<()> {
    let list = |error| ImageError::io("list", folder, error);
    for entry in folder.read_dir().map_err(list)? {
        visit(&entry.map_err(list)?)?;
    }
    Ok(())
}

pub(super) fn remove(entry: &DirEntry) -> Result<()> {
    let path = entry.path();
    let kind = entry
        .file_type()
        .map_err(|error| ImageError::io("stat", &path, error))?;
    let removed = match kind.is_dir() {
        true => std::fs::remove_dir_all(&path),
        false => std::fs::remove_file(&path),
    };
    removed.map_err(|error| ImageError::io("remove", &path, error))
}
