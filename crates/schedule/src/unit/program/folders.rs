// SPDX-License-Identifier: Apache-2.0
//! The folders that are made for a unit (systemd.exec(5), `RuntimeDirectory=` and the like): below
//! a folder of the system's, or for a unit with `DynamicUser=` in the `private` one there, which
//! only root may enter, with a link outside. A unit that changes from the one to the other takes
//! what is in its folders along.
//!
//! Each step of a path is taken from the folder before it, and none by a symbolic link: the
//! owner of one of them can't lead rights to another place.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fchmod, fchown, fstat, mkdirat,
    openat, readlinkat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use units::unit::Settings;
use units::value::{Bind, Value};

use super::account::Account;
use super::{Failure, failure};
use crate::unit::sandbox::Folder;

/// The folders that systemd makes for units: the directive, where, the variable, and with which
/// status a command ends where they can't be made.
pub(super) const FOLDERS: [(&str, &str, &str, u8); 5] = [
    ("RuntimeDirectory", "/run", "RUNTIME_DIRECTORY", 233),
    ("StateDirectory", "/var/lib", "STATE_DIRECTORY", 238),
    ("CacheDirectory", "/var/cache", "CACHE_DIRECTORY", 239),
    ("LogsDirectory", "/var/log", "LOGS_DIRECTORY", 240),
    (
        "ConfigurationDirectory",
        "/etc",
        "CONFIGURATION_DIRECTORY",
        241,
    ),
];
/// The folder beside those of others in which those of dynamic users are.
pub(super) const PRIVATE: &str = "private";
/// Folders in folders, when a tree gets another owner.
const DEEPEST: usize = 256;

/// Names of variables, and what folders they say.
pub(super) type Variables = Vec<(&'static str, String)>;

/// Makes the folders of a unit, and says what its variables are.
///
/// # Errors
/// [`Failure`]: one of them can't be made.
pub(super) fn make(
    settings: &Settings,
    account: &Account,
) -> Result<(Vec<Folder>, Variables), Failure> {
    let (mut made, mut variables) = (Vec::new(), Vec::new());
    for (field, base, variable, status) in FOLDERS {
        let Some(Value::Binds(folders)) = settings.get(field) else {
            continue;
        };
        let mode = match settings.get(&format!("{field}Mode")) {
            Some(Value::Mode(mode)) => *mode,
            _ => 0o755,
        };
        let wanted = Wanted {
            base: Path::new(base),
            mode,
            // systemd.exec(5): what is below /etc stays root's.
            owner: (field != "ConfigurationDirectory").then(|| owner(account)),
            private: is_private(settings, field),
        };
        let mut folders = folders.clone();
        folders.sort_by(|a, b| a.source.cmp(&b.source));
        let failed = |folder: &Bind| {
            let path = format!("{base}/{}", folder.source);
            move |error: io::Error| failure(status, format!("{field}: {path}: {error}"))
        };
        for folder in &folders {
            let above = folders
                .iter()
                .any(|it| is_above(&it.source, &folder.source));
            let source = wanted.make(&folder.source, above).map_err(failed(folder))?;
            made.push(Folder {
                source,
                target: format!("{base}/{}", folder.source),
                field,
            });
        }
        for folder in folders.iter().filter(|it| !it.target.is_empty()) {
            let target = format!("{base}/{}", folder.target);
            // A link that the unit's programs couldn't see is none: the folder itself is there.
            if is_hidden(settings, &target) && !is_within(&folder.target, &folders) {
                let source = wanted.place(&folder.source).display().to_string();
                made.push(Folder {
                    source,
                    target,
                    field,
                });
                continue;
            }
            let link = wanted.link(folder, &folders);
            link.map_err(failed(folder))?;
        }
        let paths = folders.iter().map(|it| format!("{base}/{}", it.source));
        variables.push((variable, paths.collect::<Vec<_>>().join(":")));
    }
    Ok((made, variables))
}

/// systemd.exec(5), `DynamicUser=`: which folders are hidden from others.
fn is_private(settings: &Settings, field: &str) -> bool {
    let dynamic = settings.flag("DynamicUser") == Some(true);
    dynamic
        && match field {
            "ConfigurationDirectory" => false,
            "RuntimeDirectory" => keeps_folders(settings, true),
            _ => true,
        }
}

/// Whether the unit's programs have an empty file system above that place.
fn is_hidden(settings: &Settings, path: &str) -> bool {
    let Some(Value::Binds(new)) = settings.get("TemporaryFileSystem") else {
        return false;
    };
    new.iter().any(|it| Path::new(path).starts_with(&it.target))
}

/// Whether a relative path leads into a folder of the unit.
fn is_within(path: &str, all: &[Bind]) -> bool {
    all.iter().any(|it| is_above(&it.source, path))
}

/// Whether a relative path leads into another one's folder.
fn is_above(above: &str, path: &str) -> bool {
    above != path && Path::new(path).starts_with(above)
}

type Owner = (Option<Uid>, Option<Gid>);

fn owner(account: &Account) -> Owner {
    let uid = account.uid().map(Uid::from_raw);
    (uid, account.group.map(Gid::from_raw))
}

/// How the folders of one directive are to be.
struct Wanted<'a> {
    base: &'a Path,
    mode: u32,
    /// `None`: as they are.
    owner: Option<Owner>,
    private: bool,
}

impl Wanted<'_> {
    /// Where the folder of that name is.
    fn place(&self, name: &str) -> PathBuf {
        match self.private {
            true => self.base.join(PRIVATE).join(name),
            false => self.base.join(name),
        }
    }

    /// Makes one; where it is. `above`: another folder of the unit has it in it, and the link.
    fn make(&self, name: &str, above: bool) -> io::Result<String> {
        let (plain, private) = (self.base.join(name), self.base.join(PRIVATE).join(name));
        let place = match self.private {
            true => {
                folder(&self.base.join(PRIVATE), 0o700, None)?;
                // What is in another folder is found through that one's link.
                if !above && kind_of(&plain)? == Some(FileType::Directory) {
                    moved(&plain, &private)?;
                }
                &private
            }
            false => {
                let own = leads_to(&plain, &private)?;
                if own && kind_of(&private)? == Some(FileType::Directory) {
                    let (above, last) = above_of(&plain)?;
                    unlinkat(above, last, AtFlags::empty())?;
                    moved(&private, &plain)?;
                }
                &plain
            }
        };
        folder(place, self.mode, self.owner)?;
        if self.private && !above {
            linked(&plain, &private)?;
        }
        Ok(place.display().to_string())
    }

    /// The link behind the colon of `StateDirectory=NAME:LINK`.
    fn link(&self, bind: &Bind, all: &[Bind]) -> io::Result<()> {
        // A link within a folder of the unit is where that folder is.
        let base = match self.private && is_within(&bind.target, all) {
            true => self.base.join(PRIVATE),
            false => self.base.to_owned(),
        };
        linked(&base.join(&bind.target), &base.join(&bind.source))
    }
}

/// What is at a path, which no link leads to.
fn kind_of(path: &Path) -> io::Result<Option<FileType>> {
    let (above, last) = match above_of(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match statat(above, last, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a link is at a path that leads to another one.
pub(super) fn leads_to(path: &Path, target: &Path) -> io::Result<bool> {
    if kind_of(path)? != Some(FileType::Symlink) {
        return Ok(false);
    }
    let (above, last) = above_of(path)?;
    let read = readlinkat(above, last, Vec::new())?;
    Ok(read
        .to_str()
        .is_ok_and(|it| Path::new(it) == relative(path, target)))
}

/// Moves a folder with what is in it.
fn moved(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(above) = to.parent() {
        folder_above(above)?;
    }
    if kind_of(to)?.is_some() {
        let words = format!("{} is there, too", to.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, words));
    }
    let ((from, name), (to, new)) = (above_of(from)?, above_of(to)?);
    renameat(from, name, to, new)?;
    Ok(())
}

/// Makes a link that leads to a path, unless there is that one. Nothing else is replaced.
fn linked(path: &Path, target: &Path) -> io::Result<()> {
    if let Some(above) = path.parent() {
        folder_above(above)?;
    }
    let (above, last) = above_of(path)?;
    match symlinkat(relative(path, target), above, last) {
        Err(Errno::EXIST) if leads_to(path, target)? => Ok(()),
        Err(Errno::EXIST) => {
            let words = format!("something else is at {}", path.display());
            Err(io::Error::new(io::ErrorKind::AlreadyExists, words))
        }
        done => Ok(done?),
    }
}

/// What a link at one place says to lead to another.
fn relative(link: &Path, target: &Path) -> PathBuf {
    let mut from = link.parent().unwrap_or(link).components().peekable();
    let mut to = target.components().peekable();
    while let (Some(a), Some(b)) = (from.peek(), to.peek())
        && a == b
    {
        from.next();
        to.next();
    }
    let up = from.map(|_| "..").collect::<PathBuf>();
    up.join(to.collect::<PathBuf>())
}

const WAY: OFlags = OFlags::DIRECTORY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

/// Opens a folder step by step; with `make`, makes what isn't there of it.
pub(crate) fn opened(path: &Path, make: bool) -> io::Result<OwnedFd> {
    let mut here = openat(CWD, "/", WAY, Mode::empty())?;
    for part in path.components().skip(1) {
        let std::path::Component::Normal(name) = part else {
            return Err(io::Error::other("leads to another place"));
        };
        if make {
            match mkdirat(&here, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        here = openat(&here, name, WAY, Mode::empty()).map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => io::Error::other("is no folder"),
            error => error.into(),
        })?;
    }
    Ok(here)
}

/// The folder that something is in, which is made where it isn't there.
fn folder_above(path: &Path) -> io::Result<()> {
    opened(path, true).map(drop)
}

/// The folder that something is in, and its name there.
fn above_of(path: &Path) -> io::Result<(OwnedFd, &std::ffi::OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => Ok((opened(above, false)?, name)),
        _ => Err(io::Error::other("names no folder")),
    }
}

/// Makes a folder, and those above it, and gives it its rights; with another owner than it had, all
/// that is in it, too.
fn folder(path: &Path, mode: u32, owner: Option<Owner>) -> io::Result<()> {
    let here = opened(path, true)?;
    fchmod(&here, Mode::from_raw_mode(mode))?;
    let Some((uid, gid)) = owner else {
        return Ok(());
    };
    let stat = fstat(&here)?;
    let same = uid.is_none_or(|it| it.as_raw() == stat.st_uid)
        && gid.is_none_or(|it| it.as_raw() == stat.st_gid);
    if !same {
        give_all(&here, (uid, gid), DEEPEST)?;
        fchown(&here, uid, gid)?;
        // A change of owner takes bits away.
        fchmod(&here, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

/// Gives all that is in a folder to an owner.
fn give_all(here: &OwnedFd, (uid, gid): Owner, depth: usize) -> io::Result<()> {
    let Some(below) = depth.checked_sub(1) else {
        return Err(io::Error::other("it has too many folders in folders"));
    };
    for entry in Dir::read_from(here)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match openat(here, name, WAY, Mode::empty()) {
            Ok(folder) => give_all(&folder, (uid, gid), below)?,
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match chownat(here, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The owner of the private folders that a unit has already: it gets that number again.
pub(crate) fn owner_of_private(settings: &Settings) -> Option<u32> {
    let of = |(field, base, ..): &(&str, &str, &str, u8)| {
        let Some(Value::Binds(folders)) = settings.get(field) else {
            return None;
        };
        let first = folders.first().filter(|_| is_private(settings, field))?;
        let place = Path::new(base).join(PRIVATE).join(&first.source);
        let folder = opened(&place, false).ok()?;
        Some(fstat(&folder).ok()?.st_uid)
    };
    FOLDERS.iter().find_map(of)
}

/// Whether its folders below /run outlive it (`RuntimeDirectoryPreserve=`).
pub(crate) fn keeps_folders(settings: &Settings, restarts: bool) -> bool {
    let word = settings.word("RuntimeDirectoryPreserve");
    settings.flag("RuntimeDirectoryPreserve") == Some(true) || (word.is_some() && restarts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let name = format!("aurae-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Place(path.canonicalize().unwrap())
        }

        fn wanted(&self, private: bool) -> Wanted<'_> {
            Wanted {
                base: &self.0,
                mode: 0o750,
                owner: None,
                private,
            }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn folders_are_made_by_no_link() {
        let place = Place::new("folders");
        let at = |name: &str| place.0.join(name);
        folder(&at("a/b"), 0o700, None).unwrap();
        let mode = std::fs::metadata(at("a/b")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::create_dir(at("else")).unwrap();
        symlink(at("else"), at("link")).unwrap();
        // Neither the last step nor one on the way.
        for path in ["link", "link/in"] {
            folder(&at(path), 0o777, None).unwrap_err();
        }
        assert!(!at("else/in").exists());
    }

    #[test]
    fn a_folder_moves_to_where_only_its_unit_sees_it_and_back() {
        // systemd.exec(5), DynamicUser=.
        let place = Place::new("private");
        let at = |name: &str| place.0.join(name);
        for name in ["a", "b/c"] {
            let made = place.wanted(false).make(name, false).unwrap();
            assert_eq!(made, at(name).display().to_string());
            std::fs::write(at(name).join("kept"), "1").unwrap();
        }
        for name in ["a", "b/c"] {
            let private = at("private").join(name);
            let made = place.wanted(true).make(name, false).unwrap();
            assert_eq!(made, private.display().to_string());
            assert!(at(name).is_symlink() && private.join("kept").exists());
            assert!(at(name).join("kept").exists(), "the link leads there");
        }
        assert_eq!(
            std::fs::metadata(at("private")).unwrap().mode() & 0o777,
            0o700
        );
        // Once more changes nothing, and a folder in a folder has no link of its own.
        place.wanted(true).make("a", false).unwrap();
        place.wanted(true).make("a/in", true).unwrap();
        assert!(at("private/a/in").is_dir() && at("a/in").is_dir());
        for name in ["a", "b/c"] {
            place.wanted(false).make(name, false).unwrap();
            assert!(at(name).is_dir() && !at(name).is_symlink());
            assert!(at(name).join("kept").exists());
        }
    }

    #[test]
    fn what_others_have_put_there_is_left_alone() {
        let place = Place::new("others");
        let at = |name: &str| place.0.join(name);
        symlink("/etc", at("a")).unwrap();
        place.wanted(true).make("a", false).unwrap_err();
        place.wanted(false).make("a", false).unwrap_err();
        assert_eq!(std::fs::read_link(at("a")).unwrap(), Path::new("/etc"));
        place.wanted(false).make("both", false).unwrap();
        std::fs::create_dir_all(at("private/both")).unwrap();
        place.wanted(true).make("both", false).unwrap_err();
        assert!(!at("both").is_symlink());
    }

    #[test]
    fn links_lead_from_their_own_folder() {
        for (link, target, expected) in [
            ("/a/b", "/a/private/b", "private/b"),
            ("/a/b/c", "/a/private/b/c", "../private/b/c"),
            ("/a/x", "/a/y", "y"),
            ("/a/p/1", "/a/q/r", "../q/r"),
        ] {
            let relative = relative(Path::new(link), Path::new(target));
            assert_eq!(relative, Path::new(expected), "{link}");
        }
    }
}
