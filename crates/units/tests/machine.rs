// SPDX-License-Identifier: Apache-2.0
//! The units of a real machine: this one's, or of the folder that `AURAE_UNITS` names. Every one is
//! read, and all but the odd one can be used.

#![expect(clippy::unwrap_used, reason = "a test fails by them")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use units::calendar::zones::FileZones;
use units::depend::Graph;
use units::files::{Entry, Files, Kind, Unreadable, normal, resolve};
use units::finding::Severity;
use units::load::{Catalog, SYSTEM, Source};
use units::name::UnitName;
use units::specifier::NoHost;
use units::unit::{Loader, Unit};
use units::verify::verify;

/// The files below a folder, as if it were the root.
struct Root(PathBuf);

impl Root {
    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// With links followed within the folder.
    fn follow(&self, path: &str) -> String {
        let mut path = normal(path);
        for _ in 0..40 {
            let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
            let prefixes = ends.chain([path.len()]).filter_map(|end| path.get(..end));
            let link = prefixes
                .filter_map(|it| Some((it.to_owned(), std::fs::read_link(self.at(it)).ok()?)))
                .next();
            let Some((prefix, target)) = link else {
                break;
            };
            let rest = path.get(prefix.len()..).unwrap_or("").to_owned();
            path = normal(&(resolve(&prefix, &target.to_string_lossy()) + &rest));
        }
        path
    }
}

impl Files for Root {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Unreadable> {
        let path = self.follow(path);
        if path == "/dev/null" {
            return Ok(Some(Vec::new()));
        }
        match std::fs::read(self.at(&path)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Unreadable(format!("{path}: {error}"))),
        }
    }

    fn list(&self, folder: &str) -> Vec<Entry> {
        let found = std::fs::read_dir(self.at(&self.follow(folder)));
        let entries = found.into_iter().flatten().flatten().map(|entry| {
            let kind = entry.file_type().unwrap();
            let kind = if kind.is_symlink() {
                let target = std::fs::read_link(entry.path()).unwrap();
                Kind::Link(target.to_string_lossy().into_owned())
            } else if kind.is_dir() {
                Kind::Folder
            } else {
                Kind::File
            };
            Entry {
                name: entry.file_name().to_string_lossy().into_owned(),
                kind,
            }
        });
        entries.collect()
    }
}

#[test]
fn every_unit_of_a_machine_is_read() {
    let given = std::env::var_os("AURAE_UNITS");
    let root = Root(given.map_or_else(|| PathBuf::from("/"), PathBuf::from));
    let catalog = Catalog::read(&root, &SYSTEM);
    if catalog.names().count() < 20 {
        return testkit::skip("no package with units is installed");
    }
    let zones = FileZones(&root);
    let loader = Loader {
        files: &root,
        catalog: &catalog,
        host: &NoHost,
        zones: &zones,
    };
    let mut units: Vec<Unit> = Vec::new();
    let mut unusable = Vec::new();
    let mut counts: BTreeMap<Severity, usize> = BTreeMap::new();
    let exists = |name: &UnitName| catalog.locate(name).is_some() || name.kind().needs_no_file();
    for (name, source) in catalog.names() {
        if matches!(source, Source::Alias { .. } | Source::Masked(_)) {
            continue;
        }
        let name = match name.is_template() {
            true => name.instantiated("one").unwrap(),
            false => name.clone(),
        };
        let unit = loader.load(&name).unwrap();
        let report = verify(&unit, &|_| true, &exists);
        for finding in &report.findings {
            *counts.entry(finding.severity).or_default() += 1;
            println!("{finding}");
        }
        if !report.is_usable() {
            unusable.push(name);
        }
        units.push(unit);
    }
    let graph = Graph::of(&units);
    let edges = graph.edges().count();
    println!("{} units, {edges} dependencies, {counts:?}", units.len());
    assert!(edges > units.len());
    // A package may have a unit that systemd refuses, too; not many have.
    assert!(
        unusable.len() * 50 <= units.len(),
        "can't be used: {unusable:?}"
    );
}
