// SPDX-License-Identifier: Apache-2.0
//! One chain of the audit: the lines of one tenant's users, or the node's own with those of its
//! administrators. A folder of files, of which the newest is written to.
//!
//! Lines are numbered through all chains, so that merging them by number gives the order in which
//! they were written; each line's hash follows from the line before it *in its chain*. So the
//! oldest file of one chain can go without breaking another.
//!
//! It decides neither which line belongs here (`writer`) nor what may go (`bounds`).

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::name::Tenant;
use ring::digest::{Context, SHA256};

use super::entry::{Entry, Hash};
use super::{NOTE_TORN, note, segment};

/// The folder, below the audit's own, of the tenants' folders.
const TENANTS: &str = "tenants";

/// Whose chain; `None`: the node's, with its administrators'.
pub(super) type Owner = Option<Tenant>;

/// The folder of a chain.
pub(super) fn folder(audit: &Path, owner: &Owner) -> PathBuf {
    match owner {
        None => audit.to_owned(),
        Some(tenant) => audit.join(TENANTS).join(tenant.as_str()),
    }
}

/// Every chain that has a folder, the node's first.
pub(super) fn owners(audit: &Path) -> io::Result<Vec<Owner>> {
    let mut owners = vec![None];
    let entries = match fs::read_dir(audit.join(TENANTS)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(owners),
        other => other?,
    };
    for entry in entries {
        let name = entry?.file_name();
        owners.extend(name.to_str().and_then(|n| n.parse().ok()).map(Some));
    }
    owners.sort_unstable();
    Ok(owners)
}

/// What stands for the newest lines of all chains together. With the node's chain alone it is the
/// hash of its newest line. A chain without a line counts as none.
pub(super) fn root<'a>(hashes: impl IntoIterator<Item = (&'a Owner, Hash)>) -> Hash {
    let (mut node, mut tenants) = ([0; 32], Context::new(&SHA256));
    let mut any = false;
    for (owner, hash) in hashes {
        match owner {
            None => node = hash,
            Some(_) if hash == [0; 32] => {}
            Some(tenant) => {
                any = true;
                tenants.update(tenant.as_str().as_bytes());
                tenants.update(b"\n");
                tenants.update(&hash);
            }
        }
    }
    if !any {
        return node;
    }
    tenants.update(&node);
    let mut root = [0; 32];
    root.copy_from_slice(tenants.finish().as_ref());
    root
}

/// See the module.
pub(super) struct Chain {
    dir: PathBuf,
    /// Oldest first, each with its length; the last one is written to.
    files: VecDeque<(u64, u64)>,
    /// Of all files.
    bytes: u64,
    /// The last of `files`, while it is open.
    file: Option<Arc<File>>,
    /// The number of its newest line, or a later one that no line of it has.
    pub(super) newest: u64,
    /// Of its newest line; zeros: it has none.
    pub(super) hash: Hash,
    /// Lines were written since the last sync began.
    pub(super) dirty: bool,
    /// Writing the newest file back failed: no more lines into that one.
    pub(super) broken: bool,
}

impl Chain {
    /// Goes on where an earlier daemon left it. Answers a note where a crash has torn a line.
    pub(super) fn resume(audit: &Path, owner: &Owner) -> io::Result<(Self, Option<Entry>)> {
        let dir = folder(audit, owner);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let mut chain = Self {
            dir,
            files: VecDeque::new(),
            bytes: 0,
            file: None,
            newest: 0,
            hash: [0; 32],
            dirty: false,
            broken: false,
        };
        let Some(newest) = segment::newest(&chain.dir)? else {
            if owner.is_some() {
                File::open(audit.join(TENANTS))?.sync_all()?;
                File::open(audit)?.sync_all()?;
            }
            return Ok((chain, None));
        };
        let tail = segment::tail(&newest)?.ok_or_else(|| {
            io::Error::other(format!(
                "the end of {} is not a line of the audit; move the folder away to begin a new \
                 chain (the old one stays readable there)",
                newest.file.display()
            ))
        })?;
        let mut torn = None;
        if tail.torn > 0 {
            let file = OpenOptions::new().append(true).open(&newest.file)?;
            file.set_len(tail.length)?;
            let whose = owner.as_ref().map(|t| format!(" of the tenant {t}'s"));
            let words = format!(
                "{} bytes of a line{} that a crash had torn",
                tail.torn,
                whose.unwrap_or_default()
            );
            torn = Some(note(NOTE_TORN, words));
        }
        for segment in segment::list(&chain.dir)? {
            let bytes = fs::metadata(&segment.file)?.len();
            chain.files.push_back((segment.first, bytes));
            chain.bytes += bytes;
        }
        chain.newest = tail.sequence;
        chain.hash = tail.hash;
        Ok((chain, torn))
    }

    /// Bytes of all its files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the file that is written to; `None`: there is none.
    pub(super) fn newest_bytes(&self) -> Option<u64> {
        self.files.back().map(|(_, bytes)| *bytes)
    }

    /// How many files it has.
    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Closes its file; the next line opens it again.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// The file that is written to, opened where it isn't.
    pub(super) fn file(&mut self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let Some((first, _)) = self.files.back() else {
            return Err(io::Error::other("the chain has no file yet"));
        };
        let path = segment::path(&self.dir, *first);
        let file = Arc::new(OpenOptions::new().append(true).open(path)?);
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Begins the file of lines from number `first` on. The one before it is synced already, or
    /// can't be.
    pub(super) fn begin_file(&mut self, first: u64) -> io::Result<()> {
        let (file, bytes) = segment::create_again(&self.dir, first, &self.hash)?;
        // One that was begun, and whose first line could not be written.
        if let Some((_, gone)) = self.files.pop_back_if(|(last, _)| *last == first) {
            self.bytes = self.bytes.saturating_sub(gone);
        }
        self.files.push_back((first, bytes));
        self.bytes += bytes;
        self.file = Some(Arc::new(file));
        self.broken = false;
        Ok(())
    }

    /// Writes a sealed line.
    pub(super) fn write(&mut self, sequence: u64, line: &str, hash: Hash) -> io::Result<()> {
        let file = self.file()?;
        let length = self.newest_bytes().unwrap_or(0);
        if let Err(e) = (&*file).write_all(line.as_bytes()) {
            // Half a line on a full disk: off with it, or the next one would continue it.
            file.set_len(length)?;
            return Err(e);
        }
        if let Some((_, bytes)) = self.files.back_mut() {
            let written = u64::try_from(line.len()).unwrap_or(0);
            *bytes += written;
            self.bytes += written;
        }
        (self.newest, self.hash, self.dirty) = (sequence, hash, true);
        Ok(())
    }

    /// The number that the file after the oldest one begins with; `None`: there is one file alone.
    pub(super) fn second(&self) -> Option<u64> {
        self.files.get(1).map(|(first, _)| *first)
    }

    /// Removes the oldest file.
    pub(super) fn retire_oldest(&mut self) -> io::Result<()> {
        let oldest = self.files.front().filter(|_| self.files.len() > 1);
        let Some((first, bytes)) = oldest.copied() else {
            return Ok(());
        };
        match fs::remove_file(segment::path(&self.dir, first)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => drop(self.files.pop_front()),
        }
        self.bytes = self.bytes.saturating_sub(bytes);
        Ok(())
    }

    /// The hash of its newest line of those up to that number; zeros: there is none.
    pub(super) fn hash_at(&self, sequence: u64) -> io::Result<Hash> {
        if self.newest <= sequence {
            return Ok(self.hash);
        }
        segment::hash_at(&self.dir, sequence)
    }

    /// Lets every write fail from now on, as `/dev/full` does.
    #[cfg(test)]
    pub(super) fn break_for_test(&mut self, file: &str) {
        let file = File::options().append(true).open(file);
        self.file = Some(Arc::new(file.unwrap()));
        if self.files.is_empty() {
            self.files.push_back((1, 0));
        }
    }
}
