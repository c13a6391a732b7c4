// SPDX-License-Identifier: Apache-2.0
//! Writes cpio archives in the "newc" form, the one that the kernel unpacks as an initramfs.
//!
//! Only what an initramfs needs: folders, files, symbolic links and character devices, all owned by
//! root. The form is described in the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// An archive being written.
#[derive(Debug)]
pub struct Archive<W> {
    out: W,
    inode: u32,
    written: usize,
}

struct Entry<'a> {
    name: &'a str,
    mode: u32,
    device: (u32, u32),
    data: &'a [u8],
}

impl<W: Write> Archive<W> {
    /// Starts an archive that is written to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            inode: 0,
            written: 0,
        }
    }

    /// A folder, with the permission bits given. Its parents must have been added before.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn folder(&mut self, name: &str, permissions: u32) -> io::Result<()> {
        self.entry(&Entry {
            name,
            mode: FOLDER | permissions,
            device: (0, 0),
            data: &[],
        })
    }

    /// A regular file.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn file(&mut self, name: &str, permissions: u32, data: &[u8]) -> io::Result<()> {
        self.entry(&Entry {
            name,
            mode: FILE | permissions,
            device: (0, 0),
            data,
        })
    }

    /// A symbolic link.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn link(&mut self, name: &str, target: &str) -> io::Result<()> {
        let data = target.as_bytes();
        self.entry(&Entry {
            name,
            mode: LINK | 0o777,
            device: (0, 0),
            data,
        })
    }

    /// A character device.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn device(&mut self, name: &str, permissions: u32, device: (u32, u32)) -> io::Result<()> {
        let mode = CHARACTER_DEVICE | permissions;
        self.entry(&Entry {
            name,
            mode,
            device,
            data: &[],
        })
    }

    /// All that is in a folder: its folders, files and symbolic links, in the order of their names.
    ///
    /// # Errors
    /// Those of the writer, and what can't be read or is none of these.
    pub fn tree(&mut self, folder: &Path) -> io::Result<()> {
        self.below(folder, "")
    }

    fn below(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let permissions = entry.metadata()?.permissions().mode() & 0o7777;
            if kind.is_dir() {
                self.folder(&name, permissions)?;
                self.below(&path, &format!("{name}/"))?;
            } else if kind.is_file() {
                self.file(&name, permissions, &fs::read(&path)?)?;
            } else if kind.is_symlink() {
                self.link(&name, &fs::read_link(&path)?.to_string_lossy())?;
            } else {
                let what = format!("{} is no folder, file or link", path.display());
                return Err(io::Error::other(what));
            }
        }
        Ok(())
    }

    /// Writes the closing entry and hands the writer back.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry(&Entry {
            name: "TRAILER!!!",
            mode: 0,
            device: (0, 0),
            data: &[],
        })?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        self.inode = self.inode.saturating_add(1);
        let too_big = |_| io::Error::other(format!("{} is too big for an initramfs", entry.name));
        let size = u32::try_from(entry.data.len()).map_err(too_big)?;
        let name_size = u32::try_from(entry.name.len() + 1).map_err(too_big)?;
        let (major, minor) = entry.device;
        // inode, mode, uid, gid, links, mtime, size, device major/minor, rdev major/minor, name's
        // size, checksum
        let fields = [
            self.inode, entry.mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0,
        ];
        self.put(b"070701")?;
        for field in fields {
            self.put(format!("{field:08x}").as_bytes())?;
        }
        self.put(entry.name.as_bytes())?;
        self.put(&[0])?;
        self.pad()?;
        self.put(entry.data)?;
        self.pad()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len();
        self.out.write_all(bytes)
    }

    fn pad(&mut self) -> io::Result<()> {
        while !self.written.is_multiple_of(4) {
            self.put(&[0])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names, modes and contents in an archive, read by the form's description.
    fn read(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        loop {
            let field = |number: usize| {
                let text = std::str::from_utf8(&bytes[6 + number * 8..14 + number * 8]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            assert_eq!(&bytes[..6], b"070701");
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(bytes[110..110 + name_size - 1].to_vec()).unwrap();
            if name == "TRAILER!!!" {
                return found;
            }
            let at = (110 + name_size).next_multiple_of(4);
            found.push((name, mode, bytes[at..at + size].to_vec()));
            bytes = &bytes[(at + size).next_multiple_of(4)..];
        }
    }

    #[test]
    fn an_archive_is_what_its_form_says() {
        let mut archive = Archive::new(Vec::new());
        archive.folder("a", 0o755).unwrap();
        archive.file("a/odd", 0o640, b"12345").unwrap();
        archive.link("a/link", "odd").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let expected = [
            ("a".to_owned(), 0o040_755, b"".to_vec()),
            ("a/odd".to_owned(), 0o100_640, b"12345".to_vec()),
            ("a/link".to_owned(), 0o120_777, b"odd".to_vec()),
        ];
        assert_eq!(read(&bytes), expected);
    }

    #[test]
    fn a_tree_is_all_that_is_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("bin");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("tool"), "tool").unwrap();
        for (path, mode) in [(&inner, 0o755), (&inner.join("tool"), 0o750)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink("bin/tool", folder.path().join("init")).unwrap();
        let mut archive = Archive::new(Vec::new());
        archive.tree(folder.path()).unwrap();
        let expected = [
            ("bin".to_owned(), 0o040_755, b"".to_vec()),
            ("bin/tool".to_owned(), 0o100_750, b"tool".to_vec()),
            ("init".to_owned(), 0o120_777, b"bin/tool".to_vec()),
        ];
        assert_eq!(read(&archive.finish().unwrap()), expected);
    }
}
