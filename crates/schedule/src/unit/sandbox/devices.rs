// SPDX-License-Identifier: Apache-2.0
//! `DevicePolicy=` and `DeviceAllow=` (systemd.resource-control(5)), and what other directives
//! imply of them, as rules of a program's group. Devices are looked up now: one that isn't there
//! gets no rule, as in systemd.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use kernel::cgroup::devices::{Access, Kind, Rule, harmless};
use units::glob;
use units::unit::Settings;
use units::value::{Device, Value};

use super::wants::Wants;

/// The rules of a unit; `None`: every device may be used.
pub(super) fn rules(settings: &Settings, wants: &Wants) -> Option<Vec<Rule>> {
    let mut devices = match settings.get("DeviceAllow") {
        Some(Value::Devices(devices)) => devices.clone(),
        _ => Vec::new(),
    };
    if wants.protect_clock {
        devices.push(Device {
            node: "char-rtc".to_owned(),
            access: "r".to_owned(),
        });
    }
    let policy = match settings.word("DevicePolicy") {
        Some(word @ ("closed" | "strict")) => word,
        _ if wants.private_devices => "closed",
        _ if devices.is_empty() => return None,
        _ => "closed",
    };
    let mut rules = match policy {
        "strict" => Vec::new(),
        _ => harmless(),
    };
    let table = std::fs::read_to_string("/proc/devices").unwrap_or_default();
    for device in &devices {
        rules.extend(of(device, &table));
    }
    Some(rules)
}

fn of(device: &Device, table: &str) -> Vec<Rule> {
    let Some(access) = Access::parse(&device.access) else {
        return Vec::new();
    };
    let rule = |kind, major, minor| Rule {
        allow: true,
        kind,
        major: Some(major),
        minor,
        access,
    };
    for (prefix, kind) in [("char-", Kind::Character), ("block-", Kind::Block)] {
        if let Some(pattern) = device.node.strip_prefix(prefix) {
            let majors = majors(table, kind, pattern).into_iter();
            return majors.map(|major| rule(kind, major, None)).collect();
        }
    }
    let Ok(file) = std::fs::metadata(&device.node) else {
        return Vec::new();
    };
    let kind = match file.file_type() {
        it if it.is_char_device() => Kind::Character,
        it if it.is_block_device() => Kind::Block,
        _ => return Vec::new(),
    };
    let number = file.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    vec![rule(kind, major, Some(minor))]
}

/// The majors of `/proc/devices` whose names fit; a number is itself.
fn majors(table: &str, kind: Kind, pattern: &str) -> Vec<u32> {
    if let Ok(number) = pattern.parse() {
        return vec![number];
    }
    let heading = match kind {
        Kind::Block => "Block devices:",
        Kind::All | Kind::Character => "Character devices:",
    };
    let section = table
        .split("\n\n")
        .find(|it| it.trim_start().starts_with(heading));
    let lines = section.unwrap_or_default().lines().skip(1);
    let of = |line: &str| {
        let (number, name) = line.trim().split_once(' ')?;
        glob::matches(pattern, name.trim()).then(|| number.parse().ok())?
    };
    lines.filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majors_are_found_by_name_pattern_and_number() {
        let table =
            "Character devices:\n  1 mem\n  4 tty\n136 pts\n253 rtc\n\nBlock devices:\n  8 sd\n";
        assert_eq!(majors(table, Kind::Character, "pts"), [136]);
        assert_eq!(majors(table, Kind::Character, "*t*"), [4, 136, 253]);
        assert_eq!(majors(table, Kind::Character, "sd"), Vec::<u32>::new());
        assert_eq!(majors(table, Kind::Block, "sd"), [8]);
        assert_eq!(majors(table, Kind::Character, "10"), [10]);
    }
}
