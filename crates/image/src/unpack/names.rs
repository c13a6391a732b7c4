// SPDX-License-Identifier: Apache-2.0
//! Paths of entries: where they lead, and what they mean to overlayfs. Pure. A path is taken apart
//! here once; nothing behind it sees `..`, an empty component or a name that is too long.

use super::error::UnpackError;

/// The longest path, in bytes without its NUL: what the kernel takes (`PATH_MAX`).
const MAX_PATH: usize = 4095;
/// The longest component, in bytes (`NAME_MAX`).
const MAX_COMPONENT: usize = 255;
/// The most components. Removing a tree holds a descriptor for each level.
pub(crate) const MAX_DEPTH: usize = 256;

/// What begins the name of a whiteout (image specification, `layer.md`).
const WHITEOUT: &[u8] = b".wh.";
/// What begins the names that belong to AUFS; one of them makes a folder opaque.
const RESERVED: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Where an entry goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place<'a> {
    /// The folders above it, from the root on.
    pub(crate) parents: Vec<&'a [u8]>,
    /// `None` is the root itself.
    pub(crate) name: Option<&'a [u8]>,
}

/// What an entry's path says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Meaning<'a> {
    /// Something of this layer.
    Entry(Place<'a>),
    /// What lower layers have there is gone.
    Whiteout(Place<'a>),
    /// What lower layers have in this folder is gone.
    Opaque(Vec<&'a [u8]>),
    /// Something of AUFS, which Docker had used.
    Nothing,
}

/// Takes a path apart. A leading slash means the layer's root, as to every other engine.
pub(crate) fn place(path: &[u8]) -> Result<Place<'_>, UnpackError> {
    let refuse = |problem: &str| Err(UnpackError::entry(path, problem));
    if path.is_empty() {
        return refuse("it has no path");
    }
    if path.len() > MAX_PATH {
        return refuse("its path is longer than 4095 bytes");
    }
    let parts = path
        .split(|byte| *byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."));
    let mut parents: Vec<&[u8]> = parts.collect();
    if parents.iter().any(|part| *part == b"..") {
        return refuse("its path has a .. in it");
    }
    if parents.iter().any(|part| part.len() > MAX_COMPONENT) {
        return refuse("a part of its path is longer than 255 bytes");
    }
    if parents.len() > MAX_DEPTH {
        return refuse("its path has more than 256 parts");
    }
    let name = parents.pop();
    Ok(Place { parents, name })
}

/// Takes a path apart and says what it means.
pub(crate) fn meaning(path: &[u8]) -> Result<Meaning<'_>, UnpackError> {
    let place = place(path)?;
    let reserved = |part: &&[u8]| part.starts_with(RESERVED);
    let Some(name) = place.name else {
        return Ok(Meaning::Entry(place));
    };
    if name == OPAQUE && !place.parents.iter().any(reserved) {
        return below_whiteout(path, &place).map(|()| Meaning::Opaque(place.parents));
    }
    if place.parents.iter().any(reserved) || reserved(&name) {
        return Ok(Meaning::Nothing);
    }
    below_whiteout(path, &place)?;
    match name.strip_prefix(WHITEOUT) {
        None => Ok(Meaning::Entry(place)),
        Some(b"" | b"." | b"..") => Err(UnpackError::entry(path, "its whiteout has no name")),
        Some(name) => Ok(Meaning::Whiteout(Place {
            name: Some(name),
            ..place
        })),
    }
}

fn below_whiteout(path: &[u8], place: &Place<'_>) -> Result<(), UnpackError> {
    if place.parents.iter().any(|part| part.starts_with(WHITEOUT)) {
        return Err(UnpackError::entry(path, "it is below a whiteout"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str) -> String {
        let join = |place: &Place<'_>| {
            let name = place.name.map_or("".into(), String::from_utf8_lossy);
            let parents = place
                .parents
                .iter()
                .map(|part| String::from_utf8_lossy(part));
            parents.chain([name]).collect::<Vec<_>>().join("/")
        };
        match meaning(path.as_bytes()) {
            Ok(Meaning::Entry(place)) => format!("entry {}", join(&place)),
            Ok(Meaning::Whiteout(place)) => format!("whiteout {}", join(&place)),
            Ok(Meaning::Opaque(parents)) => format!("opaque {}", parents.len()),
            Ok(Meaning::Nothing) => "nothing".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_path_has_one_meaning() {
        for (path, means) in [
            ("a/b", "entry a/b"),
            ("./a//./b/", "entry a/b"),
            ("/etc/passwd", "entry etc/passwd"),
            ("./", "entry "),
            ("...", "entry ..."),
            ("a/.wh.b", "whiteout a/b"),
            (".wh..b", "whiteout .b"),
            ("a/.wh..wh..opq", "opaque 1"),
            (".wh..wh..opq", "opaque 0"),
            (".wh..wh.aufs", "nothing"),
            (".wh..wh.plnk/1.2", "nothing"),
            (".white", "entry .white"),
        ] {
            assert_eq!(shown(path), means, "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        let deep = "a/".repeat(257);
        let long = "a".repeat(256);
        let longer = "abc/".repeat(1024);
        for path in [
            "",
            "..",
            "../a",
            "a/../b",
            "a/..",
            "/../a",
            ".wh.",
            ".wh..",
            ".wh...",
            "a/.wh.b/c",
            &deep,
            &long,
            &longer,
        ] {
            assert!(
                shown(path).starts_with("entry \""),
                "{path}: {}",
                shown(path)
            );
        }
    }
}
