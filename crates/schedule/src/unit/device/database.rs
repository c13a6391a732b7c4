// SPDX-License-Identifier: Apache-2.0
//! What udev's daemon has written down of devices with the tag `systemd`: `/run/udev/tags/systemd`
//! names them, `/run/udev/data` has what rules have set. Blocks. An id is `b8:0` or `c4:64` by
//! number, `n2` by the number of a network's interface, or `+SUBSYSTEM:NAME`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Device, MOST};

const TAGGED: &str = "/run/udev/tags/systemd";
const DATA: &str = "/run/udev/data";

/// All devices, with their folders in `/sys` less that.
pub(crate) fn read() -> Vec<(String, Device)> {
    let ids = fs::read_dir(TAGGED).into_iter().flatten().flatten();
    let ids = ids.filter_map(|it| it.file_name().into_string().ok());
    let one = |id: String| {
        let text = fs::read(Path::new(DATA).join(&id)).ok()?;
        let folder = fs::canonicalize(folder(&id)?).ok()?;
        let path = folder.to_str()?.strip_prefix("/sys")?.to_owned();
        let uevent = fs::read_to_string(folder.join("uevent")).unwrap_or_default();
        let said = properties(&uevent, &String::from_utf8_lossy(&text));
        let device = Device::of(&path, &|name| said.get(name).cloned())?;
        Some((path, device))
    };
    ids.take(MOST).filter_map(one).collect()
}

/// The link to a device's folder.
fn folder(id: &str) -> Option<PathBuf> {
    let (kind, rest) = id.split_at_checked(1)?;
    Some(match kind {
        "b" => Path::new("/sys/dev/block").join(rest),
        "c" => Path::new("/sys/dev/char").join(rest),
        "n" => interface(rest)?,
        _ => {
            let (subsystem, name) = rest.split_once(':')?;
            let name = name.replace('!', "/");
            let places = [
                format!("/sys/bus/{subsystem}/devices/{name}"),
                format!("/sys/class/{subsystem}/{name}"),
                format!("/sys/{subsystem}/{name}"),
            ];
            places
                .map(PathBuf::from)
                .into_iter()
                .find(|it| it.exists())?
        }
    })
}

/// The interface of that number.
fn interface(number: &str) -> Option<PathBuf> {
    let all = fs::read_dir("/sys/class/net").ok()?.flatten();
    let number_of = |it: &fs::DirEntry| fs::read_to_string(it.path().join("ifindex"));
    let mut all = all.filter(|it| number_of(it).is_ok_and(|has| has.trim() == number));
    all.next().map(|it| it.path())
}

/// The kernel's properties of a device, and those of rules: `E:NAME=VALUE`, `S:LINK`, `G:TAG`.
fn properties(kernel: &str, data: &str) -> BTreeMap<String, String> {
    let pairs = |text: &str| {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let owned = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        owned.collect::<BTreeMap<_, _>>()
    };
    let mut all = pairs(kernel);
    let (mut links, mut tags) = (String::new(), String::from(":"));
    for line in data.lines() {
        match line.split_once(':') {
            Some(("E", pair)) => all.extend(pairs(pair)),
            Some(("S", link)) => links.push_str(&format!("/dev/{link} ")),
            // Those that it has now; `G:` are those that it ever had.
            Some(("Q", tag)) => tags.push_str(&format!("{tag}:")),
            _ => {}
        }
    }
    all.insert("DEVLINKS".to_owned(), links);
    all.insert("TAGS".to_owned(), tags);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_says_what_an_event_says() {
        let kernel = "MAJOR=254\nDEVNAME=vda\nDEVTYPE=disk\n";
        let data = "S:disk/by-id/virtio-x\nW:2\nE:ID_SERIAL=x\nE:SYSTEMD_READY=0\n\
                    G:systemd\nQ:systemd\nV:1\n";
        let all = properties(kernel, data);
        let device = Device::of("/devices/x", &|name| all.get(name).cloned()).unwrap();
        let units: Vec<&str> = device.units.iter().map(|it| it.as_str()).collect();
        let expected = [
            "dev-disk-by\\x2did-virtio\\x2dx.device",
            "dev-vda.device",
            "sys-devices-x.device",
        ];
        assert_eq!(units, expected);
        assert!(!device.ready);
    }

    #[test]
    fn an_id_leads_to_a_folder() {
        assert_eq!(folder("b8:0"), Some("/sys/dev/block/8:0".into()));
        assert_eq!(folder("c4:64"), Some("/sys/dev/char/4:64".into()));
        assert_eq!(folder("+none:x"), None);
        assert_eq!(folder(""), None);
    }
}
