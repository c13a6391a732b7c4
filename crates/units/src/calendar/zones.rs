// SPDX-License-Identifier: Apache-2.0
//! Where a calendar finds its zones: a port, and its implementation over the zone files of a
//! machine.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::files::Files;

/// Where Linux keeps its zones (tzfile(5)).
const FOLDER: &str = "/usr/share/zoneinfo";
/// The machine's own (localtime(5)).
const LOCAL: &str = "/etc/localtime";

/// What a machine calls its own zone.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LocalNames {
    /// The abbreviation of its standard time.
    pub standard: Option<String>,
    /// That of its daylight saving time, if it has one.
    pub daylight: Option<String>,
}

/// Knows time zones.
pub trait Zones {
    /// The zone of that IANA name; `None` where there is none.
    fn zone(&self, name: &str) -> Option<TimeZone>;
    /// The machine's own zone.
    fn local(&self) -> TimeZone;

    /// The abbreviations of the machine's zone, as they were last used.
    fn local_names(&self) -> LocalNames {
        let mut names = LocalNames::default();
        let zone = self.local();
        // Behind the last change that any zone file has by itself.
        let Ok(late) = Timestamp::from_second(LATE) else {
            return names;
        };
        let now = zone.to_offset_info(late);
        let mut keep = |dst: bool, name: &str| {
            let slot = if dst {
                &mut names.daylight
            } else {
                &mut names.standard
            };
            slot.get_or_insert_with(|| name.to_owned());
        };
        keep(now.dst().is_dst(), now.abbreviation());
        for transition in zone.preceding(late).take(2) {
            keep(transition.dst().is_dst(), transition.abbreviation());
        }
        names
    }
}

/// 1 January 2037, UTC.
const LATE: i64 = 2_114_380_800;

/// No zone but UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UtcOnly;

impl Zones for UtcOnly {
    fn zone(&self, name: &str) -> Option<TimeZone> {
        matches!(name, "UTC" | "Etc/UTC").then_some(TimeZone::UTC)
    }

    fn local(&self) -> TimeZone {
        TimeZone::UTC
    }
}

/// The zones of a machine's files.
#[derive(Clone, Copy)]
pub struct FileZones<'a>(pub &'a dyn Files);

impl std::fmt::Debug for FileZones<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileZones")
    }
}

impl Zones for FileZones<'_> {
    fn zone(&self, name: &str) -> Option<TimeZone> {
        if !is_name(name) {
            return None;
        }
        let data = self.0.read(&format!("{FOLDER}/{name}")).ok()??;
        TimeZone::tzif(name, &data).ok()
    }

    /// UTC where nothing is set, as localtime(5) says.
    fn local(&self) -> TimeZone {
        let data = self.0.read(LOCAL).ok().flatten();
        data.and_then(|data| TimeZone::tzif("local", &data).ok())
            .unwrap_or(TimeZone::UTC)
    }
}

/// Letters, digits, `-`, `_`, `+`, in parts between single slashes: no path out of the folder.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+');
        !part.is_empty() && part.chars().all(plain)
    };
    !name.is_empty() && name.split('/').all(is_part)
}
