// SPDX-License-Identifier: Apache-2.0
//! `/proc/PID/mountinfo`, read (proc(5)).

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;

use crate::{Context, Error, Result};

/// One mount of a mount namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountInfo {
    /// Its id, unique in the namespace while it is mounted.
    pub id: u32,
    /// The id of the mount it sits on.
    pub parent: u32,
    /// Device numbers of its file system.
    pub device: (u32, u32),
    /// The folder of the file system that is mounted.
    pub root: PathBuf,
    /// The path where it is mounted, seen from the reader's root.
    pub target: PathBuf,
    /// Its own options (`ro,nosuid`).
    pub options: String,
    /// Optional fields (`shared:1`, `master:2`); none for a private mount.
    pub propagation: Vec<String>,
    /// The file system's type.
    pub fs_type: String,
    /// The source of the mount: a device's path, or a word of the file system's own.
    pub source: OsString,
    /// The file system's options.
    pub super_options: String,
}

impl MountInfo {
    /// Whether one of the mount's own options is this.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.split(',').any(|o| o == option)
    }

    /// Whether what is mounted below it is mounted in the other mounts of its group, too.
    pub fn is_shared(&self) -> bool {
        self.has_field("shared:")
    }

    /// Whether what is mounted below another mount is mounted below this, too.
    pub fn is_slave(&self) -> bool {
        self.has_field("master:")
    }

    fn has_field(&self, name: &str) -> bool {
        self.propagation.iter().any(|field| field.starts_with(name))
    }

    /// Whether one of the file system's options is this.
    pub fn has_super_option(&self, option: &str) -> bool {
        self.super_options.split(',').any(|o| o == option)
    }
}

/// The mount that a file is on, as the caller's namespace has it; `None` where it isn't one of that
/// namespace.
///
/// # Errors
/// Those of [`read`], and of statx(2).
pub fn of(file: impl AsFd) -> Result<Option<MountInfo>> {
    let asked = rustix::fs::StatxFlags::MNT_ID;
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, asked).call("statx")?;
    Ok(read()?
        .into_iter()
        .find(|mount| u64::from(mount.id) == stat.stx_mnt_id))
}

/// The mounts of the caller's namespace that its root can reach, in the order they were made.
///
/// # Errors
/// `ENOENT`: `/proc` is not mounted. `EINVAL`: a line isn't as proc(5) has it; the message repeats
/// it.
pub fn read() -> Result<Vec<MountInfo>> {
    let path = Path::new("/proc/self/mountinfo");
    parse(&std::fs::read(path).call_on("read", path)?)
}

/// Parses the file's text.
///
/// # Errors
/// `EINVAL`: a line isn't as proc(5) has it; the message repeats it.
pub fn parse(text: &[u8]) -> Result<Vec<MountInfo>> {
    let lines = text.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let wrong = |line: &[u8]| {
        let line = String::from_utf8_lossy(line).into_owned();
        Error::invalid("mountinfo", "").about(line)
    };
    lines
        .map(|line| parse_line(line).ok_or_else(|| wrong(line)))
        .collect()
}

fn parse_line(line: &[u8]) -> Option<MountInfo> {
    let mut fields = line.split(|b| *b == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let (major, minor) = text(fields.next()?)?
        .split_once(':')
        .map(|(a, b)| (a.parse(), b.parse()))?;
    let root = unescape(fields.next()?).into();
    let target = unescape(fields.next()?).into();
    let options = text(fields.next()?)?.to_owned();
    let propagation = fields
        .by_ref()
        .take_while(|field| *field != b"-")
        .map(|field| text(field).map(str::to_owned))
        .collect::<Option<_>>()?;
    Some(MountInfo {
        id,
        parent,
        device: (major.ok()?, minor.ok()?),
        root,
        target,
        options,
        propagation,
        fs_type: unescape(fields.next()?).into_string().ok()?,
        source: unescape(fields.next()?),
        super_options: unescape(fields.next().unwrap_or_default())
            .into_string()
            .ok()?,
    })
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn number(bytes: &[u8]) -> Option<u32> {
    text(bytes)?.parse().ok()
}

/// Undoes the kernel's `\ooo` for space, tab, newline, backslash and `#`.
fn unescape(bytes: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        rest = match rest {
            [
                b'\\',
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                tail @ ..,
            ] => {
                out.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
            [] => return OsString::from_vec(out),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn the_manual_s_example_is_read() {
        let line = b"36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:7 \
            - ext3 /dev/root rw,errors=continue\n";
        let mounts = parse(line).unwrap();
        let mount = &mounts[0];
        assert_eq!((mount.id, mount.parent, mount.device), (36, 35, (98, 0)));
        assert_eq!(mount.target, Path::new("/mnt 2"));
        assert_eq!(mount.propagation, ["master:1", "shared:7"]);
        assert!(mount.has_option("noatime") && !mount.has_option("atime"));
        assert!(mount.has_super_option("errors=continue"));
        assert_eq!(
            (mount.fs_type.as_str(), mount.source.as_bytes()),
            ("ext3", &b"/dev/root"[..])
        );
    }

    #[test]
    fn this_machine_s_own_table_is_read() {
        let mounts = read().unwrap();
        assert!(mounts.iter().any(|m| m.target == Path::new("/")));
        assert!(mounts.iter().any(|m| m.fs_type == "proc"));
    }

    #[test]
    fn a_cut_line_is_named() {
        let error = parse(b"36 35 98:0 /mnt1 /mnt2 rw").unwrap_err();
        assert!(error.to_string().contains("36 35"), "{error}");
    }

    fn escape(bytes: &[u8]) -> Vec<u8> {
        let one = |b: &u8| match b {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => format!("\\{b:03o}").into_bytes(),
            b => vec![*b],
        };
        bytes.iter().flat_map(one).collect()
    }

    proptest! {
        #[test]
        fn any_path_survives_escaping(path in prop::collection::vec(1u8.., 0..40)) {
            let read = unescape(&escape(&path));
            prop_assert_eq!(read.as_bytes(), &path[..]);
        }

        #[test]
        fn nothing_is_too_odd_for_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
