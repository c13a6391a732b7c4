// SPDX-License-Identifier: Apache-2.0
//! The folders beside a unit's file: `NAME.d/*.conf`, of its template, of its shortened names and
//! of its type, and `NAME.wants/`, `NAME.requires/` (systemd.unit(5), "Description").

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{Entry, Files, Kind, base, resolve};
use crate::load::Catalog;
use crate::name::UnitName;

/// What the folders that apply to a unit are named after, the most particular first: `a-b@x`, its
/// template, `a-@x`, and the template of that.
pub fn stems(name: &UnitName) -> Vec<String> {
    let mut stems = Vec::new();
    let mut prefix = name.prefix().to_owned();
    loop {
        let kind = name.kind();
        match name.instance() {
            None => stems.push(format!("{prefix}.{kind}")),
            Some("") => stems.push(format!("{prefix}@.{kind}")),
            Some(instance) => {
                stems.push(format!("{prefix}@{instance}.{kind}"));
                stems.push(format!("{prefix}@.{kind}"));
            }
        }
        let cut = prefix.strip_suffix('-').unwrap_or(&prefix);
        match cut.rsplit_once('-') {
            Some((shorter, _)) => prefix = format!("{shorter}-"),
            None => return stems,
        }
    }
}

/// The drop-ins of a unit with these names, in the order in which they are read: by their file
/// names, whatever folder they are in. Of two with the same name the one in the earlier folder, and
/// there in the more particular one, is taken; an empty one takes the other away.
pub fn find(files: &dyn Files, catalog: &Catalog, names: &BTreeSet<UnitName>) -> Vec<String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |folder: String| {
        for Entry { name, kind } in files.list(&folder) {
            if name.ends_with(".conf") && kind != Kind::Folder {
                let path = format!("{folder}/{name}");
                found.entry(name).or_insert(path);
            }
        }
    };
    for name in names {
        beside(catalog, name, "d").into_iter().for_each(&mut add);
    }
    let kinds: BTreeSet<_> = names.iter().map(UnitName::kind).collect();
    for kind in kinds {
        let name = format!("{kind}.d");
        let all = catalog.beside(&name);
        all.map(|(_, folder)| folder).for_each(&mut add);
    }
    found.into_values().collect()
}

/// The folders that apply to a unit: by load path, and in each the most particular first.
fn beside(catalog: &Catalog, name: &UnitName, suffix: &str) -> Vec<String> {
    let stems = stems(name);
    let named = stems.iter().enumerate().flat_map(|(turn, stem)| {
        let found: Vec<_> = catalog.beside(&format!("{stem}.{suffix}")).collect();
        let with_turn = move |(index, path)| (index, turn, path);
        found.into_iter().map(with_turn)
    });
    let mut all: Vec<(usize, usize, String)> = named.collect();
    all.sort();
    all.into_iter().map(|(_, _, path)| path).collect()
}

/// A link in a `.wants` or `.requires` folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Where it is.
    pub path: String,
    /// The unit that is wanted or required.
    pub unit: UnitName,
}

/// The units in the folders `NAME.SUFFIX` of a unit with these names. The link's own name counts,
/// not what it leads to; one to `/dev/null` takes away those of later folders.
pub fn links(
    files: &dyn Files,
    catalog: &Catalog,
    names: &BTreeSet<UnitName>,
    suffix: &str,
) -> Vec<Link> {
    let mut found: BTreeMap<String, Option<Link>> = BTreeMap::new();
    for name in names {
        for folder in beside(catalog, name, suffix) {
            for Entry { name: entry, kind } in files.list(&folder) {
                let path = format!("{folder}/{entry}");
                let Ok(unit) = UnitName::parse(&entry) else {
                    continue;
                };
                let masked = matches!(&kind, Kind::Link(to) if resolve(&path, to) == "/dev/null");
                // A template there means the instance of the unit around.
                let unit = match unit.is_template() {
                    true => unit.instantiated(name.instance().unwrap_or("")),
                    false => Some(unit),
                };
                let link = unit.filter(|_| !masked).map(|unit| Link { path, unit });
                found.entry(entry).or_insert(link);
            }
        }
    }
    found.into_values().flatten().collect()
}

/// The name of a file in a folder.
pub fn file_name(path: &str) -> &str {
    base(path)
}
