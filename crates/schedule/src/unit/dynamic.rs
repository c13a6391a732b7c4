// SPDX-License-Identifier: Apache-2.0
//! Users that are there for a unit alone (systemd.exec(5), `DynamicUser=`): a number of systemd's
//! range, with a name that the unit's own view of `/etc/passwd` has, and the machine's programs by
//! [`super::userdb`].
//!
//! A number is taken by a lock on a file of that number, as systemd takes it, in the folder where
//! systemd does (nss-systemd(8)): no other takes it while the lock is held, be it another node
//! on the machine or systemd. Node-init keeps the lock's descriptor, so it outlives the daemon and
//! ends with node-init. Units that have one name by `User=` have one user.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, openat, stat};
use rustix::io::Errno;
use tokio::sync::Mutex;
use units::name::UnitName;
use units::unit::Settings;

use super::accounts::{self, User};
use super::kept::{DescriptorStore, Use};
use super::program;

/// systemd's range ("Users, Groups, UIDs and GIDs on systemd Systems").
pub(super) const RANGE: std::ops::RangeInclusive<u32> = 61_184..=65_519;
/// Where the locks are.
pub(super) const FOLDER: &str = "/run/systemd/dynamic-uid";

/// A user, and the group of the same name and number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Dynamic {
    pub(crate) name: String,
    pub(crate) id: u32,
}

impl Dynamic {
    pub(crate) fn user(&self) -> User {
        User {
            name: self.name.clone(),
            uid: self.id,
            gid: self.id,
            home: "/".to_owned(),
            shell: "/usr/sbin/nologin".to_owned(),
        }
    }

    /// A copy of a file of the machine's with the user's line (passwd(5)).
    pub(crate) fn passwd(&self, machines: &str) -> String {
        let Dynamic { name, id } = self;
        with_line(
            machines,
            &format!("{name}:x:{id}:{id}:Dynamic User:/:/usr/sbin/nologin"),
        )
    }

    /// The same of group(5).
    pub(crate) fn groups(&self, machines: &str) -> String {
        let Dynamic { name, id } = self;
        with_line(machines, &format!("{name}:x:{id}:"))
    }
}

fn with_line(text: &str, line: &str) -> String {
    let end = match text.is_empty() || text.ends_with('\n') {
        true => "",
        false => "\n",
    };
    format!("{text}{end}{line}\n")
}

/// Whom a unit with or without `DynamicUser=` runs as.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Realized {
    /// It asks for no dynamic user.
    #[default]
    None,
    /// The machine has a user of that name, or the name is a number.
    Machines(String),
    /// A user of its own.
    Own(Dynamic),
}

impl Realized {
    pub(crate) fn own(&self) -> Option<&Dynamic> {
        match self {
            Self::Own(dynamic) => Some(dynamic),
            Self::None | Self::Machines(_) => None,
        }
    }
}

/// The name of a unit's user; `None`: it asks for none.
pub(crate) fn name_of(unit: &UnitName, settings: &Settings) -> Option<String> {
    if settings.flag("DynamicUser") != Some(true) {
        return None;
    }
    if let Some(name) = settings.text("User").or(settings.text("Group")) {
        return Some(name.to_owned());
    }
    let name = unit.prefix();
    Some(match is_name(name) {
        true => name.to_owned(),
        false => format!("_du{:016x}", sum(name)),
    })
}

/// As systemd has users' names (systemd.exec(5), "User/Group Identity").
pub(super) fn is_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let rest = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.len() <= 31 && name.starts_with(first) && name.chars().all(rest)
}

/// The FNV-1a hash of a text.
fn sum(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// What the machine's files say of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// It is a user, or a number: no dynamic one is needed.
    User,
    /// It is a group alone, which has another number than a dynamic user would.
    Group,
    No,
}

fn known(name: &str) -> Known {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (passwd, groups) = (read("/etc/passwd"), read("/etc/group"));
    let number = name.parse::<u32>().is_ok();
    match () {
        () if number || accounts::user(&passwd, name).is_some() => Known::User,
        () if accounts::group(&groups, name).is_some() => Known::Group,
        () => Known::No,
    }
}

/// A number that is taken.
struct Held {
    id: u32,
    /// Under which node-init keeps the lock.
    number: u64,
    /// The units that have it, and the activation of each.
    holders: BTreeMap<UnitName, u64>,
}

/// The users that are there. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pool {
    descriptors: DescriptorStore,
    folder: Arc<Path>,
    held: Arc<Mutex<BTreeMap<String, Held>>>,
}

impl Pool {
    pub(crate) fn new(descriptors: DescriptorStore) -> Pool {
        Pool {
            descriptors,
            folder: Path::new(FOLDER).into(),
            held: Arc::default(),
        }
    }

    /// The user of a unit, made where there is none. It may ask for none, or for one that the
    /// machine has: then it is that one.
    ///
    /// # Errors
    /// Words: there is none to be had.
    pub(crate) async fn realize(
        &self,
        unit: &UnitName,
        activation: u64,
        settings: &Settings,
    ) -> Result<Realized, String> {
        let Some(name) = name_of(unit, settings) else {
            return Ok(Realized::None);
        };
        let mut held = self.held.lock().await;
        if let Some(there) = held.get_mut(&name) {
            there.holders.insert(unit.clone(), activation);
            let id = there.id;
            return Ok(Realized::Own(Dynamic { name, id }));
        }
        let (folder, wanted, of) = (self.folder.clone(), name.clone(), settings.clone());
        let take = move || match known(&wanted) {
            Known::User => Ok(None),
            Known::Group => Err(format!(
                "DynamicUser=: there is a group {wanted} and no user: User= must name another"
            )),
            Known::No => {
                let first = program::owner_of_private(&of);
                let taken = take(&folder, &wanted, first);
                taken.map(Some).map_err(|it| format!("DynamicUser=: {it}"))
            }
        };
        let taken = tokio::task::spawn_blocking(take).await;
        let Some((id, lock)) = taken.map_err(|it| it.to_string())?? else {
            return Ok(Realized::Machines(name));
        };
        let label = format!("{id} {name}");
        let number = self.descriptors.keep(Use::User, unit, &label, lock).await;
        let number = number.map_err(|it| format!("DynamicUser=: {it}"))?;
        let holders = BTreeMap::from([(unit.clone(), activation)]);
        let one = Held {
            id,
            number,
            holders,
        };
        held.insert(name.clone(), one);
        Ok(Realized::Own(Dynamic { name, id }))
    }

    /// A unit is down since that activation, and none of its processes lives.
    pub(crate) async fn release(&self, unit: &UnitName, activation: u64) {
        let mut held = self.held.lock().await;
        let mut free = Vec::new();
        for (name, one) in held.iter_mut() {
            one.holders.retain(|it, of| it != unit || *of > activation);
            if one.holders.is_empty() {
                free.push(name.clone());
            }
        }
        for name in free {
            if let Some(one) = held.remove(&name) {
                self.give_back(&name, one).await;
            }
        }
    }

    async fn give_back(&self, name: &str, one: Held) {
        let (folder, name) = (self.folder.clone(), name.to_owned());
        // Before the lock ends: a unit that takes the number next makes them anew.
        let gone = move || {
            super::ipc::remove_of(super::ipc::Owner {
                uid: Some(one.id),
                gid: Some(one.id),
            });
            for file in files(&folder, &name, one.id) {
                // What isn't there needn't go.
                let _ = fs::remove_file(file);
            }
        };
        let _ = tokio::task::spawn_blocking(gone).await;
        self.descriptors.forget(one.number).await;
    }

    /// Takes over what an earlier daemon has left with node-init: the name, and the number of the
    /// descriptor. `up`: the units that go on, with the names of their users.
    pub(crate) async fn adopt(&self, left: Vec<(String, u64)>, up: &[(UnitName, u64, String)]) {
        let mut held = self.held.lock().await;
        for (label, number) in left {
            let parsed = label.split_once(' ');
            let Some((id, name)) = parsed.and_then(|(id, name)| Some((id.parse().ok()?, name)))
            else {
                self.descriptors.forget(number).await;
                continue;
            };
            let mine = up.iter().filter(|(_, _, of)| of == name);
            let holders = mine.map(|(unit, activation, _)| (unit.clone(), *activation));
            let one = Held {
                id,
                number,
                holders: holders.collect(),
            };
            match one.holders.is_empty() || held.contains_key(name) {
                true => self.give_back(name, one).await,
                false => drop(held.insert(name.to_owned(), one)),
            }
        }
    }
}

/// The lock, and the links by which a name is found by its number and the other way round.
fn files(folder: &Path, name: &str, id: u32) -> [PathBuf; 3] {
    [
        folder.join(format!("direct:{id}")),
        folder.join(format!("direct:{name}")),
        folder.join(id.to_string()),
    ]
}

/// Takes a number for a name: `first` where that is free, then what the name's sum says, then those
/// behind that.
fn take(folder: &Path, name: &str, first: Option<u32>) -> io::Result<(u32, OwnedFd)> {
    fs::create_dir_all(folder)?;
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (passwd, groups) = (read("/etc/passwd"), read("/etc/group"));
    let (least, most) = (*RANGE.start(), *RANGE.end());
    let count = most - least + 1;
    let begin = u32::try_from(sum(name) % u64::from(count)).unwrap_or(0);
    let others = (0..count).map(|step| least + (begin + step) % count);
    for id in first
        .into_iter()
        .filter(|it| RANGE.contains(it))
        .chain(others)
    {
        let text = id.to_string();
        let is_group = groups
            .lines()
            .any(|it| it.split(':').nth(2) == Some(text.as_str()));
        if is_group || accounts::user(&passwd, &text).is_some() {
            continue;
        }
        if let Some(lock) = lock(&folder.join(&text))? {
            let mut file = fs::File::from(lock.try_clone()?);
            file.set_len(0)?;
            writeln!(file, "{name}")?;
            let [by_number, by_name, _] = files(folder, name, id);
            replaced(&by_number, name)?;
            replaced(&by_name, &text)?;
            return Ok((id, lock));
        }
    }
    Err(io::Error::other("no number of the range is free"))
}

fn replaced(link: &Path, target: &str) -> io::Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(target, link)
}

/// Locks a file; `None`: it is locked already.
fn lock(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY;
    loop {
        let file = openat(CWD, path, flags, Mode::from_raw_mode(0o600))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // Who gave it back may have removed it in between: then it is another file by now.
        match (fstat(&file), stat(path)) {
            (Ok(own), Ok(there)) if (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino) => {
                return Ok(Some(file));
            }
            (_, Err(Errno::NOENT) | Ok(_)) => {}
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::calendar::zones::UtcOnly;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    fn name(unit: &str, text: &str) -> Option<String> {
        let unit = UnitName::parse(unit).unwrap();
        let text = format!("[Service]\nExecStart=/bin/x\n{text}\n");
        let files = from_texts(&unit, &[("/x", text.as_bytes())], &NoHost, &UtcOnly);
        name_of(&unit, &files.settings)
    }

    #[test]
    fn a_user_is_called_as_the_manual_says() {
        // systemd.exec(5), DynamicUser=.
        let yes = "DynamicUser=yes";
        assert_eq!(name("web.service", ""), None);
        assert_eq!(name("web.service", yes).as_deref(), Some("web"));
        assert_eq!(name("web@a.service", yes).as_deref(), Some("web"));
        let user = format!("{yes}\nUser=own");
        assert_eq!(name("web.service", &user).as_deref(), Some("own"));
        let dotted = name("a.b.service", yes).unwrap();
        assert!(dotted.starts_with("_du") && is_name(&dotted), "{dotted}");
        assert!(!is_name("1a") && !is_name("a.b") && !is_name(&"a".repeat(32)));
    }

    /// Waits until the lock is free: a child that another test forks has our descriptors until
    /// it executes its program.
    fn until_free(path: &Path) {
        let begun = std::time::Instant::now();
        while lock(path).unwrap().is_none() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(20));
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_number_is_one_users_as_long_as_its_lock_is_held() {
        let folder = std::env::temp_dir().join(format!("aurae-users-{}", std::process::id()));
        let (first, lock) = take(&folder, "web", None).unwrap();
        assert!(RANGE.contains(&first));
        let at = |name: &str| folder.join(name);
        assert_eq!(fs::read_to_string(at(&first.to_string())).unwrap(), "web\n");
        assert_eq!(
            fs::read_link(at("direct:web")).unwrap(),
            Path::new(&first.to_string())
        );
        let by_number = format!("direct:{first}");
        assert_eq!(fs::read_link(at(&by_number)).unwrap(), Path::new("web"));
        // The same sum, and taken: the next one.
        let (second, other) = take(&folder, "web", None).unwrap();
        assert_ne!(first, second);
        drop(lock);
        until_free(&at(&first.to_string()));
        let (again, _lock) = take(&folder, "web", None).unwrap();
        assert_eq!(again, first);
        // That of its folders comes first, where it is of the range.
        drop(other);
        until_free(&at(&second.to_string()));
        assert_eq!(take(&folder, "mail", Some(second)).unwrap().0, second);
        assert_ne!(take(&folder, "mail", Some(0)).unwrap().0, 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_lock_of_a_file_that_was_removed_is_none() {
        let folder = std::env::temp_dir().join(format!("aurae-lock-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("1");
        let held = lock(&path).unwrap().unwrap();
        assert!(lock(&path).unwrap().is_none());
        fs::remove_file(&path).unwrap();
        assert!(lock(&path).unwrap().is_some());
        drop(held);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_line_is_behind_those_of_the_machine() {
        let user = Dynamic {
            name: "web".to_owned(),
            id: 61_184,
        };
        let passwd = user.passwd("root:x:0:0:root:/root:/bin/sh");
        assert_eq!(accounts::user(&passwd, "web"), Some(user.user()));
        assert_eq!(
            accounts::user(&passwd, "0").map(|it| it.name).as_deref(),
            Some("root")
        );
        assert_eq!(
            accounts::group(&user.groups("root:x:0:\n"), "web"),
            Some(61_184)
        );
    }
}
