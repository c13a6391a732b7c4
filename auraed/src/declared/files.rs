// SPDX-License-Identifier: Apache-2.0
//! Which files there are, and what is in them. What they say is done as root, so only what root
//! has written is taken: a regular file with one name, of root or the daemon's user, that neither
//! group nor others may write, in a folder of which the same is true. It is opened once, follows no
//! link, and all of that is asked of what was opened.
//!
//! A user's crontab is done as that user. Debian's cron says who may have written it: the user that
//! it is named as, or root, with mode 0600, in a folder to which the group `crontab` may write,
//! with the sticky bit.
//!
//! That something can't be read is told apart from its absence: what isn't known changes nothing.
//! Called by `declared`, off the async threads.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

pub(super) use super::accounts::Accounts;

/// The largest file, in bytes.
pub(super) const MOST_BYTES: u64 = 1 << 20;
/// Who else may not write: the group, and others.
const OTHERS_WRITE: u32 = 0o022;

/// Where files are.
#[derive(Clone)]
pub(super) struct Sources {
    /// A folder of manifests; empty: none.
    pub(super) manifests: PathBuf,
    /// Crontabs with a column of users, or folders of them.
    pub(super) crontabs: Vec<PathBuf>,
    /// The folder of users' crontabs; empty: none.
    pub(super) users: PathBuf,
}

impl Sources {
    pub(super) fn are_none(&self) -> bool {
        let none = |path: &Path| path.as_os_str().is_empty();
        none(&self.manifests) && self.crontabs.is_empty() && none(&self.users)
    }
}

/// What a file is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Manifest,
    /// With a column of users.
    Crontab,
    /// A crontab of that user.
    OfUser(String),
}

/// A file that is there.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    /// What it says, or why that isn't taken.
    pub(super) text: Result<String, String>,
}

/// All that was looked at.
#[derive(Default)]
pub(super) struct Seen {
    /// In the order of their names.
    pub(super) found: Vec<Found>,
    /// Folders and files of which it isn't known what they are; why.
    pub(super) unknown: Vec<(PathBuf, String)>,
}

/// Looks at all of them. `before`: whether there were files in what is now not there.
pub(super) fn see(sources: &Sources, accounts: &Accounts, before: impl Fn(&Path) -> bool) -> Seen {
    let mut seen = Seen::default();
    let manifests = &sources.manifests;
    if !manifests.as_os_str().is_empty() {
        let all = in_folder(manifests, is_manifest);
        seen.add(manifests, |_| Kind::Manifest, all);
    }
    for given in &sources.crontabs {
        let all = match given.metadata() {
            Ok(of) if of.is_dir() => in_folder(given, is_crontab),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.to_string()),
            Err(_) if before(given) => Err("the folder is not there any more".to_owned()),
            Ok(_) | Err(_) => by_itself(given),
        };
        seen.add(given, |_| Kind::Crontab, all);
    }
    let users = &sources.users;
    if !users.as_os_str().is_empty() {
        let own = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            Kind::OfUser(name.to_string_lossy().into_owned())
        };
        seen.add(users, own, of_users(users, accounts));
    }
    seen
}

type Texts = Vec<(PathBuf, Result<String, String>)>;

impl Seen {
    fn add(&mut self, source: &Path, kind: impl Fn(&Path) -> Kind, all: Result<Texts, String>) {
        match all {
            Ok(all) => self.found.extend(all.into_iter().map(|(path, text)| Found {
                kind: kind(&path),
                path,
                text,
            })),
            Err(words) => self.unknown.push((source.to_owned(), words)),
        }
    }
}

fn is_manifest(name: &OsStr) -> bool {
    let end = Path::new(name).extension().and_then(OsStr::to_str);
    matches!(end, Some("yaml" | "yml" | "json"))
}

/// As run-parts has it: no file of an editor or a package manager.
fn is_crontab(name: &OsStr) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    name.as_bytes().iter().all(plain)
}

fn in_folder(folder: &Path, wanted: impl Fn(&OsStr) -> bool) -> Result<Texts, String> {
    let open = open_folder(folder, of_root)?;
    texts(folder, &open, wanted, |_, stat| of_root(stat))
}

/// The crontabs of users. What crontab(1) is about to put there begins with `tmp.`.
fn of_users(folder: &Path, accounts: &Accounts) -> Result<Texts, String> {
    let open = open_folder(folder, |stat| accounts.may_be_spool(stat))?;
    let wanted = |name: &OsStr| {
        let name = name.as_bytes();
        !name.starts_with(b".") && !name.starts_with(b"tmp.")
    };
    texts(folder, &open, wanted, |name, stat| accounts.own(name, stat))
}

/// What the files of a folder say. `trusted`: who may have written one of that name.
fn texts(
    folder: &Path,
    open: &OwnedFd,
    wanted: impl Fn(&OsStr) -> bool,
    trusted: impl Fn(&OsStr, &Stat) -> Result<(), String>,
) -> Result<Texts, String> {
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(open).map_err(said)? {
        let entry = entry.map_err(said)?;
        let name = os(entry.file_name()).to_owned();
        if wanted(&name) {
            names.push(name);
        }
    }
    names.sort();
    let mut all = Vec::new();
    for name in names {
        let text = match read(open, &name, |stat| trusted(&name, stat)) {
            // A folder below it is none of ours.
            Ok(Read::Folder) => continue,
            // It went just now; that is told, and the next look knows.
            Ok(Read::Absent) => Err("went while it was looked at".to_owned()),
            Ok(Read::Text(text)) => Ok(text),
            Err(words) => Err(words),
        };
        all.push((folder.join(name), text));
    }
    Ok(all)
}

/// One file that the configuration names.
fn by_itself(path: &Path) -> Result<Texts, String> {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    let open = open_folder(parent.unwrap_or(Path::new(".")), of_root)?;
    let name = path.file_name().ok_or("has no name")?;
    let text = match read(&open, name, of_root) {
        Ok(Read::Absent) => return Ok(Vec::new()),
        Ok(Read::Folder) => return Err("became a folder while it was looked at".to_owned()),
        Ok(Read::Text(text)) => Ok(text),
        Err(words) => Err(words),
    };
    Ok(vec![(path.to_owned(), text)])
}

fn open_folder(
    path: &Path,
    trusted: impl Fn(&Stat) -> Result<(), String>,
) -> Result<OwnedFd, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let at = |e: Errno| format!("{}: {}", path.display(), said(e));
    let open = fs::open(path, flags, Mode::empty()).map_err(at)?;
    let stat = fs::fstat(&open).map_err(at)?;
    trusted(&stat).map_err(|words| format!("the folder {} {words}", path.display()))?;
    Ok(open)
}

enum Read {
    Text(String),
    Folder,
    Absent,
}

fn read(
    folder: impl AsFd,
    name: &OsStr,
    trusted: impl Fn(&Stat) -> Result<(), String>,
) -> Result<Read, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = match fs::openat(folder, name, flags, Mode::empty()) {
        Ok(open) => open,
        Err(Errno::NOENT) => return Ok(Read::Absent),
        Err(Errno::LOOP) => {
            return Err("is a symbolic link: put the file itself there".to_owned());
        }
        Err(error) => return Err(said(error)),
    };
    let stat = fs::fstat(&open).map_err(said)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Ok(Read::Folder),
        _ => return Err("is not a regular file".to_owned()),
    }
    trusted(&stat)?;
    if stat.st_nlink != 1 {
        let links = stat.st_nlink;
        return Err(format!("has {links} names (hard links): copy it instead"));
    }
    let mut bytes = Vec::new();
    let mut some = File::from(open).take(MOST_BYTES + 1);
    some.read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MOST_BYTES {
        return Err(format!("has more than {MOST_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|e| e.to_string())?;
    Ok(Read::Text(text))
}

/// Only root, or the user that the daemon runs as, has a say in it.
pub(super) fn of_root(stat: &Stat) -> Result<(), String> {
    let (owner, own) = (stat.st_uid, rustix::process::geteuid().as_raw());
    if owner != 0 && owner != own {
        return Err(format!(
            "belongs to user {owner}, and what it says is done as root: chown it to root"
        ));
    }
    let mode = stat.st_mode & 0o7777;
    match mode & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(format!(
            "has mode {mode:04o}, and what it says is done as root: chmod go-w it"
        )),
    }
}

fn os(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

fn said(error: Errno) -> String {
    std::io::Error::from(error).to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn see(manifests: &Path, crontabs: &[PathBuf], before: impl Fn(&Path) -> bool) -> Seen {
        let sources = Sources {
            manifests: manifests.to_owned(),
            crontabs: crontabs.to_owned(),
            users: PathBuf::new(),
        };
        super::see(&sources, &Accounts::default(), before)
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn write(path: &Path) {
        std::fs::write(path, "text").unwrap();
        set_mode(path, 0o644);
    }

    fn seen(seen: &Seen) -> Vec<Result<&str, &str>> {
        let texts = seen.found.iter();
        texts
            .map(|it| it.text.as_deref().map_err(String::as_str))
            .collect()
    }

    #[test]
    fn only_what_nobody_else_could_have_written_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write(&at("a.yaml"));
        write(&at("b.yaml"));
        set_mode(&at("b.yaml"), 0o664);
        symlink(at("a.yaml"), at("c.yaml")).unwrap();
        write(&at("d"));
        std::fs::hard_link(at("d"), at("d.yaml")).unwrap();
        write(&at("e.yaml"));
        let larger = vec![b'#'; usize::try_from(MOST_BYTES).unwrap() + 1];
        std::fs::write(at("e.yaml"), larger).unwrap();
        std::fs::create_dir(at("f.yaml")).unwrap();
        let pipe = FileType::Fifo;
        fs::mknodat(fs::CWD, at("g.yaml"), pipe, Mode::RUSR, 0).unwrap();
        let all = see(folder.path(), &[], |_| false);
        let wanted = [
            "mode 0664",
            "symbolic link",
            "2 names",
            "more than",
            "regular",
        ];
        let [first, rest @ ..] = &seen(&all)[..] else {
            panic!("nothing was seen: {:?}", all.unknown);
        };
        assert_eq!(*first, Ok("text"));
        assert_eq!(rest.len(), wanted.len(), "{rest:?}");
        for (said, wanted) in rest.iter().zip(wanted) {
            assert!(said.is_err_and(|it| it.contains(wanted)), "{said:?}");
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(at("a.yaml"), Some(1000), None).unwrap();
            let all = see(folder.path(), &[], |_| false);
            assert!(seen(&all)[0].is_err_and(|it| it.contains("user 1000")));
        }
        set_mode(folder.path(), 0o777);
        let all = see(folder.path(), &[], |_| false);
        assert!(all.found.is_empty() && all.unknown[0].1.contains("mode 0777"));
    }

    #[test]
    fn what_can_not_be_read_is_not_taken_for_empty() {
        let folder = tempfile::tempdir().unwrap();
        let (gone, file) = (folder.path().join("gone"), folder.path().join("cron"));
        let none = Path::new("");
        // A folder that isn't there, of whichever kind, is not known.
        assert_eq!(see(&gone, &[], |_| false).unknown.len(), 1);
        let inside = [gone.join("crontab")];
        assert_eq!(see(none, &inside, |_| false).unknown.len(), 1);
        assert_eq!(
            see(none, std::slice::from_ref(&gone), |_| true)
                .unknown
                .len(),
            1
        );
        // A file that isn't there in a folder that is has gone.
        let all = see(none, std::slice::from_ref(&file), |_| false);
        assert!(all.found.is_empty() && all.unknown.is_empty());
        // A file where a folder is wanted.
        write(&file);
        assert_eq!(see(&file, &[], |_| false).unknown.len(), 1);
        let all = see(none, &[file], |_| false);
        assert_eq!(seen(&all), [Ok("text")]);
    }

    #[test]
    fn a_users_crontab_is_of_the_user_or_roots_and_for_no_other_eyes() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let spool = tempfile::tempdir().unwrap();
        let (uid, group) = (1234, 5678);
        let of = |path: &Path, uid, gid, mode| {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
            set_mode(path, mode);
        };
        // As Debian's package makes it.
        of(spool.path(), 0, group, 0o1730);
        let accounts = Accounts::new(
            "ann:x:1234:1::/:/bin/sh\nbob:x:9:1::/:\n",
            "crontab:x:5678:",
        );
        let sources = Sources {
            manifests: PathBuf::new(),
            crontabs: Vec::new(),
            users: spool.path().to_owned(),
        };
        let said = |path: &Path| {
            let all = super::see(&sources, &accounts, |_| false);
            assert!(all.unknown.is_empty(), "{:?}", all.unknown);
            let found = all.found.into_iter().find(|it| it.path == path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!(found.kind, Kind::OfUser(name));
            found.text
        };
        let ann = spool.path().join("ann");
        write(&ann);
        for (owner, mode, wanted) in [
            (uid, 0o600, Ok(())),
            (0, 0o600, Ok(())),
            (9, 0o600, Err("user 9")),
            (uid, 0o644, Err("mode 0644")),
            (uid, 0o4600, Err("mode 4600")),
        ] {
            of(&ann, owner, group, mode);
            match (said(&ann), wanted) {
                (Ok(text), Ok(())) => assert_eq!(text, "text"),
                (Err(words), Err(part)) => assert!(words.contains(part), "{words}"),
                (said, wanted) => panic!("{owner} {mode:o}: {said:?}, not {wanted:?}"),
            }
        }
        let orphan = spool.path().join("eve");
        write(&orphan);
        assert!(said(&orphan).unwrap_err().contains("no user"));
        std::fs::write(spool.path().join("tmp.XyZ"), "half").unwrap();
        let all = super::see(&sources, &accounts, |_| false);
        assert_eq!(
            all.found.len(),
            2,
            "what is about to be put there isn't there"
        );
        for (gid, mode) in [(group, 0o730), (7, 0o1730), (group, 0o1733)] {
            of(spool.path(), 0, gid, mode);
            let all = super::see(&sources, &accounts, |_| false);
            assert!(
                all.found.is_empty() && all.unknown.len() == 1,
                "{gid} {mode:o}"
            );
        }
    }
}
