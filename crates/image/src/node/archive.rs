// SPDX-License-Identifier: Apache-2.0
//! Archives: images that come with a request, and go as its answer. For nodes that reach no
//! registry.
//!
//! What an archive only names and doesn't bring is refused, also where the store has it: it may be
//! another tenant's, and knowing a digest gives no right to its bytes.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::sync::Arc;

use identity::Permit;
use model::error::{Error, Reason};
use model::name::Tenant;
use tokio::sync::mpsc;

use super::layers::Layers;
use super::left::Left;
use super::records::{Content, Record};
use super::transfer::Pieces;
use super::{Image, Images, Inner, now};
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::{Descriptor, Document};
use crate::platform::Platform;
use crate::reference::Reference;
use crate::transfer::{Export, Import, Imported, Limits};

/// Bytes of a piece of an export.
const PIECE: usize = 256 << 10;
/// Pieces that wait for a slow client.
const AHEAD: usize = 2;
/// How deep indexes may lie in indexes.
const DEPTH: usize = 4;

/// The most names of one image of an archive.
const MAX_NAMES: usize = 64;

/// An image of an archive that has passed, and what it is to be called.
struct Chosen {
    names: BTreeSet<Reference>,
    manifest: Descriptor,
    index: Option<Digest>,
    content: Content,
}

impl Images {
    /// Takes the images of an archive. `name`: of its only image, whatever the archive calls that;
    /// of several, of the one that the archive gives none.
    ///
    /// # Errors
    /// `INVALID_FIELD` where an image is left without a name, or `name` without an image;
    /// `UNSUPPORTED` for what is no archive of images, or has none for this node; `LIMIT_EXCEEDED`
    /// where they don't fit into the tenant's quota; what the unpacker refuses.
    pub async fn import(
        &self,
        permit: Permit,
        tenant: Tenant,
        name: Option<Reference>,
        archive: impl Read + Send + 'static,
    ) -> Result<Vec<Image>, Error> {
        permit.demand_tenant(&tenant)?;
        let place = Arc::new(self.inner()?.transfers.take(&tenant, 1)?);
        // Of its own: a slow import holds up no pull.
        let turn = self.inner()?.turn_to_import(&tenant);
        let _turn = turn.lock().await;
        let (of, inner, reads) = (
            tenant.clone(),
            Arc::clone(self.inner()?),
            Arc::clone(&place),
        );
        let reading = tokio::task::spawn_blocking(move || {
            let _place = reads;
            inner.read_archive(&of, name, archive)
        });
        let ended = |error| Error::internal(format!("reading the archive has failed: {error}"));
        // What came stays while it gets its names.
        let (chosen, import) = reading.await.map_err(ended)??;
        let import = Arc::new(import);
        let mut images = Vec::new();
        for one in chosen {
            let content = Arc::new(one.content);
            for name in &one.names {
                let left = Left::new(self.inner()?, &tenant);
                left.admit(&one.manifest, &content.manifest)?;
                let work = Layers::new(self.inner()?, &tenant, &place, Arc::new(|_, _| ()));
                let layers = work.all(&content, &left).await?;
                let (hold, named) = left.take()?;
                let record = record(&tenant, name, &one.manifest, one.index.as_ref());
                let pinned = (Arc::clone(&import), layers, named);
                let record = self.keep(record, hold, pinned).await?;
                images.push(self.inner()?.image(record, Some(Arc::clone(&content))));
            }
        }
        Ok(images)
    }

    /// Gives an image as an archive: an OCI layout.
    ///
    /// # Errors
    /// `NOT_FOUND`; `LIMIT_EXCEEDED` where the tenant has as many transfers as it may. Everything
    /// else comes as the last piece.
    pub fn export(&self, permit: Permit, tenant: &Tenant, text: &str) -> Result<Pieces, Error> {
        permit.demand_tenant(tenant)?;
        let record = self.inner()?.find(tenant, text)?;
        let place = self.inner()?.transfers.take(tenant, 1)?;
        let (sender, pieces) = mpsc::channel(AHEAD);
        let inner = Arc::clone(self.inner()?);
        tokio::task::spawn_blocking(move || {
            let _place = place;
            let export = Export {
                descriptor: record.manifest,
                names: vec![record.reference],
            };
            let mut writer = Sender {
                sender: sender.clone(),
                piece: Vec::with_capacity(PIECE),
            };
            let written = inner.store.export_archive(&[export], &mut writer);
            // A closed channel means that the caller has gone.
            let _gone = match written {
                Ok(()) => writer.flush().is_err(),
                Err(error) => sender.blocking_send(Err(error.into())).is_err(),
            };
        });
        Ok(Pieces { pieces })
    }
}

fn record(
    tenant: &Tenant,
    name: &Reference,
    manifest: &Descriptor,
    index: Option<&Digest>,
) -> Record {
    let time = now();
    Record {
        tenant: tenant.clone(),
        reference: name.to_string(),
        manifest: manifest.clone(),
        index: index.cloned(),
        pulled: time,
        used: time,
        pinned: false,
    }
}

impl Inner {
    fn read_archive(
        &self,
        tenant: &Tenant,
        name: Option<Reference>,
        archive: impl Read,
    ) -> Result<(Vec<Chosen>, Import), Error> {
        let default = Limits::default();
        let room = self.holdings.room(tenant);
        let limits = Limits {
            max_bytes: default.max_bytes.min(room),
            ..default
        };
        let import = self
            .store
            .import_archive(archive, &limits)
            .map_err(|error| match error {
                ImageError::TooMuch { .. } if limits.max_bytes == room => {
                    self.holdings.full(tenant).unwrap_or_else(|| error.into())
                }
                error => error.into(),
            })?;
        let unnamed = import
            .images
            .iter()
            .filter(|image| is_unnamed(image))
            .count();
        if unnamed > 1 || (unnamed == 1 && name.is_none()) {
            return Err(nameless(unnamed));
        }
        let is_only = import.images.len() == 1;
        if name.is_some() && unnamed == 0 && !is_only {
            return Err(all_named(import.images.len()));
        }
        let chosen = import.images.iter().map(|image| {
            let name = name.as_ref().filter(|_| is_only || is_unnamed(image));
            self.chosen(image, &import, name)
        });
        let chosen = chosen.collect::<Result<Vec<_>, Error>>()?;
        Ok((chosen, import))
    }

    /// The image for this node, with all of it brought by the archive. `name`: instead of those
    /// that the archive gives it.
    fn chosen(
        &self,
        image: &Imported,
        import: &Import,
        name: Option<&Reference>,
    ) -> Result<Chosen, Error> {
        let mut manifest = image.descriptor.clone();
        for _ in 0..DEPTH {
            let bytes = self.store.read_document(&manifest.digest)?;
            match Document::parse(&bytes, Some(&manifest.media_type))? {
                Document::Manifest(_) => break,
                Document::Index(index) => {
                    manifest = Platform::ours().choose(&index.manifests)?.clone();
                }
            }
        }
        let brought = |digest: &Digest| match import.brought.contains(digest) {
            true => Ok(()),
            false => Err(incomplete(digest)),
        };
        brought(&manifest.digest)?;
        let content = Content::read(&self.store, &manifest)?;
        content
            .manifest
            .blobs()
            .try_for_each(|blob| brought(&blob.digest))?;
        let names: BTreeSet<Reference> = match name {
            Some(name) => BTreeSet::from([name.clone()]),
            None => {
                let names = image.names.iter().filter(|text| !is_tag(text));
                let names = names.take(MAX_NAMES + 1).map(|text| full(text));
                names.collect::<Result<_, _>>()?
            }
        };
        if names.len() > MAX_NAMES {
            let words = format!("the archive has more than {MAX_NAMES} names for one image");
            return Err(Error::new(Reason::LimitExceeded, words));
        }
        let index = image.descriptor.digest.clone();
        Ok(Chosen {
            names,
            index: (index != manifest.digest).then_some(index),
            manifest,
            content,
        })
    }
}

/// Whether the archive has no name for an image, or a tag alone, as layouts of one image have.
fn is_unnamed(image: &Imported) -> bool {
    image.names.iter().all(|text| is_tag(text))
}

fn is_tag(text: &str) -> bool {
    !text.contains(['/', ':', '@'])
}

fn full(text: &str) -> Result<Reference, Error> {
    text.parse().map_err(|error: ImageError| {
        let words = format!("the archive names an image {text:?}: {error}");
        Error::new(Reason::Unsupported, words)
    })
}

fn nameless(count: usize) -> Error {
    let words = match count {
        1 => "the archive has an image without a name".to_owned(),
        _ => format!("the archive has {count} images without a name"),
    };
    Error::invalid("reference", words).hint("give one: aurae image import --name NAME FILE")
}

fn all_named(count: usize) -> Error {
    Error::invalid(
        "reference",
        format!("the archive has {count} images, each with a name of its own"),
    )
    .hint("leave the name out: aurae image import FILE")
}

fn incomplete(digest: &Digest) -> Error {
    let words = format!("the archive doesn't have {digest}, which its image needs");
    Error::new(Reason::Unsupported, words).hint("write the archive anew with all layers")
}

/// Writes into a channel, in pieces.
struct Sender {
    sender: mpsc::Sender<Result<Vec<u8>, Error>>,
    piece: Vec<u8>,
}

impl Write for Sender {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(data);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        if piece.is_empty() {
            return Ok(());
        }
        let gone = |_| io::Error::other("the caller has gone");
        self.sender.blocking_send(Ok(piece)).map_err(gone)
    }
}
