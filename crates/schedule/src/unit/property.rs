// SPDX-License-Identifier: Apache-2.0
//! Settings that a caller gives a unit while it is there (`systemctl set-property`, and
//! `SetUnitProperties` of the bus): drop-ins in the folders that systemctl keeps them in, which
//! `systemctl revert` empties. All files are read again then: limits hold for what runs at once,
//! other settings when it is started anew. Marks ([`super::marker`]) are the one setting that is in
//! no file.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use identity::Permit;
use model::error::{Error, Reason};
use model::unit::UnitManager;
use units::name::UnitName;
use units::table;

use super::disk;
use super::handle::Units;
use super::manager::Order;
use super::table::Folders;
use super::{given, marker};

/// What marks a unit, and stands in no file.
const MARKERS: &str = "Markers";
/// The most lines of one call.
const MOST: usize = 256;
/// The largest drop-in, in bytes.
const LARGEST: usize = 64 << 10;
const HEAD: &str = "# This is a drop-in unit file extension, created via \
    \"systemctl set-property\"\n# or an equivalent operation. Do not edit.\n";

/// Where drop-ins of callers are: `/etc/systemd/system.control`, and until the next reboot
/// `/run/systemd/system.control`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Places {
    persistent: PathBuf,
    runtime: PathBuf,
}

impl Places {
    /// Those beside the folders of units.
    pub(super) fn beside(folders: &Folders) -> Places {
        let beside = |folder: &str| PathBuf::from(format!("{folder}.control"));
        Places {
            persistent: beside(&folders.persistent),
            runtime: beside(&folders.runtime),
        }
    }

    fn of(&self, unit: &UnitName, runtime: bool) -> PathBuf {
        let top = if runtime {
            &self.runtime
        } else {
            &self.persistent
        };
        top.join(format!("{unit}.d"))
    }
}

/// What a call asks for, checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Asked {
    /// Name and text of each drop-in.
    files: Vec<(String, String)>,
    marks: Option<marker::Change>,
}

/// The section of a unit's file that a directive stands in.
fn section(unit: &UnitName, name: &str) -> Option<&'static str> {
    let kind = unit.kind().section().unwrap_or("Unit");
    let mut sections = ["Unit", kind].into_iter();
    sections.find(|section| table::find(section, name).is_some())
}

/// The drop-ins of these settings: one for each name, with a line for each value.
fn asked(unit: &UnitName, settings: &[(String, String)]) -> Result<Asked, Error> {
    let at = |at: usize| format!("settings[{at}]");
    if settings.is_empty() || settings.len() > MOST {
        let words = format!("must be between 1 and {MOST}");
        return Err(Error::invalid("settings", words));
    }
    let mut asked = Asked::default();
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for (i, (name, value)) in settings.iter().enumerate() {
        if name == MARKERS {
            let change = marker::Change::parse(value);
            asked.marks = Some(change.map_err(|error| error.within(&at(i)))?);
            continue;
        }
        let Some(section) = section(unit, name) else {
            let shown: String = name.chars().take(80).collect();
            let words = format!("Cannot set property {shown}, or unknown property.");
            return Err(Error::invalid(at(i), words));
        };
        if value.contains(['\n', '\r', '\0']) || value.ends_with('\\') {
            return Err(Error::invalid(
                at(i),
                format!("{name} has more than one line"),
            ));
        }
        let text = texts.entry(name);
        let text = text.or_insert_with(|| format!("{HEAD}[{section}]\n"));
        text.push_str(&format!("{name}={value}\n"));
        if text.len() > LARGEST {
            return Err(Error::invalid(
                at(i),
                format!("{name} is longer than {LARGEST} bytes"),
            ));
        }
    }
    let file = |(name, text)| (format!("50-{name}.conf"), text);
    asked.files = texts.into_iter().map(file).collect();
    Ok(asked)
}

/// Writes a file: the whole of it or none, whatever ends the daemon or the machine.
fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    // No drop-in has such a name.
    let draft = folder.join(format!(".#{name}"));
    std::fs::create_dir_all(folder)?;
    std::fs::write(&draft, text)?;
    std::fs::File::open(&draft)?.sync_all()?;
    std::fs::rename(&draft, folder.join(name))
}

impl Units {
    /// Gives a unit settings, as its file would say them; `runtime`: until the next reboot. They
    /// are in force when this answers, as far as they are for what runs.
    ///
    /// # Errors
    /// `NOT_FOUND`; `INVALID_FIELD`: a name is no setting of such a unit, a value has several
    /// lines, there are more than 256; `WRONG_STATE`: they can't be written.
    pub async fn set_properties(
        &self,
        permit: &Permit,
        unit: UnitName,
        settings: &[(String, String)],
        runtime: bool,
    ) -> Result<(), Error> {
        let id = self.view(permit, unit, true).await?.id;
        let Asked { files, marks } = asked(&id, settings)?;
        if !files.is_empty() {
            let folder = self.places.of(&id, runtime);
            let written = tokio::task::spawn_blocking(move || {
                let mut files = files.iter();
                let written = files.try_for_each(|(name, text)| write(&folder, name, text));
                let written = written.and_then(|()| disk::settle(&folder));
                written.map_err(|error| failed(&folder, &error))
            });
            written
                .await
                .map_err(|e| Error::internal(e.to_string()))??;
            self.reload(permit).await?;
        }
        match marks {
            Some(change) => {
                self.ask(permit, |reply| Order::Mark(id, change, reply))
                    .await
            }
            None => Ok(()),
        }
    }

    /// What callers have given the manager itself.
    ///
    /// # Errors
    /// `UNSUPPORTED`: the node runs no units.
    pub async fn given(&self, permit: &Permit) -> Result<UnitManager, Error> {
        self.ask(permit, Order::Given).await
    }

    /// Takes variables of the manager away, by their names or as `NAME=value` where they have that
    /// value; then puts in those of `set`, as `NAME=value`. Later commands of units have them.
    /// `watchdogs`: whether services that don't say that they live are ended.
    ///
    /// # Errors
    /// `INVALID_FIELD`: one is no variable. `LIMIT_EXCEEDED`: all together take more than 16 KiB.
    pub async fn give(
        &self,
        permit: &Permit,
        unset: Vec<String>,
        set: &[String],
        watchdogs: Option<bool>,
    ) -> Result<UnitManager, Error> {
        let change = given::Change::parse(unset, set)?;
        self.ask(permit, |reply| Order::Give(change, watchdogs, reply))
            .await
    }
}

fn failed(folder: &Path, error: &io::Error) -> Error {
    let failed = Error::new(Reason::WrongState, format!("{}: {error}", folder.display()));
    match error.raw_os_error() {
        Some(errno) => failed.errno(errno),
        None => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(unit: &str, settings: &[(&str, &str)]) -> Result<Asked, Error> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let settings: Vec<_> = settings.iter().map(own).collect();
        asked(&UnitName::parse(unit).unwrap(), &settings)
    }

    #[test]
    fn a_setting_is_a_drop_in_of_its_own() {
        let made = of(
            "a.service",
            &[
                ("MemoryMax", "1M"),
                ("Description", "x"),
                ("IPAddressAllow", "10.0.0.1"),
                ("IPAddressAllow", "10.0.0.2"),
            ],
        );
        let made = made.unwrap();
        let names: Vec<&str> = made.files.iter().map(|it| it.0.as_str()).collect();
        let wanted = [
            "50-Description.conf",
            "50-IPAddressAllow.conf",
            "50-MemoryMax.conf",
        ];
        assert_eq!(names, wanted);
        assert_eq!(made.files[2].1, format!("{HEAD}[Service]\nMemoryMax=1M\n"));
        assert!(made.files[0].1.ends_with("[Unit]\nDescription=x\n"));
        assert!(
            made.files[1]
                .1
                .ends_with("IPAddressAllow=10.0.0.1\nIPAddressAllow=10.0.0.2\n")
        );
        assert_eq!(made.marks, None);
        let slice = of("a.slice", &[("TasksMax", "5")]).unwrap();
        assert!(slice.files[0].1.contains("[Slice]\n"));
    }

    #[test]
    fn marks_are_in_no_file() {
        let made = of("a.service", &[("Markers", "+needs-restart")]).unwrap();
        assert!(made.files.is_empty() && made.marks.is_some());
    }

    #[test]
    fn what_is_no_setting_is_refused_by_its_place() {
        for wrong in [
            ("Moon", "1"),
            ("ListenStream", "1"),
            ("MemoryMax", "1\n[Unit]"),
            ("MemoryMax", "1\\"),
            ("Markers", "soon"),
        ] {
            let error = of("a.service", &[("TasksMax", "5"), wrong]).unwrap_err();
            let field = error.field.clone().unwrap();
            assert!(field.starts_with("settings[1]"), "{wrong:?} {field}");
        }
        assert!(of("a.service", &[]).is_err());
        assert!(of("a.service", &[("TasksMax", "5"); MOST + 1]).is_err());
        let large = "x".repeat(LARGEST);
        assert!(of("a.service", &[("Description", &large)]).is_err());
    }

    #[test]
    fn files_are_written_in_one_piece() {
        let folder = std::env::temp_dir().join(format!("aurae-property-{}", std::process::id()));
        let at = folder.join("a.service.d");
        write(&at, "50-A.conf", "one\n").unwrap();
        write(&at, "50-A.conf", "two\n").unwrap();
        assert_eq!(
            std::fs::read_to_string(at.join("50-A.conf")).unwrap(),
            "two\n"
        );
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn places_are_systemds() {
        let places = Places::beside(&Folders {
            paths: Vec::new(),
            persistent: units::load::PERSISTENT.to_owned(),
            runtime: units::load::RUNTIME.to_owned(),
        });
        for (runtime, top) in [false, true].into_iter().zip(super::super::SYSTEM) {
            let place = places.of(&UnitName::parse("a.service").unwrap(), runtime);
            assert_eq!(place, Path::new(top).join("a.service.d"));
        }
    }
}
