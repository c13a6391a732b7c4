// SPDX-License-Identifier: Apache-2.0
//! Images in and out of the store without a registry: OCI layouts as a folder or a tar stream, and
//! docker archives (what `docker save` writes and `docker load` reads), for nodes that reach none.
//!
//! What comes in is as hostile as what a registry sends: bounded, verified, and read by the
//! unpacker's own tar reader. A stream is read once, from its beginning to its end.

mod docker;
mod export;
mod import;
mod layout;
mod sink;

use std::collections::HashSet;

use crate::digest::Digest;
use crate::manifest::Descriptor;
use crate::store::Pin;

pub use import::Limits;

/// An image that came in, and what the archive calls it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// Its manifest or index.
    pub descriptor: Descriptor,
    /// As the archive has them: full references, or a tag alone. Not checked.
    pub names: Vec<String>,
}

/// What an import has brought. Nothing has a name yet: [`crate::store::Store::tag`] gives them.
/// What came stays pinned while this lives.
#[derive(Debug)]
pub struct Import {
    /// The images, in the archive's order.
    pub images: Vec<Imported>,
    /// All blobs that came with the archive: what its owner has shown to have. An index may name
    /// others, which the store may hold for other owners.
    pub brought: HashSet<Digest>,
    _pins: Vec<Pin>,
}

/// An image to be written, and its names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Its manifest or index.
    pub descriptor: Descriptor,
    /// What it is to be called there; may be empty.
    pub names: Vec<String>,
}
