// SPDX-License-Identifier: Apache-2.0
//! Every device of the node, for a container that asks for all (Docker's and Kubernetes'
//! privileged ones): the nodes in `/dev`, as they are when the container is made. A device that
//! comes later has no node in it. Links such as those of `/dev/disk` are not followed and not
//! carried over; file systems mounted below `/dev` (terminals, shared memory) have no devices that
//! would be the node's.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use model::device::Device;
use model::error::{Error, Reason};
use rustix::fs::{AtFlags, CWD, FileType};

use super::Found;

/// The most that a container is given; a machine has some hundred.
const MAX_NODES: usize = 1024;
/// How deep below `/dev` they are looked for: `/dev/bus/usb/001/002` is the fourth.
const MAX_DEPTH: usize = 8;

/// Those of the node's `/dev`, but for targets that are taken.
///
/// # Errors
/// `UNSUPPORTED`: there are more than 1,024. `INTERNAL`: `/dev` can't be read.
pub(super) fn find(taken: &BTreeSet<String>) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    let dev = Path::new("/dev");
    let system = stat(dev).map(|stat| stat.st_dev);
    let looked = system.and_then(|system| look(dev, system, MAX_DEPTH, taken, &mut found));
    looked.map_err(|error| Error::internal(format!("the node's devices: /dev: {error}")))?;
    match found.len() > MAX_NODES {
        false => Ok(found),
        true => {
            let message = format!("the node has more than {MAX_NODES} devices");
            let error = Error::new(Reason::Unsupported, message);
            Err(error.hint("name those that the container needs in `devices`"))
        }
    }
}

fn look(
    folder: &Path,
    system: u64,
    depth: usize,
    taken: &BTreeSet<String>,
    found: &mut Vec<Found>,
) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // What goes meanwhile is no device any more.
        let Ok(stat) = stat(&path) else { continue };
        let Some(name) = path.to_str().filter(|_| found.len() <= MAX_NODES) else {
            continue;
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if stat.st_dev == system && depth > 1 => {
                look(&path, system, depth - 1, taken, found)?;
            }
            FileType::CharacterDevice | FileType::BlockDevice if !taken.contains(name) => {
                let device = Device {
                    path: name.to_owned(),
                    ..Device::default()
                };
                // Some are the container's own.
                if device.check().is_ok() {
                    found.push(Found::of(&device, &stat));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn stat(path: &Path) -> io::Result<rustix::fs::Stat> {
    Ok(rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_found_but_what_is_the_containers_own_or_taken() {
        let names = |taken: &[&str]| {
            let taken = taken.iter().map(|it| (*it).to_owned()).collect();
            let found = find(&taken).unwrap().into_iter();
            found.map(|it| it.target).collect::<BTreeSet<_>>()
        };
        let all = names(&[]);
        for own in ["/dev/null", "/dev/tty", "/dev/ptmx"] {
            assert!(!all.contains(own), "{all:?}");
        }
        assert!(!all.iter().any(|it| it.starts_with("/dev/pts/")), "{all:?}");
        // Every machine has one or the other.
        let one = ["/dev/kmsg", "/dev/fuse", "/dev/net/tun", "/dev/console"];
        let one = one.into_iter().find(|it| Path::new(it).exists()).unwrap();
        assert!(all.contains(one), "{all:?}");
        let others = names(&[one]);
        assert!(!others.contains(one) && others.len() + 1 == all.len());
    }
}
