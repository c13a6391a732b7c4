// SPDX-License-Identifier: Apache-2.0
//! OCI layouts (image specification, `image-layout.md`): which images one holds, and reading one
//! from a folder.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::import::Archive;
use super::{Import, Imported};
use crate::digest::Digest;
use crate::error::{ImageError, Result};
use crate::manifest::{Descriptor, Document, MAX_DOCUMENT, check_length};
use crate::store::{NAME_ANNOTATION, Pin, Store};

/// What containerd calls an image, which is a full reference (the standard annotation may be a tag
/// alone).
const CONTAINERD_NAME: &str = "io.containerd.image.name";

/// The images of a layout that came as an archive: all of it must have come with it.
pub(super) fn images(store: &Store, archive: &Archive) -> Result<Vec<Imported>> {
    let entries = entries(&archive.documents)?;
    for entry in &entries {
        followed(store, entry, &mut |_, blob| {
            Ok(archive.brought.contains(&blob.digest))
        })?;
    }
    Ok(group(entries))
}

/// The entries of its `index.json`.
fn entries(documents: &HashMap<String, Vec<u8>>) -> Result<Vec<Descriptor>> {
    let document = |name: &str| {
        documents
            .get(name)
            .ok_or_else(|| ImageError::document("the layout", format!("it has no {name}")))
    };
    let version = String::from_utf8_lossy(document("oci-layout")?);
    crate::store::layout_version(&version)
        .map_err(|problem| ImageError::document("oci-layout", problem))?;
    match Document::parse(document("index.json")?, None)? {
        Document::Index(index) => Ok(index.manifests),
        Document::Manifest(_) => Err(ImageError::document("index.json", "it is no index")),
    }
}

fn followed(
    store: &Store,
    entry: &Descriptor,
    bring: &mut dyn FnMut(&Store, &Descriptor) -> Result<bool>,
) -> Result<()> {
    match store.follow(entry, bring)? {
        true => Ok(()),
        false => {
            let problem = format!("{} of index.json is missing", entry.digest);
            Err(ImageError::document("the layout", problem))
        }
    }
}

/// One image for each digest, with all its names.
fn group(entries: Vec<Descriptor>) -> Vec<Imported> {
    let mut images: Vec<Imported> = Vec::new();
    for mut descriptor in entries {
        let containerd = descriptor.annotations.remove(CONTAINERD_NAME);
        let standard = descriptor.annotations.remove(NAME_ANNOTATION);
        let name = containerd.or(standard);
        match images
            .iter_mut()
            .find(|image| image.descriptor.digest == descriptor.digest)
        {
            Some(image) => image.names.extend(name),
            None => images.push(Imported {
                descriptor: Descriptor {
                    platform: descriptor.platform,
                    ..Descriptor::new(descriptor.media_type, descriptor.digest, descriptor.size)
                },
                names: name.into_iter().collect(),
            }),
        }
    }
    images
}

impl Store {
    /// Reads an OCI layout from a folder. No link in it is followed.
    ///
    /// # Errors
    /// Those of [`Store::import_archive`].
    pub fn import_layout(&self, folder: &Path) -> Result<Import> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = fs::open(folder, flags, Mode::empty())
            .map_err(|errno| ImageError::io("open", folder, errno))?;
        let mut documents = HashMap::new();
        for name in ["oci-layout", "index.json"] {
            if let Some(mut file) = open(&root, folder, name)? {
                let mut bytes = Vec::new();
                let read = (&mut file).take(MAX_DOCUMENT + 1).read_to_end(&mut bytes);
                read.map_err(|error| ImageError::io("read", &folder.join(name), error))?;
                check_length(name, bytes.len() as u64)?;
                documents.insert(name.to_owned(), bytes);
            }
        }
        let entries = entries(&documents)?;
        let mut brought: HashSet<Digest> = HashSet::new();
        let mut pins = Vec::new();
        for entry in &entries {
            followed(self, entry, &mut |store, blob| {
                if brought.contains(&blob.digest) {
                    return Ok(true);
                }
                let pin = bring(store, &root, folder, blob)?;
                brought.extend(pin.as_ref().map(|_| blob.digest.clone()));
                let there = pin.is_some();
                pins.extend(pin);
                Ok(there)
            })?;
        }
        Ok(Import {
            images: group(entries),
            brought,
            _pins: pins,
        })
    }
}

/// Copies a blob from a layout's folder; `None` where it has none.
fn bring(store: &Store, root: &OwnedFd, folder: &Path, blob: &Descriptor) -> Result<Option<Pin>> {
    let digest = &blob.digest;
    let path = format!("blobs/{}/{}", digest.algorithm().as_str(), digest.hex());
    let Some(mut file) = open(root, folder, &path)? else {
        return Ok(None);
    };
    let mut ingest = store.ingest(digest, blob.size)?;
    ingest.restart()?;
    let mut buffer = vec![0; 128 << 10];
    loop {
        let read = file.read(&mut buffer);
        let read = read.map_err(|error| ImageError::io("read", &folder.join(&path), error))?;
        match buffer.get(..read).filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => ingest.write(bytes)?,
            None => return ingest.finish().map(Some),
        }
    }
}

/// Opens a regular file of the layout.
fn open(root: &OwnedFd, folder: &Path, path: &str) -> Result<Option<File>> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // A fifo would be waited for otherwise.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let shown = folder.join(path);
    let file = match fs::openat2(root, path, flags, Mode::empty(), resolve) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(ImageError::io("open", &shown, errno)),
    };
    let metadata = file
        .metadata()
        .map_err(|error| ImageError::io("stat", &shown, error))?;
    if !metadata.is_file() {
        let problem = format!("{path} is no regular file");
        return Err(ImageError::document("the layout", problem));
    }
    Ok(Some(file))
}
