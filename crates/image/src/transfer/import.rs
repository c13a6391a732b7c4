// SPDX-License-Identifier: Apache-2.0
//! Reads archives of images from a tar stream, plain or packed. Every file becomes a blob, seen
//! when the stream has been read to its end; the few documents that say what is what are
//! kept in memory and read at the end.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use super::{Import, docker, layout};
use crate::digest::{Algorithm, Digest};
use crate::error::{ImageError, Result};
use crate::manifest::{MAX_DOCUMENT, check_length};
use crate::store::{Pin, Sealed, Store};
use crate::unpack::UnpackError;
use crate::unpack::tar::{Entry, Kind, Reader, TarStream, place};

/// The most bytes of all names of an archive that are kept in memory.
const MAX_NAMES: usize = 16 << 20;

/// How many links a path may lead through.
const MAX_LINKS: usize = 8;

/// Bounds of an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most bytes of the tar stream.
    pub max_bytes: u64,
    /// The most entries.
    pub max_entries: u64,
}

impl Default for Limits {
    /// 256 GiB, 20,000 entries.
    fn default() -> Self {
        Self {
            max_bytes: 256 << 30,
            max_entries: 20_000,
        }
    }
}

/// A file of the archive that is a blob now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) digest: Digest,
    pub(super) size: u64,
}

/// What an archive holds.
#[derive(Debug, Default)]
pub(super) struct Archive {
    /// Documents by name.
    pub(super) documents: HashMap<String, Vec<u8>>,
    pieces: HashMap<String, Piece>,
    /// Links by their path: where they lead.
    links: HashMap<String, String>,
    /// What has come and isn't seen yet.
    sealed: Vec<Sealed>,
    /// Bytes of all names.
    names: usize,
    pub(super) brought: HashSet<Digest>,
    pub(super) pins: Vec<Pin>,
}

impl Archive {
    /// The blob that a path of the archive means.
    pub(super) fn piece(&self, path: &str) -> Result<&Piece> {
        let mut at = normal("", path);
        for _ in 0..MAX_LINKS {
            if let Some(piece) = self.pieces.get(&at) {
                return Ok(piece);
            }
            match self.links.get(&at) {
                Some(target) => at = target.clone(),
                None => break,
            }
        }
        Err(ImageError::document(
            "the archive",
            format!("it has no file {path:?}"),
        ))
    }

    fn add(&mut self, path: String, sealed: Sealed) -> Result<()> {
        self.named(&path)?;
        let piece = Piece {
            digest: sealed.digest.clone(),
            size: sealed.size,
        };
        self.pieces.insert(path, piece);
        self.sealed.push(sealed);
        Ok(())
    }

    fn link(&mut self, path: String, target: String) -> Result<()> {
        self.named(&path)?;
        self.named(&target)?;
        self.links.insert(path, target);
        Ok(())
    }

    /// Counts a name that is kept in memory.
    fn named(&mut self, name: &str) -> Result<()> {
        // The map's own share of each.
        self.names += name.len() + 128;
        if self.names > MAX_NAMES {
            return Err(ImageError::TooMuch {
                what: "of the archive, the names of its files".to_owned(),
                limit: format!("{MAX_NAMES} bytes"),
            });
        }
        Ok(())
    }

    /// The archive is whole: what it has brought becomes blobs.
    fn commit(&mut self) -> Result<()> {
        for sealed in std::mem::take(&mut self.sealed) {
            self.brought.insert(sealed.digest.clone());
            self.pins.push(sealed.commit()?);
        }
        Ok(())
    }
}

impl Store {
    /// Reads an OCI layout or a docker archive from a tar stream (gzip and zstd are seen). One that
    /// is both is read as a layout.
    ///
    /// # Errors
    /// [`ImageError::Document`] for what is no archive of images, or not a whole one;
    /// [`ImageError::TooMuch`]; [`ImageError::WrongDigest`] for a blob that isn't what its name
    /// says; [`ImageError::DiskFull`], [`ImageError::Io`]. Of an archive whose stream isn't read
    /// to its end nothing stays; of one that isn't a whole image, what collection removes.
    pub fn import_archive(&self, input: impl Read, limits: &Limits) -> Result<Import> {
        let stream = TarStream::open(input, Algorithm::Sha256, limits.max_bytes);
        let stream = stream.map_err(archive_error)?;
        let mut reader = Reader::new(stream, limits.max_entries);
        let mut archive = Archive::default();
        while let Some(entry) = reader.next().map_err(archive_error)? {
            self.take(&entry, &mut reader, &mut archive)?;
        }
        archive.commit()?;
        let images = match archive.documents.contains_key("oci-layout") {
            true => layout::images(self, &archive)?,
            false => docker::images(self, &mut archive)?,
        };
        Ok(Import {
            images,
            brought: archive.brought,
            _pins: archive.pins,
        })
    }

    fn take(&self, entry: &Entry, reader: &mut Reader<'_>, archive: &mut Archive) -> Result<()> {
        let text = String::from_utf8_lossy(&entry.path).into_owned();
        place(&entry.path).map_err(archive_error)?;
        let path = normal("", &text);
        match &entry.kind {
            Kind::Folder => Ok(()),
            Kind::File(_) => self.take_file(path, reader, archive),
            Kind::Symlink => {
                let above = path.rsplit_once('/').map_or("", |(above, _)| above);
                let target = normal(above, &String::from_utf8_lossy(&entry.link));
                archive.link(path, target)
            }
            Kind::HardLink => {
                let target = normal("", &String::from_utf8_lossy(&entry.link));
                archive.link(path, target)
            }
            Kind::Character | Kind::Block | Kind::Fifo => {
                let problem = format!("{text:?} is neither a file, a folder nor a link");
                Err(ImageError::document("the archive", problem))
            }
        }
    }

    fn take_file(
        &self,
        path: String,
        reader: &mut Reader<'_>,
        archive: &mut Archive,
    ) -> Result<()> {
        if ["oci-layout", "index.json", "manifest.json"].contains(&path.as_str()) {
            let bytes = whole(reader, &path)?;
            archive.documents.insert(path, bytes);
            return Ok(());
        }
        // What old `docker save` writes beside each layer, and no one reads.
        let legacy =
            path == "repositories" || path.ends_with("/VERSION") || path.ends_with("/json");
        if legacy {
            return Ok(());
        }
        let named = path.strip_prefix("blobs/").and_then(digest_of);
        let algorithm = named.as_ref().map_or(Algorithm::Sha256, Digest::algorithm);
        let mut spool = self.spool(algorithm)?;
        each_piece(reader, |bytes| spool.write(bytes))?;
        let sealed = spool.seal()?;
        match named {
            Some(expected) if expected != sealed.digest => {
                let found = sealed.digest.clone();
                Err(ImageError::WrongDigest { expected, found })
            }
            _ => archive.add(path, sealed),
        }
    }
}

fn digest_of(path: &str) -> Option<Digest> {
    let (algorithm, hex) = path.split_once('/')?;
    format!("{algorithm}:{hex}").parse().ok()
}

fn each_piece(reader: &mut Reader<'_>, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut buffer = vec![0; 128 << 10];
    loop {
        let read = reader.data(&mut buffer).map_err(archive_error)?;
        match buffer.get(..read).filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => take(bytes)?,
            None => return Ok(()),
        }
    }
}

fn whole(reader: &mut Reader<'_>, name: &str) -> Result<Vec<u8>> {
    check_length(
        &format!("the archive's {name}"),
        reader.left().min(MAX_DOCUMENT + 1),
    )?;
    let mut document = Vec::new();
    each_piece(reader, |bytes| {
        document.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(document)
}

/// A path without `.` and `..`, from a folder of the archive on. What leads above the archive's
/// root stays there: it is only looked up in a map.
fn normal(from: &str, path: &str) -> String {
    let from = if path.starts_with('/') { "" } else { from };
    let mut parts: Vec<&str> = Vec::new();
    for part in from.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// An error of the tar reader, about an archive.
pub(super) fn archive_error(error: UnpackError) -> ImageError {
    match error {
        UnpackError::TooMuch { what, limit } => ImageError::TooMuch {
            what: format!("of the archive, {what}"),
            limit,
        },
        other => ImageError::document("the archive", other.to_string()),
    }
}
