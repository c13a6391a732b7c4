// SPDX-License-Identifier: Apache-2.0
//! The folder that a program can't leave. Every file that a program names (a module, `file.read`)
//! is opened below it, and the kernel sees to it that no link, no `..` and no magic link leads out.
//! A file is a regular one of at most [`limits::FILE_BYTES`]; a pipe or a device is refused, not
//! waited for.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::limits;

/// The file whose folder is a program's root.
pub const MARK: &str = "aurae.json";

/// A folder, held open: what it is renamed to later changes nothing.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
    path: PathBuf,
}

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No such file.
    #[error("{0} does not exist")]
    Missing(String),
    /// The path, or a link on its way, leads out of the root.
    #[error("{0} leads out of the program's root")]
    Outside(String),
    /// A folder, a pipe, a device or a socket.
    #[error("{path} is {what}, not a regular file")]
    NotAFile {
        /// As it was asked for.
        path: String,
        /// With its article: `a folder`.
        what: &'static str,
    },
    /// Longer than a file may be.
    #[error("{path} has {bytes} bytes; the most is {most}", most = limits::FILE_BYTES)]
    TooLong {
        /// As it was asked for.
        path: String,
        /// Its length; what was read until then where it grows.
        bytes: u64,
    },
    /// Text that isn't UTF-8.
    #[error("{path} is not UTF-8: byte {offset} begins no character")]
    NotText {
        /// As it was asked for.
        path: String,
        /// From 0.
        offset: usize,
    },
    /// The system says no.
    #[error("{path}: {source}")]
    System {
        /// As it was asked for.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Root {
    /// Opens `folder` as a root.
    ///
    /// # Errors
    /// It isn't there, isn't a folder, or may not be entered.
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        let path = folder.display().to_string();
        let error = |source: std::io::Error| ReadError::System {
            path: path.clone(),
            source,
        };
        let whole = std::fs::canonicalize(folder).map_err(error)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&whole, flags, Mode::empty());
        let folder = folder.map_err(|errno| error(errno.into()))?;
        Ok(Self {
            folder,
            path: whole,
        })
    }

    /// The root of the program that begins with the file at `entry`: the nearest folder upwards
    /// with an `aurae.json`, else the file's own. With it the entry's path below the root.
    ///
    /// # Errors
    /// The entry's folder isn't there or may not be entered.
    pub fn of_entry(entry: &Path) -> Result<(Self, String), ReadError> {
        let folder = match entry.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let whole = std::fs::canonicalize(folder).map_err(|source| ReadError::System {
            path: folder.display().to_string(),
            source,
        })?;
        let marked = whole.ancestors().find(|at| at.join(MARK).is_file());
        let root = Self::open(marked.unwrap_or(&whole))?;
        let entry = root.below(entry)?;
        Ok((root, entry))
    }

    /// The path below the root of a file that is named from the working directory.
    ///
    /// # Errors
    /// It lies elsewhere, or its folder isn't there.
    pub fn below(&self, file: &Path) -> Result<String, ReadError> {
        let shown = file.display().to_string();
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = std::fs::canonicalize(folder).map_err(|source| ReadError::System {
            path: shown.clone(),
            source,
        })?;
        let outside = || ReadError::Outside(shown.clone());
        let name = file.file_name().ok_or_else(outside)?;
        let whole = folder.join(name);
        let below = whole.strip_prefix(&self.path).map_err(|_| outside())?;
        below.to_str().map(str::to_owned).ok_or(ReadError::NotText {
            path: shown.clone(),
            offset: 0,
        })
    }

    /// The folder's path as it was when it was opened, for people.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file's bytes. `path` is relative to the root; `./` and `../` in it are fine as long as it
    /// stays below.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), resolve);
        let opened = opened.map_err(|errno| refusal(path, errno))?;
        read_regular(path, opened)
    }

    /// A file's text.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn text(&self, path: &str) -> Result<String, ReadError> {
        String::from_utf8(self.bytes(path)?).map_err(|error| ReadError::NotText {
            path: path.to_owned(),
            offset: error.utf8_error().valid_up_to(),
        })
    }
}

fn refusal(path: &str, errno: Errno) -> ReadError {
    let path = path.to_owned();
    match errno {
        Errno::NOENT | Errno::NOTDIR => ReadError::Missing(path),
        Errno::XDEV => ReadError::Outside(path),
        Errno::NXIO => ReadError::NotAFile {
            path,
            what: "a socket",
        },
        errno => ReadError::System {
            path,
            source: errno.into(),
        },
    }
}

fn read_regular(path: &str, opened: OwnedFd) -> Result<Vec<u8>, ReadError> {
    let system = |source: std::io::Error| ReadError::System {
        path: path.to_owned(),
        source,
    };
    let about = rustix::fs::fstat(&opened).map_err(|errno| system(errno.into()))?;
    let what = match FileType::from_raw_mode(about.st_mode) {
        FileType::RegularFile => None,
        FileType::Directory => Some("a folder"),
        FileType::Fifo => Some("a pipe"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    };
    if let Some(what) = what {
        let path = path.to_owned();
        return Err(ReadError::NotAFile { path, what });
    }
    let too_long = |bytes: u64| ReadError::TooLong {
        path: path.to_owned(),
        bytes,
    };
    let most = limits::FILE_BYTES as u64;
    let length = u64::try_from(about.st_size).unwrap_or(0);
    if length > most {
        return Err(too_long(length));
    }
    let mut bytes = Vec::new();
    let file = File::from(opened);
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(system)?;
    match bytes.len() as u64 {
        length if length > most => Err(too_long(length)),
        _ => Ok(bytes),
    }
}

/// `path` relative to the folder of the module at `from`, in its shortest form; `None` where it
/// leads above the root.
pub fn join(from: &str, path: &str) -> Option<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests;
