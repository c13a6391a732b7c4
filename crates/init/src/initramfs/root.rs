// SPDX-License-Identifier: Apache-2.0
//! The root file system: waiting for its device, and mounting it.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::netlink::Uevents;
use kernel::poll::{self, Deadline, Interest};
use kernel::{Context, Error, Result};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::{Words, superblock};

/// How long a device may take to appear.
const DEVICE_WAIT: Duration = Duration::from_secs(30);

/// Mounts the device of `root=` at a folder.
pub(super) fn mount(device: &str, words: &Words, target: &Path) -> Result<()> {
    let device = wait_for(device)?;
    let types = match &words.fs_type {
        Some(list) => list.split(',').map(str::to_owned).collect(),
        None => types_of(&device),
    };
    let mut flags = MountFlags::RELATIME;
    flags.set(MountFlags::RDONLY, words.read_only);
    let options = CString::new(words.flags.as_str()).unwrap_or_default();
    let mut last = Error::new("mount", Errno::NODEV).about("no file system to try");
    for kind in types {
        match rustix::mount::mount(&device, target, kind.as_str(), flags, options.as_c_str()) {
            Ok(()) => return Ok(()),
            // Another type's business, or one whose module isn't there.
            Err(errno @ (Errno::INVAL | Errno::NODEV)) => last = mount_error(errno, &device, &kind),
            Err(errno) => return Err(mount_error(errno, &device, &kind)),
        }
    }
    Err(last)
}

fn mount_error(errno: Errno, device: &Path, kind: &str) -> Error {
    Error::new("mount", errno).about(format!("{} as {kind}", device.display()))
}

/// Its drivers, the best first; of what isn't known, all that the kernel has. A wrong driver's try
/// is an error on the console.
fn types_of(device: &Path) -> Vec<String> {
    match superblock::of(device) {
        Some(found) => found.drivers.iter().map(|&kind| kind.to_owned()).collect(),
        None => known_types(&std::fs::read_to_string("/proc/filesystems").unwrap_or_default()),
    }
}

/// Types that need a device, as the kernel lists them.
fn known_types(list: &str) -> Vec<String> {
    let needs_device = list.lines().filter(|line| !line.starts_with("nodev"));
    needs_device
        .map(|line| line.trim().to_owned())
        .filter(|kind| !kind.is_empty())
        .collect()
}

/// The node of the device, as soon as the kernel has made it.
fn wait_for(device: &str) -> Result<PathBuf> {
    // First the news, then the look: nothing is missed in between.
    let news = Uevents::open()?;
    let deadline = Deadline::after(DEVICE_WAIT);
    loop {
        if let Some(path) = find(device)? {
            return Ok(path);
        }
        if !poll::wait(&news, Interest::Readable, deadline)? {
            let about = format!("root={device} did not appear in {DEVICE_WAIT:?}");
            return Err(Error::new("wait for device", Errno::NODEV).about(about));
        }
        // Whatever it is, and also where some were lost (ENOBUFS): look again.
        while let Ok(Some(_)) = news.next() {}
    }
}

/// `/dev/NAME`; `PARTUUID=` and `PARTLABEL=`, as the kernel knows them; `UUID=` and `LABEL=`, as
/// the file systems say.
fn find(device: &str) -> Result<Option<PathBuf>> {
    if device.starts_with("/dev/") {
        let path = PathBuf::from(device);
        return Ok(path.exists().then_some(path));
    }
    let (tag, name) = device.split_once('=').unwrap_or_default();
    if !["UUID", "LABEL", "PARTUUID", "PARTLABEL"].contains(&tag) || name.is_empty() {
        let expected = "/dev/NAME, UUID=ID, LABEL=NAME, PARTUUID=ID or PARTLABEL=NAME is expected";
        let about = format!("root={device}: {expected}");
        return Err(Error::new("find root", Errno::INVAL).about(about));
    }
    let blocks = std::fs::read_dir("/sys/class/block").call("read /sys/class/block")?;
    for block in blocks.flatten() {
        let device = Path::new("/dev").join(block.file_name());
        let properties = || std::fs::read_to_string(block.path().join("uevent"));
        let is_it = match tag {
            "UUID" => {
                superblock::of(&device).is_some_and(|found| found.uuid.eq_ignore_ascii_case(name))
            }
            "LABEL" => superblock::of(&device).is_some_and(|found| found.label == name),
            "PARTUUID" => has_line(&properties().unwrap_or_default(), "PARTUUID", name),
            _ => has_line(&properties().unwrap_or_default(), "PARTNAME", name),
        };
        if is_it {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

/// Whether a device's properties have this one.
fn has_line(properties: &str, name: &str, value: &str) -> bool {
    let mut lines = properties.lines().filter_map(|line| line.split_once('='));
    lines.any(|(key, has)| key == name && has.eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_with_a_device_are_tried() {
        assert_eq!(
            known_types("nodev\tsysfs\n\text4\nnodev\ttmpfs\n\tvfat\n"),
            ["ext4", "vfat"]
        );
    }

    #[test]
    fn a_root_that_can_not_be_found_says_what_can() {
        for wrong in ["vda", "NAME=vda", "UUID="] {
            let error = find(wrong).unwrap_err();
            assert!(error.to_string().contains("PARTUUID"), "{error}");
        }
        assert_eq!(
            find("UUID=00000000-dead-beef-0000-000000000000").unwrap(),
            None
        );
        assert_eq!(find("/dev/no-such-device").unwrap(), None);
    }
}
