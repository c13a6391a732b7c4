// SPDX-License-Identifier: Apache-2.0
//! The list of what files have declared, by file and name, with a hash of the wish; and whose a
//! name is where several files say it. Pure. Called by `declared`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What names of configs begin with in that list: no schedule's name has a slash.
pub(super) const CONFIG: &str = "config/";

/// What files have declared: by file and name, a hash of what; empty: it isn't known.
pub(super) type Names = BTreeMap<PathBuf, BTreeMap<String, String>>;

/// The list as it is in the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Listed {
    /// As earlier daemons wrote it: names alone.
    Names(BTreeSet<String>),
    Hashes(BTreeMap<String, String>),
}

/// The list, as this or an earlier daemon has written it.
pub(super) fn listed(text: &[u8]) -> serde_json::Result<Names> {
    let listed: BTreeMap<PathBuf, Listed> = serde_json::from_slice(text)?;
    let each = listed.into_iter().map(|(path, listed)| {
        let names = match listed {
            Listed::Names(names) => names.into_iter().map(|it| (it, String::new())).collect(),
            Listed::Hashes(names) => names,
        };
        (path, names)
    });
    Ok(each.collect())
}

pub(super) fn is_known(names: &Names, name: &str) -> bool {
    names.values().any(|names| names.contains_key(name))
}

/// Whose each name is: that of the file that has declared it, as long as that says it, and of the
/// first file otherwise. `stays`: what files that aren't known by now have declared.
pub(super) fn owners<'a>(
    before: &Names,
    stays: &Names,
    wished: impl Iterator<Item = (&'a Path, Vec<String>)>,
) -> BTreeMap<String, PathBuf> {
    let mut owners = BTreeMap::new();
    for (path, names) in stays {
        owners.extend(names.keys().map(|name| (name.clone(), path.clone())));
    }
    for (path, names) in wished {
        let own = before.get(path);
        for name in names.into_iter().filter(|it| !it.starts_with(CONFIG)) {
            let had = own.is_some_and(|own| own.contains_key(&name));
            match had && !stays.values().any(|names| names.contains_key(&name)) {
                true => drop(owners.insert(name, path.to_owned())),
                false => drop(owners.entry(name).or_insert_with(|| path.to_owned())),
            }
        }
    }
    owners
}

/// Tells one wish from another; `None`: it can't be, and is declared again.
pub(super) fn hash(wish: &impl Serialize) -> Option<String> {
    let hash = Sha256::digest(serde_json::to_vec(wish).ok()?);
    Some(hash.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[(&str, &[&str])]) -> Names {
        let each = all.iter().map(|(path, names)| {
            let names = names.iter().map(|it| ((*it).to_owned(), "hash".to_owned()));
            (PathBuf::from(path), names.collect())
        });
        each.collect()
    }

    fn owner(before: &Names, stays: &Names, wished: &[(&str, &[&str])], of: &str) -> String {
        let wished = wished.iter().map(|(path, names)| {
            let names = names.iter().map(|it| (*it).to_owned()).collect();
            (Path::new(*path), names)
        });
        let owners = owners(before, stays, wished);
        owners[of].display().to_string()
    }

    #[test]
    fn a_name_is_of_the_file_that_had_it_or_of_the_first() {
        let none = Names::new();
        let both: [(&str, &[&str]); 2] = [("a", &["web"]), ("b", &["web"])];
        assert_eq!(owner(&none, &none, &both, "web"), "a");
        let had = names(&[("b", &["web"])]);
        assert_eq!(owner(&had, &none, &both, "web"), "b");
        // It was moved to another file, or its file got another name.
        assert_eq!(owner(&had, &none, &both[..1], "web"), "a");
        // That one can't be read now.
        assert_eq!(owner(&had, &had, &both[..1], "web"), "b");
    }

    #[test]
    fn the_list_of_an_earlier_daemon_is_read_and_a_broken_one_is_an_error() {
        let old = listed(br#"{"/m/web.yaml":["web"]}"#).unwrap();
        assert!(is_known(&old, "web"));
        assert_eq!(old[Path::new("/m/web.yaml")]["web"], "");
        let own = names(&[("a", &["web", "config/secret/x"])]);
        let text = serde_json::to_vec(&own).unwrap();
        assert_eq!(listed(&text).unwrap(), own);
        assert!(listed(b"").is_err() && listed(&text[..9]).is_err());
        assert_ne!(hash(&"a"), hash(&"b"));
    }
}
