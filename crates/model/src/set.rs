// SPDX-License-Identifier: Apache-2.0
//! A set's manifest: what one program has declared on a node. Its fields and bounds. The node
//! stores it; the client alone uses what it says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::text::{check_count, check_length, check_printable};

/// The longest name, in bytes: it is a label's value too.
const MAX_NAME: usize = 63;
/// The longest name of a program, in bytes.
const MAX_PROGRAM: usize = 512;
/// The most contexts that a set names.
const MAX_NODES: usize = 256;
/// The longest name of a context, in bytes.
const MAX_NODE: usize = 253;
/// The most objects that a set has on one node.
const MAX_MEMBERS: usize = 4096;
/// The longest name of a method or of a kind, in bytes.
const MAX_WORD: usize = 128;
/// The most fields of a member's key, and the longest of their values, in bytes.
const MAX_KEY: (usize, usize) = (16, 1024);
/// The whole of a manifest, in bytes, as it is kept.
pub const MAX_BYTES: usize = 512 * 1024;

/// The objects that a program has declared on one node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// The program: its project, and the path of its entry.
    pub program: String,
    /// Contexts of the client that the set has members on.
    pub nodes: Vec<String>,
    /// The declared objects, in the order of the program.
    pub members: Vec<Member>,
}

/// One declared object, as the program named it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Member {
    /// The method that creates it: `identity.Allow`.
    pub method: String,
    /// The word for its kind: `grant`.
    pub kind: String,
    /// The fields of its request that name it, and their values.
    pub key: BTreeMap<String, String>,
}

/// Checks the name of a set: a label's value, and not empty.
///
/// # Errors
/// `INVALID_FIELD`, naming `field`: the name isn't so, or is too long.
pub fn check_name(field: &str, name: &str) -> Result<()> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    check_length(field, name, MAX_NAME)?;
    if name.chars().all(inner) && end(name.chars().next()) && end(name.chars().next_back()) {
        return Ok(());
    }
    let what = "must be letters, digits, `-`, `_` or `.`, with a letter or digit at either end";
    Err(Error::invalid(field, what))
}

impl Manifest {
    /// Checks the bounds of the manifest.
    ///
    /// # Errors
    /// `INVALID_FIELD`, naming the first field that is malformed or beyond its bound.
    pub fn check(&self) -> Result<()> {
        word("set.program", &self.program, MAX_PROGRAM)?;
        check_count("set.nodes", self.nodes.len(), MAX_NODES)?;
        for (index, node) in self.nodes.iter().enumerate() {
            word(&format!("set.nodes[{index}]"), node, MAX_NODE)?;
        }
        check_count("set.members", self.members.len(), MAX_MEMBERS)?;
        for (index, member) in self.members.iter().enumerate() {
            member.check(&format!("set.members[{index}]"))?;
        }
        Ok(())
    }
}

impl Member {
    fn check(&self, at: &str) -> Result<()> {
        word(&format!("{at}.method"), &self.method, MAX_WORD)?;
        word(&format!("{at}.kind"), &self.kind, MAX_WORD)?;
        let (fields, value) = MAX_KEY;
        check_count(&format!("{at}.key"), self.key.len(), fields)?;
        for (field, text) in &self.key {
            word(&format!("{at}.key"), field, MAX_WORD)?;
            check_length(&format!("{at}.key.{field}"), text, value)?;
            check_printable(&format!("{at}.key.{field}"), text)?;
        }
        Ok(())
    }
}

fn word(field: &str, text: &str, most: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(field, "is missing"));
    }
    check_length(field, text, most)?;
    check_printable(field, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            program: "shop/web.ts".into(),
            nodes: vec!["one".into()],
            members: vec![Member {
                method: "identity.Allow".into(),
                kind: "grant".into(),
                key: [("user".to_owned(), "alice".to_owned())].into(),
            }],
        }
    }

    #[test]
    fn a_name_is_a_labels_value() {
        for fine in ["web", "teamB.main", "a-b_c.1", &"a".repeat(63)] {
            check_name("name", fine).unwrap();
        }
        for wrong in ["", "-a", "a.", "a/b", "ä", &"a".repeat(64)] {
            check_name("name", wrong).unwrap_err();
        }
    }

    #[test]
    fn each_bound_is_named() {
        manifest().check().unwrap();
        type Spoil = fn(&mut Manifest);
        let broken: [(&str, Spoil); 6] = [
            ("set.program", |it| it.program.clear()),
            ("set.nodes", |it| it.nodes = vec!["n".into(); 257]),
            ("set.nodes[0]", |it| it.nodes = vec!["n".repeat(254)]),
            ("set.members[0].kind", |it| {
                it.members.iter_mut().for_each(|one| one.kind.clear());
            }),
            ("set.members", |it| {
                it.members = it.members.iter().cycle().take(4097).cloned().collect();
            }),
            ("set.members[0].key.user", |it| {
                for one in &mut it.members {
                    one.key.insert("user".into(), "a".repeat(1025));
                }
            }),
        ];
        for (field, break_it) in broken {
            let mut broken = manifest();
            break_it(&mut broken);
            let error = broken.check().unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
    }
}
