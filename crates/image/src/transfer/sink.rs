// SPDX-License-Identifier: Apache-2.0
//! Where an export goes: a folder, or a tar stream. The same images make the same bytes.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::error::{ImageError, Result};

/// Takes files, each once.
pub(super) trait Sink {
    /// A file of exactly `size` bytes.
    fn file(&mut self, path: &str, size: u64, from: &mut dyn Read) -> Result<()>;
    /// Nothing follows.
    fn end(self) -> Result<()>;
}

/// A folder that is new or empty.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o755).create(folder);
        made.map_err(|error| ImageError::io("create", folder, error))?;
        let mut entries = folder
            .read_dir()
            .map_err(|error| ImageError::io("list", folder, error))?;
        match entries.next() {
            None => Ok(Self(folder.to_path_buf())),
            Some(_) => Err(ImageError::Busy {
                what: folder.display().to_string(),
                by: "it isn't empty; name a folder that is, or that isn't there".to_owned(),
            }),
        }
    }
}

impl Sink for Folder {
    fn file(&mut self, path: &str, size: u64, from: &mut dyn Read) -> Result<()> {
        let path = self.0.join(path);
        let mut write = || {
            if let Some(above) = path.parent() {
                std::fs::create_dir_all(above)?;
            }
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)?;
            std::io::copy(&mut from.take(size), &mut file)
        };
        let written = write().map_err(|error| ImageError::io("write", &path, error))?;
        whole(&path, size, written)
    }

    fn end(self) -> Result<()> {
        Ok(())
    }
}

/// A tar stream: ustar, root's, of 1970.
pub(super) struct Stream<W: Write>(tar::Builder<W>);

impl<W: Write> Stream<W> {
    pub(super) fn new(to: W) -> Self {
        Self(tar::Builder::new(to))
    }
}

impl<W: Write> Sink for Stream<W> {
    fn file(&mut self, path: &str, size: u64, from: &mut dyn Read) -> Result<()> {
        let mut header = tar::Header::new_ustar();
        header.set_size(size);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        let mut counted = Counted { from, count: 0 };
        let mut limited = (&mut counted).take(size);
        let appended = self.0.append_data(&mut header, path, &mut limited);
        appended.map_err(|error| ImageError::io("write", Path::new(path), error))?;
        whole(Path::new(path), size, counted.count)
    }

    fn end(mut self) -> Result<()> {
        let ended = self.0.finish().and_then(|()| self.0.get_mut().flush());
        ended.map_err(|error| ImageError::io("write", Path::new("the archive"), error))
    }
}

struct Counted<'a> {
    from: &'a mut dyn Read,
    count: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.count += read as u64;
        Ok(read)
    }
}

fn whole(path: &Path, size: u64, written: u64) -> Result<()> {
    if written == size {
        return Ok(());
    }
    Err(ImageError::Corrupt {
        path: path.to_path_buf(),
        problem: format!("it has {written} bytes in the store, its descriptor says {size}"),
    })
}
