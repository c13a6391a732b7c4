// SPDX-License-Identifier: Apache-2.0
//! Credentials of a unit (systemd.exec(5), "Credentials"): small files in a file system of its own
//! in memory, at `/run/credentials/UNIT`, which the unit's user alone may read. They are put there
//! when the first command of an activation begins, and go when the unit is down.
//!
//! They come from files, sockets, folders, the stores of credentials, or the unit itself. What is
//! encrypted isn't read: a unit that asks for that isn't started (`units::table`).

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use kernel::mount::{self, Attributes, Change, NewFileSystem};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, openat};
use units::glob;
use units::name::UnitName;
use units::syntax::escape::unescaped;
use units::unit::{Settings, Unit};
use units::value::{Credential, Value};

/// Where they are.
pub(crate) const FOLDER: &str = "/run/credentials";
/// All of a unit together, in bytes, as in systemd.
const MOST: usize = 1 << 20;
/// So many of a unit, and from one folder.
const COUNT: usize = 1024;
/// Where credentials are kept for units that name them without a path.
const STORES: [&str; 4] = [
    "/etc/credstore",
    "/run/credstore",
    "/usr/local/lib/credstore",
    "/usr/lib/credstore",
];
/// How long a socket may take to tell a credential.
const ANSWER: Duration = Duration::from_secs(30);

/// By name.
type All = BTreeMap<String, Vec<u8>>;

/// The folder of a unit's credentials, with all in it, made where it isn't there; `None`: the unit
/// has none. The owner's numbers: user and group, root's where there is none.
///
/// # Errors
/// Words: one of them can't be had, or the folder can't be made.
pub(crate) fn put(
    unit: &Unit,
    owner: (Option<u32>, Option<u32>),
) -> Result<Option<String>, String> {
    if !wants(&unit.settings) {
        return Ok(None);
    }
    let folder = folder_of(&unit.id);
    let told = |error: io::Error| format!("{folder}: {error}");
    let place = Path::new(&folder);
    let there = place.exists() && mount::is_mount_point(place).map_err(|it| told(it.into()))?;
    if !there {
        let all = gather(unit, &STORES)?;
        lay_down(place, &all, owner).map_err(told)?;
    }
    Ok(Some(folder))
}

/// Takes the credentials of a unit away.
pub(crate) fn clear(unit: &UnitName) {
    let folder = folder_of(unit);
    let place = Path::new(&folder);
    while place.exists() && mount::is_mount_point(place).unwrap_or(false) {
        if let Err(error) = mount::unmount(place, true) {
            tracing::warn!(%unit, folder, %error, "the credentials of a unit stay");
            return;
        }
    }
    // An empty folder says nothing.
    let _ = fs::remove_dir(place);
}

fn folder_of(unit: &UnitName) -> String {
    format!("{FOLDER}/{unit}")
}

/// Whether a unit has credentials.
pub(crate) fn wants(settings: &Settings) -> bool {
    let fields = ["LoadCredential", "SetCredential", "ImportCredential"];
    fields.iter().any(|it| settings.get(it).is_some())
}

/// All credentials of a unit. What is loaded counts before what is set, and what is named before
/// what a pattern brings.
fn gather(unit: &Unit, stores: &[&str]) -> Result<All, String> {
    let list = |field: &str| match unit.settings.get(field) {
        Some(Value::Credentials(list)) => list.clone(),
        _ => Vec::new(),
    };
    let mut all = All::new();
    let set = list("SetCredential");
    for one in list("LoadCredential") {
        let is_set = set.iter().any(|it| it.name == one.name);
        load(unit, &one, stores, is_set, &mut all)
            .map_err(|error| format!("LoadCredential={}: {error}", one.name))?;
    }
    for pattern in unit.settings.texts("ImportCredential") {
        import(pattern, stores, &mut all)
            .map_err(|error| format!("ImportCredential={pattern}: {error}"))?;
    }
    for one in set {
        let text = unescaped(&one.content);
        let text = text.ok_or_else(|| format!("SetCredential={}: an escape is none", one.name))?;
        all.entry(one.name).or_insert(text);
    }
    let whole: usize = all
        .iter()
        .map(|(name, bytes)| name.len() + bytes.len())
        .sum();
    match whole > MOST || all.len() > COUNT {
        true => Err(format!(
            "they are more than {COUNT}, or than {MOST} bytes together"
        )),
        false => Ok(all),
    }
}

/// Loads what `LoadCredential=` names. What no store has is left out: a program learns that where
/// it asks for it.
fn load(
    unit: &Unit,
    one: &Credential,
    stores: &[&str],
    is_set: bool,
    all: &mut All,
) -> io::Result<()> {
    let Credential { name, content } = one;
    if !content.starts_with('/') {
        if content.contains('/') {
            return Err(io::Error::other(
                "names neither a path from the root nor a credential",
            ));
        }
        for store in stores {
            match read(&Path::new(store).join(content), None) {
                Ok(bytes) => return put_in(all, name, bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        return Ok(());
    }
    let path = Path::new(content);
    let loaded = match path.is_dir() {
        true => load_folder(path, name, all),
        false => read(path, Some((&unit.id, name))).and_then(|it| put_in(all, name, it)),
    };
    match loaded {
        Err(error) if is_set && error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn put_in(all: &mut All, name: &str, bytes: Vec<u8>) -> io::Result<()> {
    if all.len() >= COUNT {
        return Err(io::Error::other("there are too many"));
    }
    all.entry(name.to_owned()).or_insert(bytes);
    Ok(())
}

/// Each file of a folder is a credential: `NAME_FILE`, and of one in it `NAME_FOLDER_FILE`.
fn load_folder(folder: &Path, name: &str, all: &mut All) -> io::Result<()> {
    let mut todo = vec![(folder.to_owned(), name.to_owned())];
    while let Some((folder, name)) = todo.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let Ok(file) = entry.file_name().into_string() else {
                continue;
            };
            let name = format!("{name}_{file}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                todo.push((entry.path(), name));
            } else if kind.is_file() {
                let bytes = read(&entry.path(), None)?;
                put_in(all, &name, bytes)?;
            }
            if todo.len() > COUNT {
                return Err(io::Error::other("it has too many folders"));
            }
        }
    }
    Ok(())
}

/// Loads all that a pattern names; the first store that has a name counts.
fn import(pattern: &str, stores: &[&str], all: &mut All) -> io::Result<()> {
    for store in stores {
        for entry in fs::read_dir(store).into_iter().flatten() {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if glob::matches(pattern, &name) && entry.file_type()?.is_file() {
                put_in(all, &name, read(&entry.path(), None)?)?;
            }
        }
    }
    Ok(())
}

/// What is in a file, or what a socket tells. `asks`: for whom, which the socket may learn from the
/// caller's address.
fn read(path: &Path, asks: Option<(&UnitName, &String)>) -> io::Result<Vec<u8>> {
    let is_socket = fs::metadata(path)?.file_type().is_socket();
    let mut bytes = Vec::new();
    let most = u64::try_from(MOST).unwrap_or(u64::MAX).saturating_add(1);
    match (is_socket, asks) {
        (true, Some((unit, name))) => {
            let mut stream = connect(path, unit, name)?;
            let end = Instant::now() + ANSWER;
            let mut chunk = [0; 4096];
            loop {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                stream.set_read_timeout(Some(left))?;
                match stream.read(&mut chunk)? {
                    0 => break,
                    count => bytes.extend(chunk.get(..count).unwrap_or_default()),
                }
                if bytes.len() > MOST {
                    break;
                }
            }
        }
        _ => {
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
                .open(path)?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::other("it isn't a file"));
            }
            file.take(most).read_to_end(&mut bytes)?;
        }
    }
    match bytes.len() > MOST {
        true => Err(io::Error::other(format!("it has more than {MOST} bytes"))),
        false => Ok(bytes),
    }
}

/// A connection from `@RANDOM/unit/UNIT/NAME`, by which the other side knows who asks for what.
fn connect(path: &Path, unit: &UnitName, name: &str) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let random = u64::from_ne_bytes(random);
    let own = format!("{random:016x}/unit/{unit}/{name}");
    let kind = SocketType::STREAM;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    // Who asks is told where there is room for it (unix(7)).
    if SocketAddr::from_abstract_name(own.as_bytes()).is_ok() {
        bind(&socket, &SocketAddrUnix::new_abstract_name(own.as_bytes())?)?;
    }
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// Makes the file system, and mounts it when it is whole.
fn lay_down(place: &Path, all: &All, owner: (Option<u32>, Option<u32>)) -> io::Result<()> {
    let builder = |mode| {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(mode);
        builder
    };
    builder(0o755).create(Path::new(FOLDER))?;
    builder(0o700).create(place)?;
    let quiet = Attributes::NO_SUID | Attributes::NO_DEV | Attributes::NO_EXEC;
    let new = NewFileSystem::open("tmpfs")?
        .set("source", "credentials")?
        .set("mode", "0700")?
        .set("size", &(2 * MOST).to_string())?
        .set("nr_inodes", &(COUNT + 16).to_string())?;
    let new = new.mount(quiet)?;
    write_all(&new, all, owner)?;
    let change = Change {
        set: Attributes::READ_ONLY,
        ..Change::default()
    };
    mount::set_attributes(&new, &change)?;
    Ok(mount::attach(&new, place)?)
}

/// Writes them below a folder that no other process has.
fn write_all(
    folder: &OwnedFd,
    all: &All,
    (uid, gid): (Option<u32>, Option<u32>),
) -> io::Result<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    for (name, bytes) in all {
        let file = openat(
            folder.as_fd(),
            name.as_str(),
            flags,
            Mode::from_raw_mode(0o400),
        )?;
        let mut file = File::from(file);
        file.write_all(bytes)?;
        fchown(&file, uid, gid)?;
        fchmod(&file, Mode::from_raw_mode(0o400))?;
    }
    // A detached mount's descriptor can't be changed by itself; what it leads to can.
    let here = openat(
        folder.as_fd(),
        ".",
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    fchown(&here, uid, gid)?;
    Ok(fchmod(&here, Mode::from_raw_mode(0o500))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use units::calendar::zones::UtcOnly;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    struct Place(std::path::PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let path = std::env::temp_dir().join(format!("aurae-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            for folder in ["one", "two", "folder/in"] {
                fs::create_dir_all(path.join(folder)).unwrap();
            }
            Place(path)
        }

        fn write(&self, name: &str, text: &str) -> String {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        }

        fn gather(&self, text: &str) -> Result<Vec<(String, String)>, String> {
            let name = UnitName::parse("a.service").unwrap();
            let at = self.0.display().to_string();
            let text = format!("[Service]\nExecStart=/bin/x\n{}\n", text.replace("AT", &at));
            let unit = from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly);
            let stores = [format!("{at}/one"), format!("{at}/two")];
            let stores: Vec<&str> = stores.iter().map(String::as_str).collect();
            let all = gather(&unit, &stores)?;
            let text = |bytes| String::from_utf8(bytes).unwrap();
            Ok(all
                .into_iter()
                .map(|(name, bytes)| (name, text(bytes)))
                .collect())
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn credentials_come_from_where_the_manual_says() {
        // systemd.exec(5), LoadCredential=, SetCredential=, ImportCredential=.
        let place = Place::new("credentials");
        for (name, text) in [
            ("one/key", "first"),
            ("two/key", "second"),
            ("two/web.cert", "cert"),
            ("file", "from a file"),
            ("folder/a", "1"),
            ("folder/in/b", "2"),
        ] {
            place.write(name, text);
        }
        for (text, expected) in [
            ("LoadCredential=x:AT/file", vec![("x", "from a file")]),
            ("LoadCredential=key", vec![("key", "first")]),
            ("LoadCredential=own:key", vec![("own", "first")]),
            ("LoadCredential=absent", vec![]),
            (
                "LoadCredential=absent\nSetCredential=absent:given",
                vec![("absent", "given")],
            ),
            (
                "LoadCredential=x:AT/no\nSetCredential=x:given",
                vec![("x", "given")],
            ),
            (
                "LoadCredential=x:AT/file\nSetCredential=x:given",
                vec![("x", "from a file")],
            ),
            ("SetCredential=x:a\\tb\\x41", vec![("x", "a\tbA")]),
            (
                "LoadCredential=d:AT/folder",
                vec![("d_a", "1"), ("d_in_b", "2")],
            ),
            ("ImportCredential=web.*", vec![("web.cert", "cert")]),
            (
                "ImportCredential=*",
                vec![("key", "first"), ("web.cert", "cert")],
            ),
            (
                "LoadCredential=key:AT/file\nImportCredential=k*",
                vec![("key", "from a file")],
            ),
        ] {
            let expected: Vec<(String, String)> = expected
                .into_iter()
                .map(|(name, text)| (name.to_owned(), text.to_owned()))
                .collect();
            assert_eq!(place.gather(text), Ok(expected), "{text}");
        }
        let absent = place.gather("LoadCredential=x:AT/no").unwrap_err();
        assert!(absent.starts_with("LoadCredential=x: "), "{absent}");
        place.write("file", &"a".repeat(MOST + 1));
        place.gather("LoadCredential=x:AT/file").unwrap_err();
        place.gather("LoadCredential=x:/dev/zero").unwrap_err();
    }

    #[test]
    fn a_socket_tells_one_and_learns_who_asks() {
        let place = Place::new("credential-socket");
        let listener = UnixListener::bind(place.0.join("socket")).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, from) = listener.accept().unwrap();
            stream.write_all(b"told").unwrap();
            let name = from.as_abstract_name().unwrap_or_default().to_vec();
            String::from_utf8(name).unwrap()
        });
        let expected = vec![("x".to_owned(), "told".to_owned())];
        assert_eq!(place.gather("LoadCredential=x:AT/socket"), Ok(expected));
        let from = server.join().unwrap();
        assert!(from.ends_with("/unit/a.service/x"), "{from}");
    }
}
