// SPDX-License-Identifier: Apache-2.0
//! Unit files below a root, without a node: what is enabled there, and changes of that. A package
//! that is installed into a folder, or while no node runs, needs no more.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use units::finding::Findings;
use units::install::{Installs, Machine as Installer, Operation, State};
use units::load::preset::{self, Preset, Presets};
use units::load::{Catalog, Located, PERSISTENT, RUNTIME, SYSTEM};
use units::name::UnitName;
use units::unit::{Install, Loader};

use crate::cmd::units::Machine;
use crate::failure::Failure;

/// Folders of units of users' managers (systemd.unit(5), table 2), as far as they are the system's.
const USERS: [&str; 7] = [
    "/etc/systemd/user",
    "/run/systemd/user",
    "/usr/local/share/systemd/user",
    "/usr/share/systemd/user",
    "/usr/local/lib/systemd/user",
    "/lib/systemd/user",
    "/usr/lib/systemd/user",
];
const USERS_PRESETS: [&str; 4] = [
    "/etc/systemd/user-preset",
    "/run/systemd/user-preset",
    "/usr/local/lib/systemd/user-preset",
    "/usr/lib/systemd/user-preset",
];

/// What is done to the links of units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Enable,
    Disable,
    Mask,
    Unmask,
    /// Whether it enables, and whether it disables.
    Preset(bool, bool),
    SetDefault,
}

/// The units of a root.
pub(super) struct Files {
    machine: Machine,
    catalog: Catalog,
    presets: Presets,
    folders: (&'static str, &'static str),
}

struct Read<'a>(Loader<'a>);

impl Installs for Read<'_> {
    fn install(&self, located: &Located) -> Option<Install> {
        self.0.load(&located.id).map(|unit| unit.install())
    }
}

impl Files {
    /// Reads the names of all folders; those of `users` where asked.
    pub(super) fn read(root: &Path, users: bool) -> Result<Files, Failure> {
        let machine = Machine::new(root, None)?;
        let (paths, presets, folders): (&[&str], &[&str], _) = match users {
            true => (
                &USERS,
                &USERS_PRESETS,
                ("/etc/systemd/user", "/run/systemd/user"),
            ),
            false => (&SYSTEM, &preset::FOLDERS, (PERSISTENT, RUNTIME)),
        };
        let mut findings = Findings::default();
        Ok(Files {
            catalog: Catalog::read(&machine, paths),
            presets: Presets::read(&machine, presets, &mut findings),
            machine,
            folders,
        })
    }

    fn installed<T>(&self, runtime: bool, act: impl FnOnce(&Installer<'_>) -> T) -> T {
        let zones = units::calendar::zones::FileZones(&self.machine);
        let installs = Read(Loader {
            files: &self.machine,
            catalog: &self.catalog,
            host: &self.machine,
            zones: &zones,
        });
        act(&Installer {
            files: &self.machine,
            catalog: &self.catalog,
            installs: &installs,
            host: &self.machine,
            runtime,
            folders: self.folders,
        })
    }

    /// How a unit stands.
    pub(super) fn state(&self, name: &UnitName) -> Option<State> {
        self.installed(false, |it| it.state(name))
    }

    /// Where `default.target` leads.
    pub(super) fn default_target(&self) -> Option<UnitName> {
        let name = UnitName::parse("default.target").ok()?;
        Some(self.catalog.locate(&name)?.id)
    }

    /// Whether the presets enable a unit.
    pub(super) fn is_preset(&self, name: &UnitName) -> bool {
        matches!(self.presets.of(name), Preset::Enable(_))
    }

    /// Makes and removes links; gives what was done. Without names presets are for all units.
    pub(super) fn change(
        &self,
        change: Change,
        names: &[UnitName],
        runtime: bool,
    ) -> Result<Vec<Operation>, Failure> {
        let operations = self.installed(runtime, |it| match (change, names) {
            (Change::Enable, names) => it.enable(names),
            (Change::Disable, names) => it.disable(names),
            (Change::Mask, names) => it.mask(names),
            (Change::Unmask, names) => Ok(it.unmask(names)),
            (Change::Preset(on, off), []) => Ok(it.preset_all(&self.presets, (on, off))),
            (Change::Preset(on, off), names) => it.preset_partly(names, &self.presets, (on, off)),
            (Change::SetDefault, names) => names.iter().try_fold(Vec::new(), |mut all, name| {
                all.extend(it.set_default(name)?);
                Ok(all)
            }),
        });
        let operations = operations.map_err(Failure::new)?;
        for operation in &operations {
            self.carry_out(operation)?;
        }
        Ok(operations)
    }

    fn carry_out(&self, operation: &Operation) -> Result<(), Failure> {
        let (path, done) = match operation {
            Operation::Link { path, target } => {
                let place = self.place(path)?;
                (path, link(&place, target))
            }
            Operation::Unlink { path } => (path, std::fs::remove_file(self.place(path)?)),
        };
        done.map_err(|problem| Failure::new(format!("{path}: {problem}")))
    }

    fn place(&self, path: &str) -> Result<PathBuf, Failure> {
        let place = self.machine.place(path);
        place.ok_or_else(|| Failure::new(format!("{path}: too many links lead there")))
    }
}

/// Makes a link under another name and renames it: a reader sees the old one or the new one.
fn link(place: &Path, target: &str) -> std::io::Result<()> {
    let folder = place.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    let mut draft = place.as_os_str().to_owned();
    draft.push(".aurae-new");
    let _ = std::fs::remove_file(&draft);
    symlink(target, &draft)?;
    std::fs::rename(&draft, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_below_a_root_lead_to_where_they_will_be() {
        let disk = tempfile::tempdir().unwrap();
        let units = disk.path().join("lib/systemd/system");
        std::fs::create_dir_all(&units).unwrap();
        std::fs::write(
            units.join("web.service"),
            "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
        )
        .unwrap();
        let read = || Files::read(disk.path(), false).unwrap();
        let web = [UnitName::parse("web.service").unwrap()];
        assert_eq!(read().state(&web[0]), Some(State::Disabled));
        let done = read()
            .change(Change::Preset(true, false), &web, false)
            .unwrap();
        assert_eq!(done.len(), 1);
        let wants = "etc/systemd/system/multi-user.target.wants/web.service";
        let link = std::fs::read_link(disk.path().join(wants)).unwrap();
        assert_eq!(link, Path::new("/lib/systemd/system/web.service"));
        assert_eq!(read().state(&web[0]), Some(State::Enabled));
        read().change(Change::Disable, &web, false).unwrap();
        assert_eq!(read().state(&web[0]), Some(State::Disabled));
        read().change(Change::Mask, &web, false).unwrap();
        assert_eq!(read().state(&web[0]), Some(State::Masked));
        let refused = read().change(Change::Enable, &web, false).unwrap_err();
        assert!(refused.message().contains("is masked by"), "{refused:?}");
        read().change(Change::Unmask, &web, false).unwrap();
        assert_eq!(read().state(&web[0]), Some(State::Disabled));
    }
}
