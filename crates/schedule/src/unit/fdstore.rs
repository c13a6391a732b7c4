// SPDX-License-Identifier: Apache-2.0
//! The FD store: descriptors that a service leaves with its manager, and gets again at its next
//! start (systemd.service(5), `FileDescriptorStoreMax=`; sd_notify(3), `FDSTORE=1`). Here is what
//! is stored and how much of it there may be; how it outlives the daemon is [`super::kept`]'s, and
//! who hears the messages is the notify socket's.
//!
//! A service may send anything: each descriptor is looked at beside the manager's task, and one
//! whose file asks a server for everything (FUSE, NFS) is refused, since node-init would wait for
//! that server when it closes it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use runtime::Descriptor;
use rustix::event::epoll;
use tokio::io::Interest;
use units::name::UnitName;

/// The most descriptors of one service, whatever its file says: as many as one start can be given.
pub(crate) const MOST: usize = runtime::MAX_DESCRIPTORS;
/// The most of all services. More are kept by node-init: the rest is for sockets.
const MOST_IN_ALL: usize = 4096;
/// File systems whose files are closed without asking a server, statfs(2).
const LOCAL: [rustix::fs::FsWord; 14] = [
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683E, // btrfs
    0xF2F5_2010, // f2fs
    0x0102_1994, // tmpfs, and memfd_create(2)
    0x8584_58F6, // ramfs
    0x0904_1934, // anonymous inodes: eventfd, timerfd, epoll, signalfd, pidfd
    0x5346_414F, // sockets of old kernels
    0x534F_434B, // sockets
    0x5049_5045, // pipes
    0x6E73_6673, // namespaces
    0x6367_7270, // cgroup2
    0x1980_0202, // message queues
    0x5049_4446, // pidfds
];
/// The name of what came without one (sd_notify(3), FDNAME=1).
const NAMELESS: &str = "stored";

/// What a message of sd_notify(3) says about the store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Message {
    /// `FDSTORE=1`: the descriptors that came along are to be stored.
    pub(crate) stores: bool,
    /// `FDSTOREREMOVE=1`: those of the name go.
    pub(crate) removes: bool,
    /// `FDNAME=`, where it can be one.
    pub(crate) name: Option<String>,
    /// Not `FDPOLL=0`: one whose other end has gone goes by itself.
    pub(crate) polls: bool,
}

impl Message {
    /// Reads the lines of a message; others than these are left alone.
    pub(crate) fn of<'a>(lines: impl IntoIterator<Item = &'a str>) -> Message {
        let mut message = Message {
            polls: true,
            ..Message::default()
        };
        for line in lines {
            match line.split_once('=') {
                Some(("FDSTORE", "1")) => message.stores = true,
                Some(("FDSTOREREMOVE", "1")) => message.removes = true,
                Some(("FDPOLL", "0")) => message.polls = false,
                Some(("FDNAME", name)) => {
                    let good = model::launch::check_descriptor_name("FDNAME", name).is_ok();
                    message.name = good.then(|| name.to_owned());
                }
                _ => {}
            }
        }
        message
    }

    /// Whether it is about the store at all.
    pub(crate) fn is_any(&self) -> bool {
        self.stores || self.removes
    }
}

/// One descriptor of a service.
#[derive(Debug)]
struct Stored {
    /// Counts up.
    id: u64,
    name: String,
    fd: OwnedFd,
    /// The same socket is stored once: its inode.
    socket: Option<u64>,
    /// Under which node-init keeps it, once it does.
    number: Option<u64>,
}

/// All that is stored.
pub(crate) struct Stores {
    of: BTreeMap<UnitName, Vec<Stored>>,
    last: u64,
    /// Tells of ends (epoll).
    ends: Option<OwnedFd>,
}

/// A descriptor that was looked at, and can be stored.
#[derive(Debug)]
pub(crate) struct Checked {
    fd: OwnedFd,
    socket: Option<u64>,
}

/// Looks at a descriptor that a service has sent. Blocks, and where its file is a server's for as
/// long as that server likes: call it on a thread that may wait, one per service.
///
/// # Errors
/// Why it can't be stored. It is closed.
pub(crate) fn check(fd: OwnedFd) -> Result<Checked, String> {
    let local = rustix::fs::fstatfs(&fd).map_err(|it| it.to_string())?;
    let file = File::from(fd);
    if !LOCAL.contains(&local.f_type) {
        return Err("its file is of a file system that isn't local".to_owned());
    }
    let meta = file.metadata().map_err(|it| it.to_string())?;
    let kind = meta.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err("it is a device, whose closing may wait".to_owned());
    }
    let socket = kind.is_socket().then(|| meta.ino());
    Ok(Checked {
        fd: file.into(),
        socket,
    })
}

impl Default for Stores {
    fn default() -> Stores {
        let ends = epoll::create(epoll::CreateFlags::CLOEXEC)
            .inspect_err(|error| tracing::error!(%error, "ends of stored descriptors are not seen"))
            .ok();
        Stores {
            of: BTreeMap::new(),
            last: 0,
            ends,
        }
    }
}

impl Stores {
    /// How many a service has.
    pub(crate) fn count(&self, unit: &UnitName) -> usize {
        self.of.get(unit).map_or(0, Vec::len)
    }

    /// How many more a service may store now; `most` is its `FileDescriptorStoreMax=`.
    pub(crate) fn room(&self, unit: &UnitName, most: usize) -> usize {
        let all: usize = self.of.values().map(Vec::len).sum();
        let own = most.min(MOST).saturating_sub(self.count(unit));
        own.min(MOST_IN_ALL.saturating_sub(all))
    }

    /// Stores one; its id, by which [`Stores::kept`] and [`Stores::ended`] know it. `None`: it is
    /// there already, or there is no room.
    pub(crate) fn put(
        &mut self,
        unit: &UnitName,
        most: usize,
        (name, polls): (Option<&str>, bool),
        checked: Checked,
        number: Option<u64>,
    ) -> Option<u64> {
        if self.room(unit, most) == 0 {
            return None;
        }
        let all = self.of.entry(unit.clone()).or_default();
        let Checked { fd, socket } = checked;
        if socket.is_some() && all.iter().any(|it| it.socket == socket) {
            return None;
        }
        self.last += 1;
        let id = self.last;
        if let Some(ends) = self.ends.as_ref().filter(|_| polls) {
            // Of files there is no end to be told of (EPERM). Once: it is removed then.
            let data = epoll::EventData::new_u64(id);
            let _ = epoll::add(ends, &fd, data, epoll::EventFlags::ONESHOT);
        }
        all.push(Stored {
            id,
            name: name.unwrap_or(NAMELESS).to_owned(),
            fd,
            socket,
            number,
        });
        Some(id)
    }

    /// A duplicate of a stored one, to be kept by node-init.
    pub(crate) fn duplicate(&self, unit: &UnitName, id: u64) -> Option<OwnedFd> {
        let all = self.of.get(unit)?;
        let one = all.iter().find(|it| it.id == id)?;
        one.fd.try_clone().ok()
    }

    /// Node-init keeps it now. `false`: it isn't stored any more.
    pub(crate) fn kept(&mut self, unit: &UnitName, id: u64, number: u64) -> bool {
        let all = self.of.get_mut(unit).into_iter().flatten();
        let one = all.into_iter().find(|it| it.id == id);
        one.map(|it| it.number = Some(number)).is_some()
    }

    fn take(
        &mut self,
        unit: &UnitName,
        goes: impl Fn(&Stored) -> bool,
    ) -> Vec<(OwnedFd, Option<u64>)> {
        let Some(all) = self.of.get_mut(unit) else {
            return Vec::new();
        };
        let gone: Vec<Stored> = all.extract_if(.., |it| goes(it)).collect();
        if all.is_empty() {
            self.of.remove(unit);
        }
        let close = |it: Stored| {
            if let Some(ends) = &self.ends {
                // Others have the same open file: closing ours doesn't take it out.
                let _ = epoll::delete(ends, &it.fd);
            }
            (it.fd, it.number)
        };
        gone.into_iter().map(close).collect()
    }

    /// `FDSTOREREMOVE=1`: takes out what has a name. The numbers are to be dropped.
    pub(crate) fn remove(&mut self, unit: &UnitName, name: &str) -> Vec<u64> {
        numbers(self.take(unit, |it| it.name == name))
    }

    /// Takes out one of an id, of whichever unit.
    pub(crate) fn ended(&mut self, id: u64) -> Vec<u64> {
        let has = |all: &Vec<Stored>| all.iter().any(|it| it.id == id);
        let unit = self.of.iter().find(|(_, all)| has(all));
        let Some(unit) = unit.map(|(unit, _)| unit.clone()) else {
            return Vec::new();
        };
        numbers(self.take(&unit, |it| it.id == id))
    }

    /// The service is down for good: all of it goes.
    pub(crate) fn clear(&mut self, unit: &UnitName) -> Vec<u64> {
        numbers(self.take(unit, |_| true))
    }

    /// What a start of the service is given, as it was stored: at most `room`.
    pub(crate) fn give(&self, unit: &UnitName, room: usize) -> Vec<Descriptor> {
        let all = self.of.get(unit).into_iter().flatten().take(room);
        let one = |it: &Stored| {
            let fd = it.fd.as_fd().try_clone_to_owned().ok()?;
            Some(Descriptor {
                name: it.name.clone(),
                fd,
            })
        };
        all.filter_map(one).collect()
    }

    /// A handle to wait by for ends.
    pub(crate) fn ends(&self) -> Option<OwnedFd> {
        self.ends.as_ref()?.try_clone().ok()
    }
}

/// The numbers of what is closed here.
fn numbers(gone: Vec<(OwnedFd, Option<u64>)>) -> Vec<u64> {
    gone.into_iter().filter_map(|(_, number)| number).collect()
}

/// Resolves with the ids of those whose other end has gone, or never.
pub(crate) async fn wait_for_ends(ends: OwnedFd) -> Vec<u64> {
    let Ok(ends) = runtime::watched::watch(ends, Interest::READABLE) else {
        return std::future::pending().await;
    };
    loop {
        let Ok(mut ready) = ends.readable().await else {
            return std::future::pending().await;
        };
        let mut events = Vec::with_capacity(64);
        let now = rustix::event::Timespec::default();
        let buffer = rustix::buffer::spare_capacity(&mut events);
        let waited = epoll::wait(ready.get_inner(), buffer, Some(&now));
        if waited.is_ok() && !events.is_empty() {
            let id = |event: &epoll::Event| {
                let data = event.data;
                data.u64()
            };
            return events.iter().map(id).collect();
        }
        ready.clear_ready();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    fn unit(name: &str) -> UnitName {
        UnitName::parse(name).unwrap()
    }

    fn checked(fd: impl Into<OwnedFd>) -> Checked {
        check(fd.into()).unwrap()
    }

    fn names(stores: &Stores, unit: &UnitName) -> Vec<String> {
        let given = stores.give(unit, MOST);
        given.into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn messages_are_read_as_the_manual_has_them() {
        let message = Message::of(["FDSTORE=1", "FDNAME=conn", "READY=1"]);
        assert!(message.stores && message.polls && !message.removes);
        assert_eq!(message.name.as_deref(), Some("conn"));
        let message = Message::of(["FDSTOREREMOVE=1", "FDNAME=conn", "FDPOLL=0"]);
        assert!(message.removes && !message.polls && message.is_any());
        // A name that no variable can carry is none.
        let message = Message::of(["FDSTORE=1", "FDNAME=a:b"]);
        assert_eq!(message.name, None);
        assert!(!Message::of(["FDSTORE=0", "STATUS=FDSTORE=1"]).is_any());
    }

    #[tokio::test]
    async fn a_service_gets_again_what_it_stored_in_order_and_by_name() {
        let (a, b) = (unit("a.service"), unit("b.service"));
        let mut stores = Stores::default();
        let (one, _far) = UnixStream::pair().unwrap();
        let again = one.try_clone().unwrap();
        let first = stores.put(&a, 9, (Some("x"), true), checked(one), None);
        // The same socket is stored once.
        assert_eq!(stores.put(&a, 9, (None, true), checked(again), None), None);
        let (two, _far) = std::io::pipe().unwrap();
        let two: OwnedFd = two.into();
        assert!(
            stores
                .put(&a, 9, (None, true), checked(two), Some(7))
                .is_some()
        );
        assert_eq!(names(&stores, &a), ["x", "stored"]);
        assert!(names(&stores, &b).is_empty());
        assert!(stores.kept(&a, first.unwrap(), 5));
        assert!(!stores.kept(&b, first.unwrap(), 5));
        assert_eq!(stores.remove(&a, "x"), [5]);
        assert!(!stores.kept(&a, first.unwrap(), 6));
        assert_eq!(names(&stores, &a), ["stored"]);
        assert_eq!(stores.clear(&a), [7]);
        assert_eq!(stores.count(&a), 0);
    }

    #[tokio::test]
    async fn ten_thousand_descriptors_are_not_taken() {
        let a = unit("a.service");
        let mut stores = Stores::default();
        let mut stored = 0;
        for _ in 0..10_000 {
            let (near, _) = UnixStream::pair().unwrap();
            let put = stores.put(&a, 100_000, (None, false), checked(near), None);
            stored += usize::from(put.is_some());
        }
        assert_eq!((stored, stores.count(&a)), (MOST, MOST));
        // Without FileDescriptorStoreMax= nothing is.
        let (near, _) = UnixStream::pair().unwrap();
        let b = unit("b.service");
        assert_eq!(stores.put(&b, 0, (None, true), checked(near), None), None);
    }

    #[tokio::test]
    async fn one_whose_other_end_has_gone_is_told_but_not_one_that_is_not_polled() {
        let a = unit("a.service");
        let mut stores = Stores::default();
        let (near, mut far) = UnixStream::pair().unwrap();
        let watched = stores.put(&a, 9, (Some("w"), true), checked(near), None);
        let (unwatched, gone) = UnixStream::pair().unwrap();
        stores.put(&a, 9, (Some("u"), false), checked(unwatched), None);
        drop(gone);
        // Data is no end.
        std::io::Write::write_all(&mut far, b"data").unwrap();
        let waiting = wait_for_ends(stores.ends().unwrap());
        let early = tokio::time::timeout(Duration::from_millis(100), waiting).await;
        assert!(early.is_err(), "{early:?}");
        drop(far);
        let waiting = wait_for_ends(stores.ends().unwrap());
        let ended = tokio::time::timeout(Duration::from_secs(10), waiting).await;
        assert_eq!(ended.unwrap(), [watched.unwrap()]);
        stores.ended(watched.unwrap());
        assert_eq!(names(&stores, &a), ["u"]);
    }

    #[test]
    fn what_may_hold_up_whoever_closes_it_is_refused() {
        let device = File::open("/dev/null").unwrap();
        let refused = check(device.into()).unwrap_err();
        assert!(
            refused.contains("device") || refused.contains("local"),
            "{refused}"
        );
        let process = File::open("/proc/self/status").unwrap();
        assert!(check(process.into()).unwrap_err().contains("local"));
    }
}
