// SPDX-License-Identifier: Apache-2.0
//! Reads archives of images from a tar stream, plain or packed. Every file becomes a blob as it
//! passes; the few documents that say what is what are kept in memory and read at the end.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use super::{Import, docker, layout};
use crate::digest::{Algorithm, Digest};
use crate::error::{ImageError, Result};
use crate::manifest::{MAX_DOCUMENT, check_length};
use crate::store::{Pin, Store};
use crate::unpack::UnpackError;
use crate::unpack::tar::{Entry, Kind, Reader, TarStream, place};

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
    /// 256 GiB, 100,000 entries.
    fn default() -> Self {
        Self {
            max_bytes: 256 << 30,
            max_entries: 100_000,
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

    fn piece_of(&mut self, path: String, digest: Digest, size: u64, pin: Pin) {
        self.brought.insert(digest.clone());
        self.pins.push(pin);
        self.pieces.insert(path, Piece { digest, size });
    }
}

impl Store {
    /// Reads an OCI layout or a docker archive from a tar stream (gzip and zstd are seen). One that
    /// is both is read as a layout.
    ///
    /// # Errors
    /// [`ImageError::Document`] for what is no archive of images, or not a whole one;
    /// [`ImageError::TooMuch`]; [`ImageError::WrongDigest`] for a blob that isn't what its name
    /// says; [`ImageError::DiskFull`], [`ImageError::Io`]. What had come by then is collected.
    pub fn import_archive(&self, input: impl Read, limits: &Limits) -> Result<Import> {
        let stream = TarStream::open(input, Algorithm::Sha256, limits.max_bytes);
        let stream = stream.map_err(archive_error)?;
        let mut reader = Reader::new(stream, limits.max_entries);
        let mut archive = Archive::default();
        while let Some(entry) = reader.next().map_err(archive_error)? {
            self.take(&entry, &mut reader, &mut archive)?;
        }
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
                archive.links.insert(path, target);
                Ok(())
            }
            Kind::HardLink => {
                let target = normal("", &String::from_utf8_lossy(&entry.link));
                archive.links.insert(path, target);
                Ok(())
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
        match path.strip_prefix("blobs/").and_then(digest_of) {
            Some(digest) => {
                // The reader knows how much is left of the entry.
                let size = reader.left();
                let mut ingest = self.ingest(&digest, size)?;
                ingest.restart()?;
                each_piece(reader, |bytes| ingest.write(bytes))?;
                let pin = ingest.finish()?;
                archive.piece_of(path, digest, size, pin);
            }
            None => {
                let mut spool = self.spool()?;
                each_piece(reader, |bytes| spool.write(bytes))?;
                let (digest, size, pin) = spool.finish()?;
                archive.piece_of(path, digest, size, pin);
            }
        }
        Ok(())
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
