// SPDX-License-Identifier: Apache-2.0
//! Writes cpio archives in the "newc" form, the one that the kernel unpacks as an initramfs.
//!
//! Only what an initramfs needs: folders, files, symbolic links and character devices, all owned by
//! root. The form is described in the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`.

use std::io::{self, Write};

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
    /// Starts an archive.
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
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn an_archive_is_what_cpio_reads() {
        let mut archive = Archive::new(Vec::new());
        archive.folder("a", 0o755).unwrap();
        archive.file("a/odd", 0o640, b"12345").unwrap();
        archive.link("a/link", "odd").unwrap();
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let Ok(mut cpio) = Command::new("cpio")
            .args(["-tv", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            return; // cpio is only this test's second opinion
        };
        cpio.stdin.take().unwrap().write_all(&bytes).unwrap();
        let listed = String::from_utf8(cpio.wait_with_output().unwrap().stdout).unwrap();
        assert!(listed.contains("-rw-r-----"), "{listed}");
        assert!(listed.contains("a/link -> odd"), "{listed}");
    }
}
