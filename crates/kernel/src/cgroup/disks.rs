// SPDX-License-Identifier: Apache-2.0
//! The disks of the machine, as `io.max` names them: what has a device of its own below
//! `/sys/block`. What is built on disks (dm, md, loop) isn't one: its requests are its disks'.

use std::path::Path;

use super::parse;
use crate::fsutil::read_pseudo;
use crate::{Context, Result};

/// Major and minor number of every disk that has a size, in order.
///
/// # Errors
/// `ENOENT`: there is no `/sys/block`.
pub fn disks() -> Result<Vec<(u32, u32)>> {
    disks_in(Path::new("/sys/block"))
}

fn disks_in(folder: &Path) -> Result<Vec<(u32, u32)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).call_on("readdir", folder)? {
        let disk = entry.call_on("readdir", folder)?.path();
        // A disk may go while it is looked at.
        let text = |file: &str| read_pseudo(&disk.join(file)).unwrap_or_default();
        let is_empty = parse::single(&text("size")).is_none_or(|sectors| sectors == 0);
        let is_hidden = text("hidden").trim() == "1";
        if is_empty || is_hidden || !disk.join("device").exists() {
            continue;
        }
        found.extend(parse::device(text("dev").trim()));
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_what_has_a_device_and_a_size() {
        let sys = tempfile::tempdir().unwrap();
        let add = |name: &str, dev: &str, size: &str, device: bool| {
            let at = sys.path().join(name);
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("dev"), format!("{dev}\n")).unwrap();
            std::fs::write(at.join("size"), format!("{size}\n")).unwrap();
            if device {
                std::fs::create_dir(at.join("device")).unwrap();
            }
        };
        add("vdb", "254:16", "8388608", true);
        add("vda", "254:0", "8388608", true);
        add("sr0", "11:0", "0", true);
        add("loop0", "7:0", "2048", false);
        add("nvme0c0n1", "259:1", "2048", true);
        std::fs::write(sys.path().join("nvme0c0n1/hidden"), "1\n").unwrap();
        assert_eq!(disks_in(sys.path()).unwrap(), [(254, 0), (254, 16)]);
        assert!(disks_in(&sys.path().join("none")).is_err());
    }
}
