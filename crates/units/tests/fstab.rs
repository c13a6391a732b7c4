// SPDX-License-Identifier: Apache-2.0
//! Units that systemd's generator has made of its own tests' tables are read as they are meant:
//! without a finding, with each value as its line has it, with the links in folders beside. Run by
//! `./x judge fstab`, which makes them; without it there is nothing to do.
//!
//! `AURAE_JUDGE_FSTAB` is a folder with one of each table: what was made of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by them"
)]

use std::fs;
use std::path::{Path, PathBuf};

use units::calendar::zones::UtcOnly;
use units::files::Memory;
use units::load::catalog::Catalog;
use units::name::UnitName;
use units::specifier::NoHost;
use units::unit::{Loader, Unit};
use units::value::Value;

/// Where they are read from.
const FOLDER: &str = "/run/systemd/generator";
/// A unit of the system for each name that links lead to and no generator makes.
const SYSTEM: &str = "/lib/systemd/system";

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The files of a folder, as if they were below the machine's.
fn load(folder: &Path) -> (Memory, Vec<String>) {
    let (mut files, mut units) = (Memory::new(), Vec::new());
    let mut put = |at: &str, from: &Path| {
        let place = format!("{FOLDER}/{at}");
        let old = std::mem::replace(&mut files, Memory::new());
        files = match fs::read_link(from) {
            Ok(target) => old.link(&place, target.to_str().unwrap()),
            Err(_) => old.file(&place, fs::read(from).unwrap()),
        };
    };
    for name in names(folder) {
        let path = folder.join(&name);
        if !path.is_dir() {
            put(&name, &path);
            units.push(name);
            continue;
        }
        for below in names(&path) {
            put(&format!("{name}/{below}"), &path.join(&below));
        }
        let whose = name.rsplit_once('.').unwrap().0.to_owned();
        units.push(whose);
    }
    units.sort();
    units.dedup();
    for target in units.iter().filter(|it| it.ends_with(".target")) {
        files = files.file(&format!("{SYSTEM}/{target}"), "[Unit]\n");
    }
    (files, units)
}

/// What a line says is what was read of it.
fn compare(table: &str, unit: &Unit, text: &str) -> usize {
    let mut compared = 0;
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let has = |it: &str| value.split_whitespace().any(|word| word == it);
        let same = match unit.settings.get(key) {
            Some(Value::Text(text)) => text == value,
            Some(Value::Units(units)) => value
                .split_whitespace()
                .all(|word| units.iter().any(|it| it.as_str() == word)),
            Some(Value::Flag(yes)) => has(if *yes { "yes" } else { "no" }),
            Some(Value::Word(word)) => *word == value,
            Some(Value::Texts(words)) => words.iter().all(|it| has(it)),
            Some(Value::Commands(commands)) => commands.iter().any(|it| has(&it.program)),
            // A span under another name.
            None => key == "TimeoutSec",
            Some(_) => true,
        };
        let id = &unit.id;
        assert!(same, "{table}: {id}: {line}: {:?}", unit.settings.get(key));
        compared += 1;
    }
    compared
}

#[test]
fn what_systemds_generator_makes_is_read_as_it_is_meant() {
    let Some(folder) = std::env::var_os("AURAE_JUDGE_FSTAB").map(PathBuf::from) else {
        return;
    };
    let (mut read, mut compared) = (0, 0);
    for table in names(&folder) {
        let made = folder.join(&table);
        let (files, units) = load(&made);
        let catalog = Catalog::read(&files, &[FOLDER, SYSTEM]);
        let loader = Loader {
            files: &files,
            catalog: &catalog,
            host: &NoHost,
            zones: &UtcOnly,
        };
        for name in units {
            let unit = loader.load(&UnitName::parse(&name).unwrap());
            let unit = unit.unwrap_or_else(|| panic!("{table}: there is no {name}"));
            assert!(unit.findings.is_empty(), "{table}: {:?}", unit.findings);
            for path in unit.fragment.iter().chain(&unit.dropins) {
                let own = path.strip_prefix(FOLDER).map(|it| made.join(&it[1..]));
                let text = own.map(|it| fs::read_to_string(it).unwrap());
                compared += compare(&table, &unit, &text.unwrap_or_default());
            }
            let links = made.join(format!("{name}.requires"));
            let links = match links.is_dir() {
                true => names(&links),
                false => Vec::new(),
            };
            for link in links {
                let found = unit.requires.iter().any(|it| it.unit.as_str() == link);
                assert!(found, "{table}: {name} requires {link}");
            }
            read += 1;
        }
    }
    println!("{read} units, {compared} lines");
    assert!(read > 0);
}
