// SPDX-License-Identifier: Apache-2.0
//! Volumes of files that the spec brings, or that tell something of the pod. All files of one
//! change at once, where containers have it mounted (Kubernetes' kubelet does it the same way):
//!
//! ```text
//! volume/..data          ──► ..5f0c…    a link, replaced by a rename
//! volume/..5f0c…/a.conf                 the files, named by their content
//! volume/a.conf          ──► ..data/a.conf
//! ```
//!
//! Containers can't write there: every name in it is ours.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use model::pod::told::Content;

use super::remove::remove;
use super::volumes::Owner;

/// All files of a volume, by path.
pub(super) type Files = BTreeMap<String, Content>;

/// The link to the files that are in force.
const DATA: &str = "..data";
/// The link that takes its place.
const NEXT: &str = "..next";

/// Puts the files in force, unless they are. The volume is a folder that is there.
pub(super) fn put(volume: &Path, files: &Files, owner: &Owner) -> io::Result<()> {
    let name = name_of(files);
    let current = std::fs::read_link(volume.join(DATA)).ok();
    if current.as_deref() != Some(Path::new(&name)) {
        let folder = volume.join(&name);
        // What a daemon that was killed had begun.
        remove(&folder)?;
        write(&folder, files, owner)?;
        match std::fs::remove_file(volume.join(NEXT)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => symlink(&name, volume.join(NEXT))?,
        }
        std::fs::rename(volume.join(NEXT), volume.join(DATA))?;
    }
    let wanted: BTreeSet<_> = files.keys().filter_map(|path| first(path)).collect();
    for name in &wanted {
        match symlink(Path::new(DATA).join(name), volume.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    for entry in std::fs::read_dir(volume)? {
        let entry = entry?;
        let is = entry.file_name();
        if is == DATA || is == name.as_str() || wanted.contains(&is) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => remove(&entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Where a part of the volume is now, without a link on the way.
pub(super) fn part(volume: &Path, sub_path: &str) -> io::Result<PathBuf> {
    let data = std::fs::read_link(volume.join(DATA))?;
    Ok(volume.join(data).join(sub_path))
}

/// The folder's name: other files have another one.
fn name_of(files: &Files) -> String {
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    for (path, content) in files {
        digest.update(&content.mode.to_be_bytes());
        for part in [path, &content.text] {
            digest.update(&(part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
    }
    let digest = digest.finish();
    let digits = digest.as_ref().iter().take(16);
    let digits: String = digits.map(|byte| format!("{byte:02x}")).collect();
    format!("..{digits}")
}

fn first(path: &str) -> Option<OsString> {
    path.split('/').next().map(OsString::from)
}

fn write(folder: &Path, files: &Files, owner: &Owner) -> io::Result<()> {
    owner.folder(folder, 0o755)?;
    for (path, content) in files {
        let path = folder.join(path);
        let above = path.ancestors().skip(1);
        let mut above: Vec<_> = above.take_while(|it| *it != folder).collect();
        above.reverse();
        for above in above {
            owner.folder(above, 0o755)?;
        }
        owner.file(&path, &content.text, content.mode)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        let pairs = list.iter();
        let pairs = pairs.map(|(path, text)| {
            let (text, mode) = ((*text).to_owned(), 0o644);
            ((*path).to_owned(), Content { text, mode })
        });
        pairs.collect()
    }

    #[test]
    fn all_files_change_at_once_and_nothing_old_is_left() {
        let volume = tempfile::tempdir().unwrap();
        let volume = volume.path();
        let own = rustix::process::geteuid().as_raw();
        let owner = Owner::new(own, None, "");
        let read = |path: &str| std::fs::read_to_string(volume.join(path)).ok();
        let first = files(&[("a", "1"), ("conf/b", "1")]);
        put(volume, &first, &owner).unwrap();
        assert_eq!(read("conf/b").as_deref(), Some("1"));
        let held = part(volume, "conf/b").unwrap();
        let (seen, data) = (
            std::fs::File::open(volume.join("a")).unwrap(),
            volume.join(DATA),
        );
        let before = std::fs::read_link(&data).unwrap();
        // The same again is nothing.
        put(volume, &first, &owner).unwrap();
        assert_eq!(std::fs::read_link(&data).unwrap(), before);
        // A daemon that was killed half-way left this.
        let second = files(&[("a", "2"), ("c", "2")]);
        std::fs::create_dir(volume.join(name_of(&second))).unwrap();
        std::fs::write(volume.join(name_of(&second)).join("x"), "").unwrap();
        symlink("nowhere", volume.join(NEXT)).unwrap();
        put(volume, &second, &owner).unwrap();
        assert_eq!(
            (read("a"), read("c")),
            (Some("2".to_owned()), Some("2".to_owned()))
        );
        assert_eq!((read("conf/b"), held.exists()), (None, false));
        assert_eq!(io::read_to_string(seen).unwrap(), "1");
        let names = std::fs::read_dir(volume).unwrap().flatten();
        let mut names: Vec<_> = names.map(|it| it.file_name()).collect();
        names.sort();
        let expected = [DATA, &name_of(&second), "a", "c"];
        let mut expected = expected.map(OsString::from);
        expected.sort();
        assert_eq!(names, expected);
    }

    #[test]
    fn another_mode_is_another_folder() {
        let volume = tempfile::tempdir().unwrap();
        let volume = volume.path();
        let own = rustix::process::geteuid().as_raw();
        let owner = Owner::new(own, None, "");
        let mode = || {
            use std::os::unix::fs::PermissionsExt;
            let found = std::fs::metadata(volume.join("a")).unwrap();
            found.permissions().mode() & 0o7777
        };
        let mut files = files(&[("a", "1")]);
        put(volume, &files, &owner).unwrap();
        assert_eq!(mode(), 0o644);
        for content in files.values_mut() {
            content.mode = 0o400;
        }
        put(volume, &files, &owner).unwrap();
        assert_eq!(mode(), 0o400);
    }
}
