// SPDX-License-Identifier: Apache-2.0
//! Reading and replacing small files; errors carry the path. Also the folders of the user's own
//! files.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// The largest configuration, certificate or key file that is read: 1 MiB.
const MAX_FILE: u64 = 1 << 20;

/// A folder of the user's own: the one that the variable `name` holds, else `below_home` in the
/// home folder (the XDG Base Directory Specification). `None` where the user has neither.
pub fn user_folder(name: &str, below_home: &str) -> Option<PathBuf> {
    let named = variable(name).map(PathBuf::from);
    named.or_else(|| Some(Path::new(&variable("HOME")?).join(below_home)))
}

/// A variable of the environment that isn't empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Replaces a file at once: readers see the old or the new one. Mode 0600; missing folders are
/// made, 0700.
///
/// # Errors
/// [`Error::File`] with the path.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), Error> {
    let fail = |problem: std::io::Error| Error::file(path, "write", problem);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    make_private_folder(folder)?;
    let temporary = temporary_name(path);
    let written = write_new(&temporary, content)
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| File::open(folder)?.sync_all());
    if let Err(problem) = written {
        // The error that counts is the first one.
        let _ = fs::remove_file(&temporary);
        return Err(fail(problem));
    }
    Ok(())
}

fn make_private_folder(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|problem| Error::file(folder, "make", problem))
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

fn write_new(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Reads a whole file of at most 1 MiB.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let fail = |problem: std::io::Error| Error::file(path, "read", problem);
    let mut content = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut content))
        .map_err(fail)?;
    if content.len() as u64 > MAX_FILE {
        let problem = std::io::Error::new(ErrorKind::InvalidData, "larger than 1 MiB");
        return Err(fail(problem));
    }
    Ok(content)
}

/// Reads a whole text file of at most 1 MiB.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read(path)?).map_err(|_| {
        let problem = std::io::Error::new(ErrorKind::InvalidData, "not UTF-8");
        Error::file(path, "read", problem)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_private_file_is_its_owners_alone_and_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/key.pem");
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(read_text(&path).unwrap(), "two");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_huge_file_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("huge");
        fs::write(&path, vec![b' '; 1 << 21]).unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(
            message.contains("huge") && message.contains("1 MiB"),
            "{message}"
        );
    }
}
