// SPDX-License-Identifier: Apache-2.0
//! Filters of system calls by the name of a file of the node (Kubernetes' `Localhost`), in Docker's
//! JSON form. Read when a program starts; an administrator has asked for it (`admit`).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use model::error::Error;
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// The longest file, in bytes: with its blanks it is longer than what a record takes.
const LONGEST: u64 = 256 << 10;

/// The text of a profile, without blanks.
///
/// # Errors
/// `INVALID_FIELD` where there is none of that name in the folder, or none at all.
pub(super) fn read(folder: &Path, name: &str) -> Result<String, Error> {
    let wrong = |problem: String| {
        let message = format!("{name} of {}: {problem}", folder.display());
        Error::invalid("pod.spec.containers.seccomp_profile", message)
            .hint("name a file in that folder of the node, in Docker's JSON form")
    };
    let text = text(folder, name).map_err(|e| wrong(e.to_string()))?;
    let document = serde_json::from_str::<serde_json::Value>(&text);
    let document = document.map_err(|e| wrong(format!("no JSON: {e}")))?;
    Ok(document.to_string())
}

fn text(folder: &Path, name: &str) -> io::Result<String> {
    let at = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let at = rustix::fs::open(folder, at, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH;
    let file = File::from(rustix::fs::openat2(at, name, flags, Mode::empty(), within)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    let read = file.take(LONGEST + 1).read_to_string(&mut text)?;
    match u64::try_from(read).is_ok_and(|read| read <= LONGEST) {
        true => Ok(text),
        false => Err(io::Error::other(format!(
            "it has more than {LONGEST} bytes"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_a_file_of_the_folder_and_nothing_else() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("seccomp");
        std::fs::create_dir_all(folder.join("team")).unwrap();
        let text = "{ \"defaultAction\" : \"SCMP_ACT_ALLOW\" }";
        std::fs::write(folder.join("team/a.json"), text).unwrap();
        std::fs::write(above.path().join("b.json"), text).unwrap();
        std::fs::write(folder.join("no.json"), "no").unwrap();
        std::os::unix::fs::symlink(above.path().join("b.json"), folder.join("way")).unwrap();
        let found = read(&folder, "team/a.json").unwrap();
        assert_eq!(found, "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}");
        for name in ["none", "../b.json", "way", "team", "no.json"] {
            let error = read(&folder, name).unwrap_err();
            let field = "pod.spec.containers.seccomp_profile";
            assert_eq!(error.field.as_deref(), Some(field), "{name}: {error:?}");
        }
    }
}
