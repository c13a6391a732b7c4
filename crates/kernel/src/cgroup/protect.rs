// SPDX-License-Identifier: Apache-2.0
//! Protections of memory (`memory.min`) on the way down to a group: the kernel gives a group no
//! more of one than every group around it has. Who writes the limits of one group is
//! `super::limits`.

use std::path::{Path, PathBuf};

use super::Cgroup;
use crate::{Context, Result};

const FILE: &str = "memory.min";

impl Cgroup {
    /// `memory.min`, in bytes (`u64::MAX` is `max`); 0 where the group has no such file, which is
    /// so without the controller and at the root of the hierarchy.
    ///
    /// # Errors
    /// `ENODEV`: the group is gone.
    pub fn memory_min(&self) -> Result<u64> {
        match self.read(FILE) {
            Ok(text) => Ok(bytes_of(&text)),
            Err(error) if error.is_not_found() => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Gives the group the `memory.min` that the groups in it have together. Answers it, in bytes.
    ///
    /// # Errors
    /// The kernel's refusal to list, to read or to write.
    pub fn protect_children(&self) -> Result<u64> {
        let mut total = 0u64;
        for name in self.children()? {
            let Some(name) = name.to_str() else { continue };
            match self.child(name).and_then(|child| child.memory_min()) {
                Ok(bytes) => total = total.saturating_add(bytes),
                // It went meanwhile.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        if self.memory_min()? != total {
            let value = match total {
                u64::MAX => "max".to_owned(),
                bytes => bytes.to_string(),
            };
            self.write(FILE, &value)?;
        }
        Ok(total)
    }

    /// The first group around this one, up to the root of the hierarchy at `mount`, that has less
    /// `memory.min` than `bytes`, with what it has: there the protection ends.
    ///
    /// # Errors
    /// The kernel's refusal to read one of them.
    pub fn unprotected_by(&self, bytes: u64, mount: &Path) -> Result<Option<(PathBuf, u64)>> {
        let around = self.path().ancestors().skip(1);
        for path in around.take_while(|path| *path != mount) {
            let file = path.join(FILE);
            let has = bytes_of(&std::fs::read_to_string(&file).call_on("read", &file)?);
            if has < bytes {
                return Ok(Some((path.to_owned(), has)));
            }
        }
        Ok(None)
    }
}

fn bytes_of(text: &str) -> u64 {
    match text.trim() {
        "max" => u64::MAX,
        number => number.parse().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of groups in an ordinary folder: no controller is needed to reckon.
    fn folder(at: &Path, min: &str) -> Cgroup {
        std::fs::create_dir_all(at).unwrap();
        std::fs::write(at.join(FILE), min).unwrap();
        let directory = std::fs::File::open(at).unwrap();
        Cgroup::from_fd(directory.into(), at)
    }

    #[test]
    fn a_group_gets_what_those_in_it_have_together() {
        let mount = tempfile::tempdir().unwrap();
        let base = folder(&mount.path().join("base"), "0");
        assert_eq!(base.protect_children().unwrap(), 0);
        folder(&base.path().join("one"), "67108864");
        folder(&base.path().join("two"), "67108864");
        std::fs::create_dir(base.path().join("without")).unwrap();
        assert_eq!(base.protect_children().unwrap(), 128 << 20);
        assert_eq!(base.memory_min().unwrap(), 128 << 20);
        std::fs::write(base.path().join("one/memory.min"), "0").unwrap();
        assert_eq!(base.protect_children().unwrap(), 64 << 20);
        std::fs::write(base.path().join("two/memory.min"), "max").unwrap();
        assert_eq!(base.protect_children().unwrap(), u64::MAX);
        assert_eq!(base.read(FILE).unwrap().get(..3), Some("max"));
    }

    #[test]
    fn the_group_that_ends_a_protection_is_named() {
        let mount = tempfile::tempdir().unwrap();
        let above = folder(&mount.path().join("above"), "100");
        let slice = folder(&above.path().join("slice"), "max");
        let base = folder(&slice.path().join("base"), "0");
        assert_eq!(base.unprotected_by(100, mount.path()).unwrap(), None);
        let ends = Some((above.path().to_owned(), 100));
        assert_eq!(base.unprotected_by(101, mount.path()).unwrap(), ends);
    }
}
