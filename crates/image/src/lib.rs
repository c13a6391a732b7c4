// SPDX-License-Identifier: Apache-2.0
//! OCI images: their names and documents, the node's content-addressed store, the unpacker of
//! layers, and the client of registries.
//!
//! [`node`] alone knows tenants, permits and quotas: it puts the rest together for a node. To the
//! rest an *owner* is an opaque string. The store and the unpacker block; the registry's client is
//! async. Callers: `auraed` (the API of images, and `auraed unpack`), and later `pod`.
//!
//! ```text
//!  registry ──> store::Ingest ──> blobs/ ──> unpack (a process of its own) ──> layers/
//!                                   │
//!                     index.json: owner, name -> manifest
//! ```

pub mod config;
pub mod digest;
pub mod error;
pub mod manifest;
pub mod node;
pub mod platform;
pub mod reference;
pub mod registry;
pub mod store;
pub mod transfer;
pub mod unpack;

pub use digest::Digest;
pub use error::{ImageError, Result};
pub use manifest::Descriptor;
pub use platform::Platform;
pub use reference::Reference;
