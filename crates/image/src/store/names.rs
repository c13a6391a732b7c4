// SPDX-License-Identifier: Apache-2.0
//! Names: which manifest an owner means by one. Kept in `index.json`, an OCI index whose entries
//! have the name and the owner as annotations; replaced as a whole by each change.
//!
//! An owner is an opaque string, but for that of the node's administrators, who have a part of
//! their own. Each has names of its own: the same one may mean two images.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use model::quota::ADMINISTRATORS;
use serde::{Deserialize, Serialize};

use super::{ImageError, Repair, Result, Store, files, locked};
use crate::digest::Algorithm;
use crate::manifest::{Descriptor, media};

/// The most names of one store.
pub const MAX_NAMES: usize = 16_384;
/// The most names of one owner.
pub const MAX_NAMES_PER_OWNER: usize = 2048;
/// Names that the node's administrators can always have, whatever other owners have taken: as many
/// as one owner may have.
const RESERVED_NAMES: usize = MAX_NAMES_PER_OWNER;
/// The longest owner, in bytes.
pub const MAX_OWNER: usize = 255;
/// The longest name, in bytes: a repository, a tag and a SHA-512 digest fit.
const MAX_NAME: usize = 1024;
/// The longest `index.json` that is read, in bytes: [`MAX_NAMES`] long entries.
const MAX_INDEX: u64 = 64 << 20;

/// The longest notes beside a name, in bytes, their keys included.
pub const MAX_NOTES: usize = 1024;

/// The annotation of a name (image specification, `annotations.md`).
pub(crate) const NAME: &str = "org.opencontainers.image.ref.name";
/// The annotation of an owner: ours.
const OWNER: &str = "io.aurae.owner";

/// A name and what it means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Whose name it is.
    pub owner: String,
    /// Mostly a [`crate::Reference`] in full; whatever the caller has given.
    pub name: String,
    /// The manifest or index.
    pub descriptor: Descriptor,
}

/// The content of `index.json`.
#[derive(Debug)]
pub(super) struct Names {
    path: PathBuf,
    all: BTreeMap<(String, String), Descriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    manifests: Vec<Descriptor>,
}

impl Names {
    /// Reads them. A file that can't be read is moved aside: its names are lost, no blob is.
    pub(super) fn load(path: &Path, repaired: &mut Repair) -> Result<Self> {
        let mut names = Self {
            path: path.to_path_buf(),
            all: BTreeMap::new(),
        };
        let text = match read(path) {
            Ok(Some(text)) => text,
            Ok(None) => {
                names.save()?;
                return Ok(names);
            }
            Err(error) => return Err(ImageError::io("read", path, error)),
        };
        match serde_json::from_str::<Index>(&text) {
            Ok(index) => names.all = index.manifests.into_iter().map(entry).collect(),
            Err(error) => {
                let aside = path.with_extension("json.broken");
                files::rename(path, &aside)?;
                tracing::error!(%error, file = %aside.display(), "the names of images are lost");
                repaired.names_lost = true;
                names.save()?;
            }
        }
        Ok(names)
    }

    fn save(&self) -> Result<()> {
        let manifests = self.all.iter().map(|((owner, name), descriptor)| {
            let mut descriptor = descriptor.clone();
            descriptor.annotations.insert(NAME.to_owned(), name.clone());
            descriptor
                .annotations
                .insert(OWNER.to_owned(), owner.clone());
            descriptor
        });
        let index = Index {
            schema_version: 2,
            media_type: Some(media::INDEX.to_owned()),
            manifests: manifests.collect(),
        };
        let text = serde_json::to_vec(&index).map_err(|error| ImageError::Corrupt {
            path: self.path.clone(),
            problem: format!("the names can't be written: {error}"),
        })?;
        files::replace(&self.path, &text)
    }

    #[cfg(test)]
    pub(super) fn insert_unsaved(&mut self, owner: &str, name: &str, descriptor: &Descriptor) {
        self.all
            .insert((owner.to_owned(), name.to_owned()), descriptor.clone());
    }

    /// How many an owner has.
    fn count(&self, owner: &str) -> usize {
        let from = (owner.to_owned(), String::new());
        let from = self.all.range(from..);
        from.take_while(|((other, _), _)| other == owner).count()
    }

    /// Whether an owner may have one more. What administrators have is counted by itself, so that
    /// no other owner ever reaches into their part (ADR 24).
    fn room(&self, owner: &str) -> Result<()> {
        let own = self.count(owner);
        if own >= MAX_NAMES_PER_OWNER {
            let what = format!("one more name of an image beside the {own} that {owner} has");
            return Err(too_much(
                what,
                format!("{MAX_NAMES_PER_OWNER} of one owner"),
            ));
        }
        let most = MAX_NAMES - RESERVED_NAMES;
        let others = self.all.len() - self.count(ADMINISTRATORS);
        if owner != ADMINISTRATORS && others >= most {
            let what = format!("one more name of an image beside the {others} that owners have");
            let limit = format!("{most} of all owners together, beside the node's reserve,");
            return Err(too_much(what, limit));
        }
        Ok(())
    }

    /// Changes them on disk; where that fails, in memory neither.
    fn change<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> Result<T> {
        let before = self.all.clone();
        let value = change(self);
        match self.save() {
            Ok(()) => Ok(value),
            Err(error) => {
                self.all = before;
                Err(error)
            }
        }
    }

    /// Takes several names away at once; returns those that still meant what they did when they
    /// were chosen.
    pub(super) fn remove_all(&mut self, gone: Vec<Named>) -> Result<Vec<Named>> {
        self.change(|names| {
            let mut removed = Vec::new();
            for named in gone {
                let key = (named.owner.clone(), named.name.clone());
                if names.all.get(&key) == Some(&named.descriptor) {
                    names.all.remove(&key);
                    removed.push(named);
                }
            }
            removed
        })
    }
}

/// `None` where there is no file. One that is too long or no text is as good as broken.
fn read(path: &Path) -> std::io::Result<Option<String>> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAX_INDEX).read_to_end(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn entry(mut descriptor: Descriptor) -> ((String, String), Descriptor) {
    let owner = descriptor.annotations.remove(OWNER).unwrap_or_default();
    let name = descriptor.annotations.remove(NAME);
    let name = name.unwrap_or_else(|| descriptor.digest.to_string());
    ((owner, name), descriptor)
}

impl Store {
    /// Lets `owner` call a manifest or index `name`, whatever it meant before.
    ///
    /// # Errors
    /// [`ImageError::NotFound`] where the store hasn't got the manifest; [`ImageError::TooMuch`]
    /// past [`MAX_NAMES`], [`MAX_NAMES_PER_OWNER`], [`MAX_OWNER`] or 1024 bytes of a name; those of
    /// a write.
    pub fn tag(&self, owner: &str, name: &str, descriptor: &Descriptor) -> Result<()> {
        self.tag_noted(owner, name, descriptor, BTreeMap::new())
    }

    /// [`Store::tag`] with notes of the owner's own beside the name, which [`Store::names`] gives
    /// back as annotations.
    ///
    /// # Errors
    /// Those of [`Store::tag`]; [`ImageError::TooMuch`] past [`MAX_NOTES`] bytes of notes.
    pub fn tag_noted(
        &self,
        owner: &str,
        name: &str,
        descriptor: &Descriptor,
        notes: BTreeMap<String, String>,
    ) -> Result<()> {
        let media_type = &descriptor.media_type;
        let noted = notes.iter().map(|(key, value)| key.len() + value.len());
        for (what, length, limit) in [
            ("notes", noted.sum(), MAX_NOTES),
            ("owner", owner.len(), MAX_OWNER),
            ("name", name.len(), MAX_NAME),
            ("media type", media_type.len(), MAX_OWNER),
        ] {
            if length > limit {
                return Err(too_much(
                    format!("{what} of {length} bytes"),
                    format!("{limit} bytes"),
                ));
            }
        }
        let _roots = locked(&self.inner.roots);
        if !self.contains(&descriptor.digest) {
            return Err(ImageError::NotFound {
                what: format!("manifest {}", descriptor.digest),
            });
        }
        // Before there is a name of them: blobs were renamed into their place without that.
        for algorithm in Algorithm::ALL {
            let folder = self.inner.root.join("blobs").join(algorithm.as_str());
            files::sync_folder(&folder)?;
        }
        let mut names = locked(&self.inner.names);
        let key = (owner.to_owned(), name.to_owned());
        if !names.all.contains_key(&key) {
            names.room(owner)?;
        }
        // What else a descriptor says is its author's, and of any length.
        let kept = Descriptor {
            annotations: notes,
            ..Descriptor::new(media_type, descriptor.digest.clone(), descriptor.size)
        };
        names.change(|names| names.all.insert(key, kept))?;
        Ok(())
    }

    /// Takes a name away; returns what it meant. The blobs go with the next collection.
    ///
    /// # Errors
    /// [`ImageError::NotFound`], and those of a write.
    pub fn untag(&self, owner: &str, name: &str) -> Result<Descriptor> {
        let _roots = locked(&self.inner.roots);
        let mut names = locked(&self.inner.names);
        let key = (owner.to_owned(), name.to_owned());
        if !names.all.contains_key(&key) {
            return Err(unknown(name));
        }
        names
            .change(|names| names.all.remove(&key))?
            .ok_or_else(|| unknown(name))
    }

    /// What a name means to `owner`.
    ///
    /// # Errors
    /// [`ImageError::NotFound`].
    pub fn resolve(&self, owner: &str, name: &str) -> Result<Descriptor> {
        let key = (owner.to_owned(), name.to_owned());
        let found = locked(&self.inner.names).all.get(&key).cloned();
        found.ok_or_else(|| unknown(name))
    }

    /// Every name, by owner and then by name.
    pub fn names(&self) -> Vec<Named> {
        let names = locked(&self.inner.names);
        let named = |((owner, name), descriptor): (&(String, String), &Descriptor)| Named {
            owner: owner.clone(),
            name: name.clone(),
            descriptor: descriptor.clone(),
        };
        names.all.iter().map(named).collect()
    }
}

fn unknown(name: &str) -> ImageError {
    ImageError::NotFound {
        what: format!("image {name:?}"),
    }
}

fn too_much(what: String, limit: String) -> ImageError {
    ImageError::TooMuch { what, limit }
}
