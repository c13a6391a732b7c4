// SPDX-License-Identifier: Apache-2.0
//! Overlay mounts (the kernel's `Documentation/filesystems/overlayfs.rst`), and the names of file
//! systems, for those that refuse something.
//!
//! By `mount(2)` with short relative names: the newer calls take a folder of an overlay since Linux
//! 6.5 alone, one at a time, and before that a list of 256 bytes; `mount(2)` takes a page of
//! options on every kernel. The names are looked up once, at the mount; what they lead to is kept
//! by the overlay itself.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::{Context, Error, Result};

/// The most folders below the upper one (`OVL_MAX_STACK`).
pub const MAX_LOWER: usize = 500;
/// The longest list of options that `mount(2)` takes: a page, with a NUL.
const MAX_OPTIONS: usize = 4095;

/// The folders of an overlay, by names without `:`, `,` and `\`, relative to the working directory.
#[derive(Clone, Copy, Debug)]
pub struct Folders<'a> {
    /// The lower ones, the uppermost first.
    pub lower: &'a [String],
    /// The upper and the work folder, of one mount. Without them the overlay can't be written, and
    /// takes two lower ones at least.
    pub upper: Option<(&'a str, &'a str)>,
    /// The label of SELinux's that all files have, without quotes; empty: what the policy says.
    pub label: &'a str,
}

/// Mounts an overlay at `target`. Device files do nothing in it. Extended attributes of the layers
/// that would redirect to other folders, or to data elsewhere, are not followed.
///
/// # Errors
/// `E2BIG`: more than [`MAX_LOWER`] folders, or names too long for a page. `ENOENT`: a name leads
/// nowhere. `EINVAL`: the upper and the work folder aren't of one mount, or are of a file system
/// that can't be an upper one; or a mount of a lower folder is of another mount namespace; or the
/// kernel has no such label. `EBUSY`:
/// another overlay has the upper folder. `EPERM`: without `CAP_SYS_ADMIN`. `ENODEV`: the kernel has
/// no overlayfs.
pub fn mount(folders: Folders<'_>, target: &Path) -> Result<()> {
    let options = options(folders)?;
    let mut flags = MountFlags::NODEV;
    if folders.upper.is_none() {
        flags |= MountFlags::RDONLY;
    }
    rustix::mount::mount(c"overlay", target, c"overlay", flags, options.as_c_str())
        .map_err(|errno| Error::new("mount overlay", errno).about(explain(errno, folders)))
}

fn options(folders: Folders<'_>) -> Result<CString> {
    let refused = |why: &'static str| Err(Error::new("mount overlay", Errno::TOOBIG).about(why));
    if folders.lower.len() > MAX_LOWER {
        return refused("more than 500 lower folders");
    }
    let mut options = format!("lowerdir={}", folders.lower.join(":"));
    if let Some((upper, work)) = folders.upper {
        options.push_str(&format!(",upperdir={upper},workdir={work},index=off"));
    }
    options.push_str(",redirect_dir=nofollow,metacopy=off");
    if !folders.label.is_empty() {
        // A level may have commas.
        options.push_str(&format!(",context=\"{}\"", folders.label));
    }
    if options.len() > MAX_OPTIONS {
        return refused("the names of the folders are longer than a page");
    }
    CString::new(options).map_err(|_| Error::invalid("mount overlay", "NUL in a name"))
}

fn explain(errno: Errno, folders: Folders<'_>) -> String {
    let lower = folders.lower.len();
    let why = match errno {
        Errno::NODEV => "this kernel has no overlayfs",
        Errno::BUSY => "another overlay has the upper folder",
        Errno::INVAL if !folders.label.is_empty() => {
            "the policy of SELinux has no such label, or the kernel's log has another reason"
        }
        _ => "the kernel's log has the reason",
    };
    format!("of {lower} folders: {why}")
}

/// The name of the type of a descriptor's file system, as in `/proc/filesystems`; a hexadecimal
/// number for one that isn't known here.
///
/// # Errors
/// What `fstatfs` answers.
pub fn type_name(file: impl AsFd) -> Result<String> {
    let stat = rustix::fs::fstatfs(file).call("fstatfs")?;
    // statfs(2); the numbers have 32 bits.
    let number = stat.f_type as u32;
    let known = TYPES.iter().find(|(magic, _)| *magic == number);
    Ok(known.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).to_owned()))
}

/// Of statfs(2): those that a node's folders may lie on.
const TYPES: [(u32, &str); 18] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0xF2F5_2010, "f2fs"),
    (0x2FC1_2FC1, "zfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x794C_7630, "overlay"),
    (0xE0F5_E1E2, "erofs"),
    (0x7371_7368, "squashfs"),
    (0x4D44, "vfat"),
    (0x6969, "nfs"),
    (0xFF53_4D42, "cifs"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0x9FA0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x6367_7270, "cgroup2"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| number.to_string()).collect()
    }

    #[test]
    fn as_many_layers_as_the_kernel_takes_fit_a_page() {
        let lower = names(MAX_LOWER);
        let upper = Some(("upper/upper", "upper/work"));
        let folders = Folders {
            lower: &lower,
            upper,
            label: "",
        };
        assert!(options(folders).unwrap().as_bytes().len() <= MAX_OPTIONS);
        let lower = names(MAX_LOWER + 1);
        let folders = Folders {
            lower: &lower,
            upper,
            label: "",
        };
        assert_eq!(options(folders).unwrap_err().errno(), libc::E2BIG);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_never_cut() {
        let lower = vec!["x".repeat(4000); 2];
        let folders = Folders {
            lower: &lower,
            upper: None,
            label: "",
        };
        assert_eq!(options(folders).unwrap_err().errno(), libc::E2BIG);
    }

    #[test]
    fn file_systems_are_called_by_their_names() {
        assert_eq!(
            type_name(std::fs::File::open("/proc").unwrap()).unwrap(),
            "proc"
        );
    }
}
