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

/// A unit of systemd's, and the slice that it is in; without one it is where systemd puts it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    pub(crate) slice: String,
    pub(crate) name: String,
}

/// The unit that `SLICE:PREFIX:NAME` means. Of a user's own systemd it is in its `user.slice`
/// unless it says more.
pub(crate) fn unit(word: &str, id: &str, is_users: bool) -> Result<Unit> {
    let (slice, prefix, name) = parts(word, id)?;
    let slice = match (slice, is_users) {
        ("", true) => "user.slice",
        ("", false) => "system.slice",
        (slice, _) => slice,
    };
    expand(slice)?;
    let name = match (prefix, name.ends_with(".slice")) {
        (_, true) => {
            return refuse(format!(
                "linux.cgroupsPath: {name} is a slice, and a container is a scope"
            ));
        }
        ("", false) => format!("{name}.scope"),
        (prefix, false) => format!("{prefix}-{name}.scope"),
    };
    if name.len() > 255 || name.contains('/') {
        return refuse(format!("linux.cgroupsPath: {name:?} is no name of a unit"));
    }
    Ok(Unit {
        slice: slice.to_owned(),
        name,
    })
}

/// `SLICE:PREFIX:NAME`, where systemd would put it: a slice `a-b.slice` is within `a.slice`.
fn systemd(word: &str, id: &str) -> Result<PathBuf> {
    let (slice, prefix, name) = parts(word, id)?;
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

fn parts<'a>(word: &'a str, id: &'a str) -> Result<(&'a str, &'a str, &'a str)> {
    let mut parts = word.split(':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(""), None, ..) => Ok(("", "aurae", id)),
        (Some(slice), Some(prefix), Some(name), None) => Ok((slice, prefix, name)),
        _ => refuse(format!(
            "expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, \
             got {word:?} instead"
        )),
    }
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
            assert!(unit(wrong, "c1", false).is_err(), "{wrong}");
        }
        let unit = |word, is_users| unit(word, "c1", is_users).unwrap();
        let of = |slice: &str, name: &str| Unit {
            slice: slice.to_owned(),
            name: name.to_owned(),
        };
        assert_eq!(unit("", false), of("system.slice", "aurae-c1.scope"));
        assert_eq!(unit(":a:b", true), of("user.slice", "a-b.scope"));
        let pod = "machine-pod.slice:libpod:x";
        assert_eq!(unit(pod, false), of("machine-pod.slice", "libpod-x.scope"));
    }
}
