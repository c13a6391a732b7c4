// SPDX-License-Identifier: Apache-2.0
//! `linux.cgroupsPath`, as a path below the mount point of cgroup2. Pure.

use std::path::{Component, Path, PathBuf};

use crate::error::{Result, refuse};

/// The path of a container's group. `own` is the runtime's own group. Without a word, or with a
/// relative one, it is beside that one.
pub(crate) fn of(word: &str, id: &str, own: &Path, by_systemd: bool) -> Result<PathBuf> {
    let path = match (by_systemd, word) {
        (true, word) => systemd(word, id)?,
        (false, "") => beside(own).join(id),
        (false, word) if word.starts_with('/') => PathBuf::from(word),
        (false, word) => beside(own).join(word),
    };
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return refuse(format!("{word:?} has a `..` in it"));
            }
        }
    }
    match out.as_os_str().is_empty() {
        true => refuse(format!("{word:?} is the root of all groups")),
        false => Ok(out),
    }
}

fn beside(own: &Path) -> PathBuf {
    own.parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// `SLICE:PREFIX:NAME`, where systemd would put it: a slice `a-b.slice` is within `a.slice`.
fn systemd(word: &str, id: &str) -> Result<PathBuf> {
    let mut parts = word.split(':');
    let (slice, prefix, name) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(""), None, ..) => ("system.slice", "aurae", id),
        (Some(slice), Some(prefix), Some(name), None) => (slice, prefix, name),
        _ => {
            return refuse(format!(
                "expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, \
                 got {word:?} instead"
            ));
        }
    };
    let slice = if slice.is_empty() {
        "system.slice"
    } else {
        slice
    };
    let mut path = expand(slice)?;
    path.push(match (prefix, name.ends_with(".slice")) {
        (_, true) => name.to_owned(),
        ("", false) => format!("{name}.scope"),
        (prefix, false) => format!("{prefix}-{name}.scope"),
    });
    Ok(path)
}

fn expand(slice: &str) -> Result<PathBuf> {
    let wrong = || refuse(format!("invalid slice name: {slice}"));
    let Some(stem) = slice.strip_suffix(".slice") else {
        return wrong();
    };
    if stem == "-" {
        return Ok(PathBuf::new());
    }
    if stem.contains('/') || stem.split('-').any(str::is_empty) {
        return wrong();
    }
    let mut out = PathBuf::new();
    let mut name = String::new();
    for part in stem.split('-') {
        if !name.is_empty() {
            name.push('-');
        }
        name.push_str(part);
        out.push(format!("{name}.slice"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(word: &str, by_systemd: bool) -> Result<String> {
        let path = of(word, "c1", Path::new("user/session"), by_systemd)?;
        Ok(path.display().to_string())
    }

    #[test]
    fn a_path_is_below_the_mount_point() {
        assert_eq!(path("/machine/c1", false).unwrap(), "machine/c1");
        assert_eq!(path("", false).unwrap(), "user/c1");
        assert_eq!(path("pod/c1", false).unwrap(), "user/pod/c1");
        for wrong in ["/../x", "/", "a/../../b"] {
            assert!(path(wrong, false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_scope_is_where_systemd_would_put_it() {
        for (word, expected) in [
            ("machine.slice:libpod:abc", "machine.slice/libpod-abc.scope"),
            (
                "machine-pod-1.slice:libpod:abc",
                "machine.slice/machine-pod.slice/machine-pod-1.slice/libpod-abc.scope",
            ),
            (":crio:abc", "system.slice/crio-abc.scope"),
            ("-.slice:a:b", "a-b.scope"),
            ("a.slice::b", "a.slice/b.scope"),
            ("", "system.slice/aurae-c1.scope"),
        ] {
            assert_eq!(path(word, true).unwrap(), expected, "{word}");
        }
        for wrong in [
            "/machine/c1",
            "a:b",
            "a:b:c:d",
            "a:b:c",
            "-a.slice:b:c",
            "a/b.slice:c:d",
        ] {
            assert!(path(wrong, true).is_err(), "{wrong}");
        }
    }
}
