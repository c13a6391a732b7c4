// SPDX-License-Identifier: Apache-2.0
//! `/dev`: the nodes that every container has, those of `linux.devices`, and the links.
//!
//! A node is made where the kernel lets; in a user namespace it doesn't, and the node's own is
//! shown instead, by a mount that was taken before the root changed.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::mount;
use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid};
use rustix::io::Errno;

use super::tree::Tree;
use crate::config::Spec;
use crate::error::{Doing, Result, refuse};

/// What every container has (config-linux.md, "Default Devices"); all 0666.
const DEFAULT: [(&str, u32, u32); 6] = [
    ("/dev/null", 1, 3),
    ("/dev/zero", 1, 5),
    ("/dev/full", 1, 7),
    ("/dev/random", 1, 8),
    ("/dev/urandom", 1, 9),
    ("/dev/tty", 5, 0),
];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
];

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    path: PathBuf,
    kind: FileType,
    number: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    /// The node's own of this path, where it is to be shown.
    bound: Option<OwnedFd>,
}

/// The nodes of a container; `bind` says that they can't be made.
pub(crate) fn plan(spec: &Spec, bind: bool) -> Result<Vec<Node>> {
    let mut nodes: Vec<Node> = Vec::new();
    for (path, major, minor) in DEFAULT {
        nodes.push(Node {
            path: path.into(),
            kind: FileType::CharacterDevice,
            number: rustix::fs::makedev(major, minor),
            mode: 0o666,
            uid: 0,
            gid: 0,
            bound: None,
        });
    }
    for device in &spec.linux.devices {
        let kind = match device.kind.as_str() {
            "c" | "u" => FileType::CharacterDevice,
            "b" => FileType::BlockDevice,
            "p" => FileType::Fifo,
            other => return refuse(format!("linux.devices: no type {other:?}")),
        };
        let number = |number: i64| u32::try_from(number).unwrap_or(0);
        let path = Path::new("/").join(&device.path);
        nodes.retain(|node| node.path != path);
        nodes.push(Node {
            path,
            kind,
            number: rustix::fs::makedev(number(device.major), number(device.minor)),
            mode: device.file_mode.unwrap_or(0o666) & 0o7777,
            uid: device.uid.unwrap_or(0),
            gid: device.gid.unwrap_or(0),
            bound: None,
        });
    }
    if bind {
        for node in nodes.iter_mut().filter(|node| node.kind != FileType::Fifo) {
            node.take()?;
        }
    }
    Ok(nodes)
}

impl Node {
    /// Takes the node's own device of this path, if it is the one.
    fn take(&mut self) -> Result<()> {
        let copy = mount::copy_tree(&self.path, false).doing("linux.devices")?;
        let stat = rustix::fs::fstat(&copy).doing("fstat")?;
        if FileType::from_raw_mode(stat.st_mode) != self.kind || stat.st_rdev != self.number {
            return refuse(format!(
                "linux.devices: {} of the node is another device, and a user namespace can't \
                 make this one",
                self.path.display()
            ));
        }
        self.bound = Some(copy);
        Ok(())
    }

    fn put(&self, root: &Tree) -> Result<()> {
        if let Some(bound) = &self.bound {
            let target = root.place_of_device(&self.path, 0o666)?;
            return Ok(mount::attach_on(bound, &target)?);
        }
        let folder = root.folder(self.path.parent().unwrap_or(Path::new("/")))?;
        let Some(name) = self.path.file_name() else {
            return refuse("no name of a device");
        };
        let mode = Mode::from_raw_mode(self.mode);
        let made = rustix::fs::mknodat(&folder, name, self.kind, mode, self.number);
        match made {
            Ok(()) => {}
            // Of the image, or by a mount of the configuration: it must be the device.
            Err(Errno::EXIST) => {
                let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                let same = FileType::from_raw_mode(stat.st_mode) == self.kind
                    && stat.st_rdev == self.number;
                return match same {
                    true => Ok(()),
                    false => refuse("there is something else in its place"),
                };
            }
            Err(errno) => return Err(errno.into()),
        }
        // This process's umask is 0, so the mode is whole. It isn't set again by name: by then a
        // link may be there, if another container writes to the same image.
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chownat(
            &folder,
            name,
            Some(uid),
            Some(gid),
            flags,
        )?)
    }
}

/// Makes the nodes and the links.
pub(crate) fn put(nodes: &[Node], root: &Tree) -> Result<()> {
    // A devpts of its own has its own ptmx, to which a link leads.
    let has_own = root.find(Path::new("/dev/pts/ptmx"))?.is_some();
    let linked = |node: &&Node| has_own && node.path == Path::new("/dev/ptmx");
    for node in nodes.iter().filter(|node| !linked(node)) {
        node.put(root)
            .doing(format_args!("device {}", node.path.display()))?;
    }
    let dev = root.folder(Path::new("/dev")).doing("/dev")?;
    for (name, target) in LINKS {
        link(&dev, name, target)?;
    }
    if has_own {
        match rustix::fs::unlinkat(&dev, "ptmx", AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno).doing("remove /dev/ptmx"),
        }
        link(&dev, "ptmx", "pts/ptmx")?;
    }
    Ok(())
}

fn link(dev: impl AsFd, name: &str, target: &str) -> Result<()> {
    match rustix::fs::symlinkat(target, dev, name) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno).doing(format_args!("link /dev/{name}")),
    }
}
