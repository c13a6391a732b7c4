// SPDX-License-Identifier: Apache-2.0
//! Waits until a path unit is to start its unit. Each folder on the way to a path is watched, so
//! that what is made, moved or removed on the way is seen; a name that leads nowhere near the path
//! is left alone where the kernel says it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;

use super::{Kind, Rules};
use crate::unit::facts;

/// So many events are read before others have their turn.
const EVENTS: usize = 4096;

/// Why a unit waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Since {
    /// It was just started: what is there already counts for `PathExists=` and the like alone.
    Start,
    /// What it starts has ended.
    End,
    /// A new daemon goes on with it.
    Adoption,
}

/// That it is to start its unit, and which paths are there now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    /// The path; of a pattern the one that matched.
    pub(crate) path: String,
    pub(crate) existed: Vec<bool>,
}

/// What one watch is for.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Watched {
    /// The place of the path in the rules.
    at: usize,
    /// The next name on the way; `None` at the path itself.
    next: Option<Vec<u8>>,
}

/// What the kernel is asked to tell.
struct Watcher {
    inotify: OwnedFd,
    watched: BTreeMap<i32, Vec<Watched>>,
}

fn flags_of(kind: Kind) -> WatchFlags {
    let moved = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ATTRIB;
    let changed = moved
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO;
    match kind {
        Kind::Exists | Kind::Glob => moved,
        Kind::Changed => changed,
        Kind::Modified => changed | WatchFlags::MODIFY,
        Kind::NotEmpty => moved | WatchFlags::CREATE | WatchFlags::MOVED_TO,
    }
}

/// On the way to a path: that a name comes or goes.
fn flags_above() -> WatchFlags {
    WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ATTRIB
        | WatchFlags::CREATE
        | WatchFlags::MOVED_TO
        | WatchFlags::MOVED_FROM
        | WatchFlags::DELETE
}

impl Watcher {
    /// Watches all paths of a unit. Blocks.
    fn of(rules: &Rules) -> Result<Watcher, String> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let inotify = inotify::init(flags).map_err(|it| format!("inotify: {it}"))?;
        let mut watcher = Watcher {
            inotify,
            watched: BTreeMap::new(),
        };
        for (at, (kind, path)) in rules.watches.iter().enumerate() {
            watcher.watch(at, *kind, path)?;
        }
        Ok(watcher)
    }

    fn watch(&mut self, at: usize, kind: Kind, path: &str) -> Result<(), String> {
        let mut here = PathBuf::from("/");
        let mut names = path.split('/').filter(|it| !it.is_empty()).peekable();
        loop {
            let next = names.next();
            // A pattern is no name: what comes in the folder above it is looked at.
            let pattern = next.is_some_and(|it| kind == Kind::Glob && units::glob::is_pattern(it));
            let flags = match next {
                None => flags_of(kind),
                Some(_) => flags_above(),
            } | WatchFlags::MASK_ADD;
            let watched = Watched {
                at,
                next: match (next, pattern) {
                    (Some(name), false) => Some(name.as_bytes().to_vec()),
                    (Some(_), true) => Some(Vec::new()),
                    (None, _) => None,
                },
            };
            match inotify::add_watch(&self.inotify, &here, flags) {
                Ok(number) => self.watched.entry(number).or_default().push(watched),
                // What isn't there, or isn't a folder yet, is told of by the one above it.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => return Ok(()),
                Err(Errno::NOSPC) => {
                    return Err("no more watches (fs.inotify.max_user_watches)".to_owned());
                }
                Err(error) => return Err(format!("inotify: {}: {error}", here.display())),
            }
            match next {
                Some(name) if !pattern => here.push(OsStr::from_bytes(name.as_bytes())),
                _ => return Ok(()),
            }
        }
    }

    /// What an event is: a change at a path itself, something on the way, or nothing.
    fn judge(&self, number: i32, name: Option<&[u8]>) -> Told {
        let mut told = Told::Nothing;
        for watched in self.watched.get(&number).into_iter().flatten() {
            match (&watched.next, name) {
                (None, _) => return Told::There(watched.at),
                // The folder itself, any name of a pattern, or the name on the way.
                (Some(_), None) => told = Told::OnTheWay,
                (Some(next), Some(_)) if next.is_empty() => told = Told::OnTheWay,
                (Some(next), Some(name)) if next == name => told = Told::OnTheWay,
                (Some(_), Some(_)) => {}
            }
        }
        told
    }

    /// Takes in what the kernel has told; `false`: nothing that matters.
    fn read(&self, changes: &dyn Fn(usize) -> bool) -> Result<Told, Errno> {
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut all = Told::Nothing;
        for _ in 0..EVENTS {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) if all == Told::Nothing => return Err(Errno::AGAIN),
                Err(Errno::AGAIN) => return Ok(all),
                Err(error) => return Err(error),
            };
            if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                all = Told::OnTheWay;
                continue;
            }
            match self.judge(event.wd(), event.file_name().map(std::ffi::CStr::to_bytes)) {
                Told::Nothing => {}
                Told::There(at) if changes(at) => return Ok(Told::There(at)),
                Told::There(_) | Told::OnTheWay => all = Told::OnTheWay,
            }
        }
        Ok(Told::OnTheWay)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Nothing,
    OnTheWay,
    There(usize),
}

/// Looks at all paths: the first one by which the unit is to be started, as systemd's
/// `path_spec_check_good` has it; `existed` is what it was, and becomes what it is. Blocks.
fn look(rules: &Rules, existed: &mut Vec<bool>, since: Since) -> Option<usize> {
    existed.resize(rules.watches.len(), false);
    let mut found = None;
    for (at, (kind, path)) in rules.watches.iter().enumerate() {
        let there = |path: &str| Path::new(path).exists();
        let good = match kind {
            Kind::Exists => there(path),
            Kind::Glob => facts::globbed(path),
            Kind::NotEmpty => fs::read_dir(path).is_ok_and(|mut all| all.next().is_some()),
            Kind::Changed | Kind::Modified => {
                let now = there(path);
                let before = existed.get_mut(at).map(|it| std::mem::replace(it, now));
                since == Since::Adoption && before != Some(now)
            }
        };
        if good && found.is_none() {
            found = Some(at);
        }
    }
    found
}

/// The path at a place of the rules; of a pattern the first one that it matches.
fn named(rules: &Rules, at: usize) -> String {
    match rules.watches.get(at) {
        Some((Kind::Glob, pattern)) => {
            let first = facts::matching(pattern).into_iter().next();
            first.unwrap_or_else(|| pattern.clone())
        }
        Some((_, path)) => path.clone(),
        None => String::new(),
    }
}

/// Resolves when the unit of a path unit is to be started.
///
/// # Errors
/// Words: nothing can be watched.
pub(crate) async fn wait(
    rules: Rules,
    mut existed: Vec<bool>,
    mut since: Since,
) -> Result<Seen, String> {
    loop {
        let wanted = rules.clone();
        let looked = tokio::task::spawn_blocking(move || {
            // Watched first: what comes meanwhile is seen by one or the other.
            let watcher = Watcher::of(&wanted)?;
            let found = look(&wanted, &mut existed, since);
            let path = found.map(|at| named(&wanted, at));
            Ok::<_, String>((watcher, path, existed))
        });
        let (watcher, found, now) = looked.await.map_err(|it| it.to_string())??;
        existed = now;
        if let Some(path) = found {
            return Ok(Seen { path, existed });
        }
        if let Some(at) = told(&watcher, &rules).await? {
            let path = named(&rules, at);
            return Ok(Seen { path, existed });
        }
        // From now on it is the difference that counts.
        since = Since::Adoption;
    }
}

/// Waits for an event that matters: at which path it says that the unit is to be started, or that
/// it must be looked again.
async fn told(watcher: &Watcher, rules: &Rules) -> Result<Option<usize>, String> {
    let failed = |error: std::io::Error| format!("inotify: {error}");
    let own = watcher.inotify.try_clone().map_err(failed)?;
    let readable = runtime::watched::watch(own, Interest::READABLE).map_err(failed)?;
    let changes = |at: usize| {
        let kind = rules.watches.get(at).map(|(kind, _)| *kind);
        matches!(kind, Some(Kind::Changed | Kind::Modified))
    };
    loop {
        let mut ready = readable.readable().await.map_err(failed)?;
        match watcher.read(&changes) {
            Ok(Told::There(at)) => return Ok(Some(at)),
            Ok(Told::OnTheWay) => return Ok(None),
            Ok(Told::Nothing) => {}
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(error) => return Err(format!("inotify: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};
    use units::time::Span;

    fn rules(kind: Kind, path: &Path) -> Rules {
        Rules {
            watches: vec![(kind, path.display().to_string())],
            makes: None,
            trigger_interval: Span::from_secs(2),
            trigger_burst: 200,
        }
    }

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("aurae-path-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    type Waiting = tokio::task::JoinHandle<Result<Seen, String>>;

    fn waiting(kind: Kind, path: &Path, existed: bool, since: Since) -> Waiting {
        let rules = rules(kind, path);
        tokio::spawn(wait(rules, vec![existed], since))
    }

    async fn still(waiting: &mut Waiting, why: &str) {
        let early = tokio::time::timeout(Duration::from_millis(300), waiting).await;
        assert!(early.is_err(), "{why}: {early:?}");
    }

    async fn comes(waiting: Waiting, why: &str) -> Seen {
        let came = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        came.unwrap_or_else(|_| panic!("{why}")).unwrap().unwrap()
    }

    /// Does it again until it is seen: the watch may not be up yet.
    async fn sees(waiting: Waiting, why: &str, mut act: impl FnMut()) -> Seen {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !waiting.is_finished() && Instant::now() < deadline {
            act();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        comes(waiting, why).await
    }

    #[tokio::test]
    async fn a_file_deep_in_folders_that_are_not_there_yet_is_seen_when_it_comes() {
        let top = folder("deep");
        let path = top.join("a/b/c");
        let mut wait = waiting(Kind::Exists, &path, false, Since::Start);
        still(&mut wait, "nothing is there").await;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(top.join("beside"), "x").unwrap();
        still(&mut wait, "the folders alone").await;
        fs::write(&path, "x").unwrap();
        let seen = comes(wait, "the file").await;
        assert_eq!(seen.path, path.display().to_string());
        // It is there: at once.
        let wait = waiting(Kind::Exists, &path, false, Since::End);
        comes(wait, "it is there already").await;
        fs::remove_dir_all(top).unwrap();
    }

    #[tokio::test]
    async fn changed_means_closed_after_writing_and_modified_each_write() {
        use std::io::Write;
        let top = folder("changed");
        let path = top.join("file");
        fs::write(&path, "x").unwrap();
        let mut changed = waiting(Kind::Changed, &path, true, Since::Start);
        let mut modified = waiting(Kind::Modified, &path, true, Since::Start);
        still(&mut changed, "it was there before").await;
        still(&mut modified, "it was there before").await;
        let open = || fs::OpenOptions::new().append(true).open(&path).unwrap();
        let mut file = open();
        sees(modified, "a write", || file.write_all(b"y").unwrap()).await;
        still(&mut changed, "the file is open still").await;
        let close = || drop(std::mem::replace(&mut file, open()));
        sees(changed, "it was closed", close).await;
        // One that is replaced has changed, too.
        let replaced = waiting(Kind::Changed, &path, true, Since::Start);
        let replace = || {
            fs::write(top.join("new"), "z").unwrap();
            fs::rename(top.join("new"), &path).unwrap();
        };
        sees(replaced, "it was replaced", replace).await;
        // One that came while no daemon looked.
        let other = top.join("other");
        fs::write(&other, "x").unwrap();
        let came = waiting(Kind::Changed, &other, false, Since::Adoption);
        let seen = comes(came, "it wasn't there").await;
        assert_eq!(seen.existed, [true]);
        fs::remove_dir_all(top).unwrap();
    }

    #[tokio::test]
    async fn patterns_and_folders_that_are_not_empty_are_seen() {
        let top = folder("glob");
        let mut glob = waiting(Kind::Glob, &top.join("*.conf"), false, Since::Start);
        let inner = top.join("spool");
        fs::create_dir(&inner).unwrap();
        let mut filled = waiting(Kind::NotEmpty, &inner, false, Since::Start);
        fs::write(top.join("x.other"), "x").unwrap();
        still(&mut glob, "another name").await;
        still(&mut filled, "it is empty").await;
        fs::write(top.join("x.conf"), "x").unwrap();
        let seen = comes(glob, "the pattern").await;
        assert_eq!(seen.path, top.join("x.conf").display().to_string());
        fs::write(inner.join("job"), "x").unwrap();
        comes(filled, "the folder").await;
        fs::remove_dir_all(top).unwrap();
    }
}
