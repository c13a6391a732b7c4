// SPDX-License-Identifier: Apache-2.0
//! Where a log's files are: `ROOT/TENANT/UID/OFFSET.{index,data}`, and which of them there are. It
//! opens nothing; `mover` and `read` do.
//!
//! A segment is there when its index is: the index is made first and unlinked first, so a data file
//! without one is debris.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::name::{Tenant, Uid};

/// Whose log. The tenant is part of the path, so that one tenant's logs can be weighed against
/// another's.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LogKey {
    /// The tenant of the executable that writes the log.
    pub tenant: Tenant,
    /// Which run of an executable.
    pub uid: Uid,
}

/// The folder of one log. It need not exist: an executable that prints nothing has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Folder(PathBuf);

/// A segment's files, seen from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentFiles {
    /// Of its first byte in the whole output.
    pub(super) base: u64,
    /// Bytes on disk of both files: allocated blocks.
    pub(super) disk_bytes: u64,
    /// Length of the data file.
    pub(super) data_bytes: u64,
    /// Seconds since 1970 of the last write to either.
    pub(super) modified_s: u64,
}

impl Folder {
    pub(super) fn new(root: &Path, key: &LogKey) -> Self {
        Self(root.join(key.tenant.as_str()).join(key.uid.to_string()))
    }

    /// Any folder, for messages.
    pub(super) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn index(&self, base: u64) -> PathBuf {
        self.0.join(format!("{base:016x}.index"))
    }

    pub(super) fn data(&self, base: u64) -> PathBuf {
        self.0.join(format!("{base:016x}.data"))
    }

    /// The offsets that segments begin at, ascending. Empty where nothing was ever printed.
    pub(super) fn bases(&self) -> io::Result<Vec<u64>> {
        let names = list(&self.0)?;
        let mut bases: Vec<u64> = names
            .iter()
            .filter_map(|name| parse_name(name))
            .filter_map(|(base, is_index)| is_index.then_some(base))
            .collect();
        bases.sort_unstable();
        Ok(bases)
    }

    /// The same with sizes. Removes data files without an index.
    pub(super) fn segments(&self) -> io::Result<Vec<SegmentFiles>> {
        let mut indexes = std::collections::BTreeMap::new();
        let mut data = Vec::new();
        self.each_file(|base, is_index, meta| {
            use std::os::unix::fs::MetadataExt;
            let file = SegmentFiles {
                base,
                disk_bytes: meta.blocks().saturating_mul(512),
                data_bytes: if is_index { 0 } else { meta.len() },
                modified_s: u64::try_from(meta.mtime()).unwrap_or(0),
            };
            if is_index {
                indexes.insert(base, file);
            } else {
                data.push(file);
            }
        })?;
        for file in data {
            match indexes.get_mut(&file.base) {
                Some(segment) => {
                    segment.disk_bytes = segment.disk_bytes.saturating_add(file.disk_bytes);
                    segment.data_bytes = file.data_bytes;
                    segment.modified_s = segment.modified_s.max(file.modified_s);
                }
                None => unlink(&self.data(file.base))?,
            }
        }
        Ok(indexes.into_values().collect())
    }

    /// Unlinks one segment.
    pub(super) fn remove_segment(&self, base: u64) -> io::Result<()> {
        unlink(&self.index(base))?;
        unlink(&self.data(base))
    }

    /// Unlinks everything.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn each_file(&self, mut visit: impl FnMut(u64, bool, &fs::Metadata)) -> io::Result<()> {
        for name in list(&self.0)? {
            let Some((base, is_index)) = parse_name(&name) else {
                continue;
            };
            match fs::metadata(self.0.join(&name)) {
                Ok(meta) => visit(base, is_index, &meta),
                // Another was quicker.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Every log under `root`, in no order. A missing root has none.
pub(super) fn all(root: &Path) -> io::Result<Vec<LogKey>> {
    let mut keys = Vec::new();
    for tenant in list(root)? {
        if let Ok(tenant) = tenant.parse::<Tenant>() {
            keys.extend(of_tenant(root, &tenant)?);
        }
    }
    Ok(keys)
}

/// Every log of a tenant, in no order.
pub(super) fn of_tenant(root: &Path, tenant: &Tenant) -> io::Result<Vec<LogKey>> {
    let uids = list(&root.join(tenant.as_str()))?;
    let keys = uids.iter().filter_map(|uid| {
        Some(LogKey {
            tenant: tenant.clone(),
            uid: uid.parse().ok()?,
        })
    });
    Ok(keys.collect())
}

/// The names in a folder that are text. A missing folder has none.
fn list(path: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok());
    }
    Ok(names)
}

fn parse_name(name: &str) -> Option<(u64, bool)> {
    let (base, kind) = name.split_once('.')?;
    let is_index = match kind {
        "index" => true,
        "data" => false,
        _ => return None,
    };
    let base = (base.len() == 16).then(|| u64::from_str_radix(base, 16).ok())??;
    Some((base, is_index))
}

fn unlink(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
