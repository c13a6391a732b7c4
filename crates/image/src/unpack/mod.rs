// SPDX-License-Identifier: Apache-2.0
//! Unpacks one layer into one folder. The stream is hostile: it is read in a process of its own
//! ([`command`], `auraed unpack`) that has the stream, the folder and nothing else; [`Unpacking`]
//! is its parent's side.
//!
//! ```text
//!  stdin ──> stream (gzip, zstd; bound, digest) ──> reader (tar) ──> names ──> apply ──> tree
//! ```
//!
//! What a layer can say and what becomes of it is in `docs/adr/0030`. Whiteouts become what
//! overlayfs knows; nothing of lower layers is looked at.

mod apply;
mod child;
mod driver;
mod error;
mod growth;
mod header;
mod input;
mod names;
mod pax;
mod reader;
mod sparse;
mod stream;
mod tree;

use std::io::Read;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

pub use child::{command, refused};
pub use driver::{Source, Unpacking};
pub use error::UnpackError;
pub use growth::{Growth, Killer};

/// The tar reader, for archives of images.
pub(crate) mod tar {
    pub(crate) use super::names::place;
    pub(crate) use super::reader::{Entry, Kind, Reader};
    pub(crate) use super::stream::TarStream;
}

/// How overlayfs is told that a folder hides what is below it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlay {
    /// `trusted.overlay.opaque`: needs `CAP_SYS_ADMIN` in the first user namespace.
    #[default]
    Trusted,
    /// `user.overlay.opaque`: for mounts with `userxattr`.
    User,
}

/// How a layer is unpacked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Options {
    /// The digest of the tar stream, as the image's configuration has it.
    pub diff_id: Digest,
    /// The most bytes of the tar stream.
    pub max_bytes: u64,
    /// The most entries, and the most files and folders.
    pub max_entries: u64,
    /// How folders are made opaque.
    pub overlay: Overlay,
    /// Whether device nodes are made, or refused.
    pub devices: bool,
    /// The stream is a file that grows while it is read ([`Source::Growing`] sets it).
    #[serde(default)]
    pub growing: bool,
}

impl Options {
    /// With the bounds that hold where no others are asked for: 64 GiB and a million entries.
    pub fn new(diff_id: &Digest) -> Self {
        Self {
            diff_id: diff_id.clone(),
            max_bytes: 64 << 30,
            max_entries: 1_000_000,
            overlay: Overlay::Trusted,
            devices: true,
            growing: false,
        }
    }
}

/// What was unpacked.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Entries of the stream.
    pub entries: u64,
    /// Bytes of the tar stream.
    pub bytes: u64,
    /// The layer's root is opaque: no lower layer may be mounted below it. (overlayfs has no mark
    /// for a root.)
    pub opaque_root: bool,
    /// Folders that the layer has only as parents of others: root's, with mode 0755, whatever a
    /// lower layer says of them; [`crate::store::Store::parents`] mends that for an image. The
    /// first 1000, in the order of their names.
    pub implied: Vec<String>,
    /// Extended attributes that were left out: labels of security modules, and those of links and
    /// nodes.
    pub skipped_xattrs: u64,
}

/// What a file, folder or link takes of the disk beside its bytes: a block. Counted with them, so
/// that a million empty folders aren't free.
pub const ENTRY_BYTES: u64 = 4096;

impl Summary {
    /// Bytes that the unpacked layer counts as: those of its tar stream, and a block an entry.
    pub fn counted(&self) -> u64 {
        self.bytes
            .saturating_add(self.entries.saturating_mul(ENTRY_BYTES))
    }
}

/// Unpacks a stream into an empty folder, in this process. After an error the folder holds a part.
///
/// # Errors
/// [`UnpackError`]: the layer is refused, or can't be unpacked here.
pub fn unpack(input: impl Read, root: OwnedFd, options: &Options) -> Result<Summary, UnpackError> {
    let algorithm = options.diff_id.algorithm();
    let stream = stream::TarStream::open(input, algorithm, options.max_bytes)?;
    let mut reader = reader::Reader::new(stream, options.max_entries);
    let tree = tree::Tree::new(root, options.overlay, options.max_entries);
    let summary = apply::Apply::new(tree).all(&mut reader, options)?;
    let (bytes, found) = reader.into_stream().finish();
    if found != options.diff_id {
        return Err(UnpackError::WrongDigest { found });
    }
    Ok(Summary { bytes, ..summary })
}
