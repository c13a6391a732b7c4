// SPDX-License-Identifier: Apache-2.0
//! Devices as udev's daemon knows them (systemd.device(5)): which units a device has, whether it is
//! ready, and what it wants to be started. Those that a rule has given the tag `systemd` count.
//! What udev says comes as events; what it has said before a daemon came is in its database
//! ([`database`]).

mod database;

use std::collections::{BTreeMap, BTreeSet};

use kernel::netlink::Uevent;
use units::name::{UnitName, UnitType, of_path};

pub(crate) use database::read;

/// More devices than that aren't known.
const MOST: usize = 16 * 1024;

/// What is known of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Device {
    /// By its folder in `/sys`, its node, its links, and what rules call it besides.
    pub(crate) units: BTreeSet<UnitName>,
    /// It may be used.
    pub(crate) ready: bool,
    /// Units that are started when it comes.
    pub(crate) wants: Vec<UnitName>,
}

/// All of them, by their folder in `/sys`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Devices {
    known: BTreeMap<String, Device>,
    by_unit: BTreeMap<UnitName, BTreeSet<String>>,
}

/// What an event has changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Change {
    /// Units that may be up now, or down.
    pub(crate) units: BTreeSet<UnitName>,
    /// Units to start: the device has come.
    pub(crate) wants: Vec<UnitName>,
}

impl Device {
    /// What properties say of the device of that folder; `None`: it is none of ours.
    fn of(path: &str, property: &dyn Fn(&str) -> Option<String>) -> Option<Device> {
        // Those that it has now, where udev's daemon tells them apart.
        let tags = property("CURRENT_TAGS").or_else(|| property("TAGS"));
        let tags = tags.unwrap_or_default();
        if !tags.split(':').any(|it| it == "systemd") {
            return None;
        }
        let folder = format!("/sys{path}");
        let list = |name: &str| {
            let text = property(name).unwrap_or_default();
            let words = text.split_ascii_whitespace().map(str::to_owned);
            words.collect::<Vec<_>>()
        };
        let node = property("DEVNAME").map(|it| match it.starts_with('/') {
            true => it,
            false => format!("/dev/{it}"),
        });
        let links = list("DEVLINKS").into_iter().chain(list("SYSTEMD_ALIAS"));
        let paths = node.into_iter().chain(links).chain([folder.clone()]);
        let paths = paths.filter(|it| it.starts_with('/'));
        let units = paths
            .filter_map(|it| of_path(&it, UnitType::Device))
            .collect();
        let want = |word: String| {
            let unit = UnitName::parse(&word).ok()?;
            // systemd.device(5): the instance of a template is the device's folder.
            match unit.is_template() {
                true => unit.instantiated(&units::name::escape_path(&folder)?),
                false => Some(unit),
            }
        };
        Some(Device {
            units,
            ready: property("SYSTEMD_READY").is_none_or(|it| !is_no(&it)),
            wants: list("SYSTEMD_WANTS").into_iter().filter_map(want).collect(),
        })
    }
}

/// A boolean that says no.
fn is_no(text: &str) -> bool {
    matches!(text, "0" | "no" | "n" | "false" | "f" | "off")
}

impl Devices {
    /// Takes in an event.
    pub(crate) fn take(&mut self, event: &Uevent) -> Change {
        let property = |name: &str| event.property(name).map(str::to_owned);
        let device = match event.action.as_str() {
            "remove" => None,
            _ => Device::of(&event.path, &property),
        };
        self.put(&event.path, device)
    }

    /// A device is so now; `None`: it is gone, or none of ours.
    fn put(&mut self, path: &str, device: Option<Device>) -> Change {
        let was = self.known.remove(path).unwrap_or_default();
        for unit in &was.units {
            if let Some(paths) = self.by_unit.get_mut(unit) {
                paths.remove(path);
                if paths.is_empty() {
                    self.by_unit.remove(unit);
                }
            }
        }
        let device = device.filter(|_| self.known.len() < MOST);
        let Some(device) = device else {
            return Change {
                units: was.units,
                wants: Vec::new(),
            };
        };
        for unit in &device.units {
            let paths = self.by_unit.entry(unit.clone()).or_default();
            paths.insert(path.to_owned());
        }
        let comes = device.ready && !was.ready;
        let change = Change {
            units: was.units.union(&device.units).cloned().collect(),
            wants: device.wants.iter().filter(|_| comes).cloned().collect(),
        };
        self.known.insert(path.to_owned(), device);
        change
    }

    /// Whether a unit's device is ready; `None`: udev knows of none.
    pub(crate) fn is_ready(&self, unit: &UnitName) -> Option<bool> {
        let paths = self.by_unit.get(unit)?;
        let mut devices = paths.iter().filter_map(|it| self.known.get(it));
        Some(devices.any(|it| it.ready))
    }

    /// Takes in the whole database, after events were lost or before any came.
    pub(crate) fn replace(&mut self, all: Vec<(String, Device)>) -> Change {
        let mut change = Change::default();
        let there: BTreeSet<&String> = all.iter().map(|(path, _)| path).collect();
        let gone = self.known.keys().filter(|it| !there.contains(it));
        for path in gone.cloned().collect::<Vec<_>>() {
            change.units.extend(self.put(&path, None).units);
        }
        for (path, device) in all {
            let one = self.put(&path, Some(device));
            change.units.extend(one.units);
            change.wants.extend(one.wants);
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(action: &str, path: &str, more: &[(&str, &str)]) -> Uevent {
        let pairs = more
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Uevent {
            action: action.to_owned(),
            path: path.to_owned(),
            properties: pairs.collect(),
        }
    }

    fn names(units: &BTreeSet<UnitName>) -> Vec<&str> {
        units.iter().map(UnitName::as_str).collect()
    }

    fn unit(name: &str) -> UnitName {
        UnitName::parse(name).unwrap()
    }

    const DISK: &str = "/devices/pci0000:00/0000:00:04.0/block/vda";

    #[test]
    fn a_device_has_the_units_of_its_node_its_links_and_its_folder() {
        // systemd.device(5).
        let mut devices = Devices::default();
        let change = devices.take(&event(
            "add",
            DISK,
            &[
                ("TAGS", ":systemd:other:"),
                ("DEVNAME", "/dev/vda"),
                ("DEVLINKS", "/dev/disk/by-id/x /dev/disk/by-label/a\\x20b"),
                ("SYSTEMD_ALIAS", "/dev/other relative"),
                ("SYSTEMD_WANTS", "a.service b@.service b@c.service"),
            ],
        ));
        let folder = "sys-devices-pci0000:00-0000:00:04.0-block-vda.device";
        let units = names(&change.units);
        for expected in [
            "dev-vda.device",
            "dev-disk-by\\x2did-x.device",
            "dev-other.device",
            folder,
        ] {
            assert!(units.contains(&expected), "{expected}: {units:?}");
        }
        assert_eq!(units.len(), 5);
        let wants: Vec<&str> = change.wants.iter().map(UnitName::as_str).collect();
        let instance = "b@sys-devices-pci0000:00-0000:00:04.0-block-vda.service";
        assert_eq!(wants, ["a.service", instance, "b@c.service"]);
        assert_eq!(devices.is_ready(&unit("dev-vda.device")), Some(true));
        assert_eq!(devices.is_ready(&unit("dev-vdb.device")), None);
    }

    #[test]
    fn what_it_wants_is_started_when_it_comes_and_not_again() {
        let mut devices = Devices::default();
        let more = |ready| {
            [
                ("TAGS", ":systemd:"),
                ("DEVNAME", "vda"),
                ("SYSTEMD_READY", ready),
                ("SYSTEMD_WANTS", "a.service"),
            ]
        };
        let early = devices.take(&event("add", DISK, &more("0")));
        assert_eq!(early.wants, []);
        assert_eq!(devices.is_ready(&unit("dev-vda.device")), Some(false));
        let comes = devices.take(&event("change", DISK, &more("1")));
        assert_eq!(comes.wants, [unit("a.service")]);
        let again = devices.take(&event("change", DISK, &more("1")));
        assert_eq!(again.wants, []);
        let gone = devices.take(&event("remove", DISK, &more("1")));
        assert!(gone.units.contains(&unit("dev-vda.device")));
        assert_eq!(devices.is_ready(&unit("dev-vda.device")), None);
        assert!(devices.by_unit.is_empty() && devices.known.is_empty());
    }

    #[test]
    fn without_the_tag_it_is_nobodys() {
        let mut devices = Devices::default();
        let change = devices.take(&event("add", DISK, &[("DEVNAME", "/dev/vda")]));
        assert_eq!(change, Change::default());
    }

    #[test]
    fn after_a_loss_the_database_counts() {
        let mut devices = Devices::default();
        let tagged = [("TAGS", ":systemd:"), ("DEVNAME", "vda")];
        devices.take(&event("add", DISK, &tagged));
        let property = |name: &str| match name {
            "TAGS" => Some(":systemd:".to_owned()),
            "DEVNAME" => Some("vdb".to_owned()),
            _ => None,
        };
        let other = Device::of("/devices/b", &property).unwrap();
        let change = devices.replace(vec![("/devices/b".to_owned(), other)]);
        assert!(change.units.contains(&unit("dev-vda.device")));
        assert_eq!(devices.is_ready(&unit("dev-vda.device")), None);
        assert_eq!(devices.is_ready(&unit("dev-vdb.device")), Some(true));
    }
}
