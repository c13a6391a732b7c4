// SPDX-License-Identifier: Apache-2.0
//! `set-property`: settings of a unit as drop-ins in the folders that systemctl keeps them in
//! (systemctl(1)), which `revert` empties; the node reads them then. Limits hold for what runs at
//! once; other settings when it is started anew.

use std::fs;
use std::path::{Path, PathBuf};

use units::name::UnitName;
use units::table;

use super::args::Options;
use super::{apart, jobs, too_few};
use crate::failure::Failure;
use crate::output::printable;
use crate::systemd::node::{Node, whole};
use crate::systemd::{refused, tell};

/// Where they are: until they are taken back, or until the next boot.
const PERSISTENT: &str = "/etc/systemd/system.control";
const RUNTIME: &str = "/run/systemd/system.control";
const HEAD: &str = "# This is a drop-in unit file extension, created via \"systemctl set-property\"\n\
    # or an equivalent operation. Do not edit.\n";

pub(super) async fn set(options: &Options, words: &[String]) -> Result<u8, Failure> {
    if apart::names_another_node() {
        return Err(refused(
            "set-property: write a drop-in file, then restart the unit. It",
        ));
    }
    let Some((unit, assignments)) = words.split_first().filter(|(_, all)| !all.is_empty()) else {
        return Err(too_few("set-property"));
    };
    let unit = UnitName::parse(&whole(unit)?).map_err(Failure::new)?;
    let node = Node::connect().await?;
    if node.get(unit.as_str()).await?.is_none() {
        let words = format!("Failed to set unit properties on {unit}: Unit {unit} not found.");
        return Err(Failure::new(words));
    }
    let files = assignments.iter().map(|it| drop_in(&unit, it));
    let files: Vec<(String, String)> = files.collect::<Result<_, _>>()?;
    let top = Path::new(if options.runtime { RUNTIME } else { PERSISTENT });
    let folder = top.join(format!("{unit}.d"));
    for (name, text) in &files {
        write(&folder, name, text)?;
    }
    jobs::daemon_reload(&node).await?;
    let words = format!("{unit} has new limits now, and what else is set at its next start.");
    tell(options.quiet, &printable(&words));
    Ok(0)
}

/// The name and the text of the drop-in for a setting.
fn drop_in(unit: &UnitName, assignment: &str) -> Result<(String, String), Failure> {
    let (name, value) = assignment
        .split_once('=')
        .ok_or_else(|| Failure::new(format!("Not an assignment: {assignment}")))?;
    let kind = unit.kind().section().unwrap_or("Unit");
    let section = ["Unit", kind]
        .into_iter()
        .find(|section| table::find(section, name).is_some());
    let none = || Failure::new(format!("Unknown assignment: {name} of {unit}."));
    let section = section.ok_or_else(none)?;
    if value.contains(['\n', '\r', '\0']) || value.ends_with('\\') {
        return Err(Failure::new(format!("{name} has more than one line.")));
    }
    let text = format!("{HEAD}[{section}]\n{name}={value}\n");
    Ok((format!("50-{name}.conf"), text))
}

/// The whole file or none, whatever ends this program.
fn write(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    let failed = |problem: std::io::Error| {
        Failure::new(format!("Failed to write {}: {problem}", path.display()))
    };
    let draft: PathBuf = folder.join(format!(".#{name}"));
    fs::create_dir_all(folder).map_err(failed)?;
    fs::write(&draft, text).map_err(failed)?;
    fs::rename(&draft, &path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_drop_in_of_its_own() {
        let unit = UnitName::parse("a.service").unwrap();
        let made = |text: &str| drop_in(&unit, text);
        let (name, text) = made("MemoryMax=1M").unwrap();
        assert_eq!(name, "50-MemoryMax.conf");
        assert_eq!(text, format!("{HEAD}[Service]\nMemoryMax=1M\n"));
        assert!(
            made("Description=x")
                .unwrap()
                .1
                .ends_with("[Unit]\nDescription=x\n")
        );
        for wrong in [
            "MemoryMax",
            "Moon=1",
            "MemoryMax=1\n[Unit]",
            "MemoryMax=1\\",
        ] {
            assert!(made(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_are_written_in_one_piece() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("a.service.d");
        write(&at, "50-A.conf", "one\n").unwrap();
        write(&at, "50-A.conf", "two\n").unwrap();
        assert_eq!(fs::read_to_string(at.join("50-A.conf")).unwrap(), "two\n");
        assert_eq!(fs::read_dir(at).unwrap().count(), 1);
    }
}
