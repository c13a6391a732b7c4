// SPDX-License-Identifier: Apache-2.0
//! Unit files of this machine, or below a folder: how the commands that look at them find and load
//! them. Nothing is changed and no node is asked; what the files mean is crate `units`'.

mod machine;

use std::path::PathBuf;

use units::calendar::zones::FileZones;
use units::load::{Catalog, SYSTEM};
use units::name::UnitName;
use units::unit::{Loader, Unit};

use crate::failure::Failure;
pub(crate) use machine::Machine;

/// Which units, and where they are.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Which {
    /// The root of the machine that the units are of, such as a mounted disk
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Names such as `nginx.service` (`.service` may be left out), or files: what has a `/`
    #[arg(required = true, value_name = "UNIT|FILE")]
    units: Vec<String>,
}

/// A machine's files and its units' names.
pub(crate) struct Units {
    pub(crate) machine: Machine,
    catalog: Catalog,
}

impl Units {
    /// Of the machine, and of the folder that a file is in, which comes first.
    pub(crate) fn read(root: &std::path::Path, folder: Option<String>) -> Result<Units, Failure> {
        let machine = Machine::new(root, folder.clone())?;
        let folders: Vec<&str> = folder.as_deref().into_iter().chain(SYSTEM).collect();
        let catalog = Catalog::read(&machine, &folders);
        Ok(Units { machine, catalog })
    }

    pub(crate) fn load(&self, name: &UnitName) -> Option<Unit> {
        let zones = FileZones(&self.machine);
        let loader = Loader {
            files: &self.machine,
            catalog: &self.catalog,
            host: &self.machine,
            zones: &zones,
        };
        loader.load(name)
    }

    pub(crate) fn exists(&self, name: &UnitName) -> bool {
        self.catalog.locate(name).is_some() || name.kind().needs_no_file()
    }
}

/// What an instance is called where none was.
const INSTANCE: &str = "INSTANCE";

/// Loads each unit that was asked for, and has `with` look at it.
pub(crate) fn each(which: &Which, mut with: impl FnMut(&Units, Unit)) -> Result<(), Failure> {
    let mut plain: Option<Units> = None;
    for word in &which.units {
        let (name, folder) = named(word)?;
        let beside;
        let units = match folder {
            Some(_) => {
                beside = Units::read(&which.root, folder)?;
                &beside
            }
            None => match &mut plain {
                Some(units) => units,
                none => none.insert(Units::read(&which.root, None)?),
            },
        };
        let name = match name.is_template() {
            true => name.instantiated(INSTANCE).unwrap_or(name),
            false => name,
        };
        let Some(unit) = units.load(&name) else {
            let root = which.root.display();
            let hint = "a file is given with its folder, as in ./web.service";
            return Err(
                Failure::new(format!("there is no unit {name} below {root}")).with_hint(hint),
            );
        };
        with(units, unit);
    }
    Ok(())
}

/// The unit's name, and the folder of a file, absolute.
pub(crate) fn named(word: &str) -> Result<(UnitName, Option<String>), Failure> {
    let parse = |name: &str| UnitName::parse(name).map_err(Failure::usage);
    if !word.contains('/') {
        let is_whole = word.rsplit_once('.').is_some() && UnitName::parse(word).is_ok();
        return match is_whole {
            true => Ok((parse(word)?, None)),
            false => Ok((parse(&format!("{word}.service"))?, None)),
        };
    }
    let failed = |problem| Failure::new(format!("can't read {word}: {problem}"));
    let path = std::path::absolute(word).map_err(failed)?;
    path.metadata().map_err(failed)?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Failure::usage(format!("{word} is no file")));
    };
    let folder = folder.canonicalize().map_err(failed)?;
    let folder = folder.into_os_string().into_string();
    let folder = folder.map_err(|_| Failure::usage(format!("{word}: its folder isn't UTF-8")))?;
    Ok((parse(&name.to_string_lossy())?, Some(folder)))
}
