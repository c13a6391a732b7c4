// SPDX-License-Identifier: Apache-2.0
//! The declarations that no file of the workspace holds (the API's, the ECMAScript library's as far
//! as the checker knows it) as files, so that an editor can open a definition in them. Written once
//! for each text, read-only, into a folder that the caller names; nothing reads them back.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::check::{ENVIRONMENT, Environment, FileId, LIBRARY};
use crate::root::Root;
use crate::source::Source;

/// The file's name, as `aurae types` writes it.
const API: &str = "aurae.d.ts";

/// What the checker knows of ECMAScript.
const ECMASCRIPT: &str = "ecmascript.d.ts";

/// The text that declares what belongs to `file`, one of the environment's, under its name.
pub(super) fn source(environment: &Environment, file: FileId) -> Source {
    match file == LIBRARY {
        true => Source::new(ECMASCRIPT, Environment::library_text()),
        false => Source::new(API, environment.text()),
    }
}

/// Which of the environment's texts a file is, by its name.
pub(super) fn is_of(path: &Path) -> Option<FileId> {
    match path.file_name()?.to_str()? {
        API => Some(ENVIRONMENT),
        ECMASCRIPT => Some(LIBRARY),
        _ => None,
    }
}

/// Where that text lies as a file: the workspace's own `aurae.d.ts` if it is the same, else one in
/// `cache`, written if it isn't there.
///
/// # Errors
/// It isn't there and can't be written.
pub(super) fn file(source: &Source, root: &Root, cache: &Path) -> io::Result<PathBuf> {
    let own = root.path().join(API);
    if source.name() == API && holds(&own, source.text()) {
        return Ok(own);
    }
    cached(source, cache)
}

/// Where it lies below `cache`; written if it isn't there.
///
/// # Errors
/// It isn't there and can't be written.
pub(super) fn cached(source: &Source, cache: &Path) -> io::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    source.text().hash(&mut hasher);
    let folder = cache.join(format!("{:016x}", hasher.finish()));
    let path = folder.join(source.name());
    if holds(&path, source.text()) {
        return Ok(path);
    }
    fs::create_dir_all(&folder)?;
    // Another server may write it at the same time: each writes its own and moves it there.
    let begun = folder.join(format!("{}.{}", source.name(), std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut to = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o444)
        .open(&begun)?;
    to.write_all(source.text().as_bytes())?;
    fs::rename(&begun, &path)?;
    Ok(path)
}

fn holds(path: &Path, text: &str) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes())
}
