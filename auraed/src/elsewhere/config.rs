// SPDX-License-Identifier: Apache-2.0
//! The keys of `sandboxes.CLASS`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use client::Address;
use model::name::Label;
use serde::{Deserialize, Serialize};

/// The class that every node has.
const CELL: &str = "cell";

/// A class of sandboxes: the daemon that runs its pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SandboxClass {
    /// Where its API listens: `unix:///run/vm/aurae.sock`, `https://10.0.0.2:7443`.
    pub(crate) address: String,
    /// The CA that its certificate must come from.
    pub(crate) ca: PathBuf,
    /// A certificate of an administrator of it, and its key. They are read at each connection.
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// Pods that name no class run there. Of one class at most.
    pub(crate) default: bool,
}

/// Why the classes can't be so.
pub(crate) fn contradiction(classes: &BTreeMap<String, SandboxClass>) -> Option<String> {
    let wrong = classes.iter().find_map(|(name, class)| {
        let problem = class.problem(name)?;
        Some(format!("sandboxes.{name}{problem}"))
    });
    let defaults = classes.iter().filter(|(_, class)| class.default);
    let defaults: Vec<_> = defaults.map(|(name, _)| name.as_str()).collect();
    let several = (defaults.len() > 1).then(|| {
        let names = defaults.join(" and sandboxes.");
        format!("sandboxes.{names} are each the default; one can be")
    });
    wrong.or(several)
}

impl SandboxClass {
    fn problem(&self, name: &str) -> Option<String> {
        if name == CELL {
            return Some(": every node has the class cell; choose another name".to_owned());
        }
        if let Err(error) = name.parse::<Label>() {
            return Some(format!(": the name of a class {error}"));
        }
        if let Err(error) = self.address.parse::<Address>() {
            return Some(format!(".address: {error}"));
        }
        let files = [
            ("ca", &self.ca),
            ("certificate", &self.certificate),
            ("key", &self.key),
        ];
        let missing = files.iter().find(|(_, file)| !file.is_absolute());
        missing.map(|(key, _)| format!(".{key} must be the path of a file, from the root"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> SandboxClass {
        SandboxClass {
            address: "unix:///run/vm/aurae.sock".to_owned(),
            ca: "/etc/vm/ca.pem".into(),
            certificate: "/etc/vm/node.pem".into(),
            key: "/etc/vm/node.key".into(),
            default: true,
        }
    }

    fn said(classes: impl IntoIterator<Item = (&'static str, SandboxClass)>) -> String {
        let named = classes
            .into_iter()
            .map(|(name, class)| (name.to_owned(), class));
        contradiction(&named.collect()).unwrap_or_default()
    }

    #[test]
    fn what_can_not_be_is_named() {
        assert_eq!(said([("vm", class())]), "");
        let mut nowhere = class();
        nowhere.address.clear();
        assert!(said([("vm", nowhere)]).starts_with("sandboxes.vm.address"));
        let mut keyless = class();
        keyless.key = PathBuf::new();
        let expected = "sandboxes.vm.key must be the path of a file, from the root";
        assert_eq!(said([("vm", keyless)]), expected);
        assert!(said([("cell", class())]).contains("every node has"));
        let two = said([("vm", class()), ("far", class())]);
        assert!(
            two.contains("sandboxes.far and sandboxes.vm are each"),
            "{two}"
        );
    }
}
