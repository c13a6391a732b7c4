// SPDX-License-Identifier: Apache-2.0
//! Handshake the cell-inits that an earlier daemon left, all at once: each in a task of its own,
//! which also compares what it says with the kernel. No client sees any of it yet; `adopt`
//! takes the answers in their order.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::init::protocol::{ExitRecord, IdMap, Welcome};
use kernel::cgroup::{Cgroup, find};
use kernel::fsutil::read_pseudo;
use model::cell::Namespace;
use model::error::Error;
use model::name::Uid;
use model::object::Kind;
use model::time::Timestamp;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::Shared;
use crate::cell::init::{self, InitProcess};
use crate::cell::resume::{Examined, examine};
use crate::ids::IdRange;
use crate::index::Key;
use crate::link::cell::{CellLink, connect};
use crate::record::{self, CellRecord};
use crate::slices;
use crate::tenant::inits;

/// When no cell-init has answered for so long, those that haven't are waited for no more: the
/// others are served, and they are said not to answer. A cell-init answers within a millisecond of
/// getting a processor.
const QUIET: Duration = Duration::from_secs(2);

/// A cell-init that answered, and tells the truth as far as it can be seen from outside.
pub(super) struct Found {
    pub(super) uid: Uid,
    pub(super) key: Key,
    pub(super) socket: PathBuf,
    pub(super) link: CellLink,
    pub(super) record: CellRecord,
    pub(super) group: Cgroup,
    pub(super) workloads: Vec<Examined>,
    pub(super) init: Arc<InitProcess>,
    /// The ids of the user namespace that its init is in; none in the node's.
    pub(super) mapped: Option<IdRange>,
    /// Node-init is its parent.
    pub(super) child: bool,
    /// Resolves when node-init says how it has ended, once that was asked.
    pub(super) exit: Option<oneshot::Receiver<ExitRecord>>,
}

/// A cell-init with which a handshake was begun.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub(super) uid: Uid,
    pub(super) socket: PathBuf,
    /// None of one that node-init doesn't know.
    pub(super) pid: Option<i32>,
}

/// What became of a handshake.
pub(super) struct Answer {
    pub(super) peer: Accepted,
    pub(super) outcome: Result<Box<Found>, String>,
}

/// The handshakes that are not answered yet.
pub(super) struct Handshakes {
    tasks: JoinSet<Answer>,
    open: BTreeMap<Uid, Accepted>,
}

impl Handshakes {
    /// Begins a handshake with every cell-init that there is a socket of.
    ///
    /// # Errors
    /// Where the folder of the sockets can't be read.
    pub(super) fn begin(shared: &Arc<Shared>, welcome: &Welcome) -> Result<Self, Error> {
        let known = welcome.cells.iter();
        let pids: BTreeMap<Uid, i32> = known
            .map(|(uid, pid)| (record::unwire(*uid), *pid))
            .collect();
        let (mut tasks, mut open) = (JoinSet::new(), BTreeMap::new());
        for (uid, socket) in sockets(&shared.settings.cells_dir)? {
            let pid = pids.get(&uid).copied();
            let peer = Accepted { uid, socket, pid };
            open.insert(uid, peer.clone());
            let shared = shared.clone();
            tasks.spawn(async move {
                let outcome = handshake(&shared, &peer).await.map(Box::new);
                Answer { peer, outcome }
            });
        }
        Ok(Self { tasks, open })
    }

    /// The next answer; none when all have come. One that never comes is an answer after the
    /// link's own bound, [`crate::link::HANDSHAKE`].
    pub(super) async fn next(&mut self) -> Option<Answer> {
        loop {
            match self.tasks.join_next().await? {
                Ok(answer) => {
                    self.open.remove(&answer.peer.uid);
                    return Some(answer);
                }
                Err(error) => tracing::error!(%error, "a cell could not be taken over"),
            }
        }
    }

    /// The answers of those that are not silent.
    pub(super) async fn prompt(&mut self) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(self.open.len());
        while let Ok(Some(answer)) = tokio::time::timeout(QUIET, self.next()).await {
            answers.push(answer);
        }
        answers
    }

    /// Those that have not answered.
    pub(super) fn silent(&self) -> impl Iterator<Item = &Accepted> {
        self.open.values()
    }
}

fn sockets(folder: &Path) -> Result<Vec<(Uid, PathBuf)>, Error> {
    let failed = |e: std::io::Error| {
        Error::internal(format!("{}: {e}", folder.display()))
            .errno(e.raw_os_error().unwrap_or_default())
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(Ok(uid)) = name
            .and_then(|name| name.strip_suffix(".sock"))
            .map(str::parse)
        {
            found.push((uid, path));
        }
    }
    Ok(found)
}

async fn handshake(shared: &Shared, peer: &Accepted) -> Result<Found, String> {
    let (link, welcome) = connect(&peer.socket, record::wire(peer.uid))
        .await
        .map_err(|e| e.to_string())?;
    let record: CellRecord = record::decode(&welcome.record)?;
    if record.meta.uid != peer.uid || record.meta.kind != Kind::Cell {
        return Err("its record is of another object".to_owned());
    }
    let key = Key {
        tenant: record.meta.tenant.clone(),
        path: record.meta.path.clone(),
    };
    let around = shared.around(key.tenant.as_str());
    let group = around.descendant(&shared.group_below(&key));
    let group = group.map_err(|e| e.to_string())?;
    let name = shared.kernels_name(&key);
    let inits = inits::names(&shared.root_name, &key.tenant);
    let pid = peer.pid.or(welcome.sender);
    let pid = pid.ok_or_else(|| "the kernel doesn't say who answered".to_owned())?;
    let mut init = InitProcess::find(pid, &inits)?;
    verify(&group, &record)?;
    let is_light = init::is_light(&group).map_err(|e| e.to_string())?;
    check_kind(record.spec.light, is_light, peer.pid)?;
    init.lend(is_light);
    let examined = welcome.workloads.into_iter();
    let examined = examined.map(|kept| examine(&group, &name, &key, kept));
    let workloads = examined.collect::<Result<_, _>>()?;
    Ok(Found {
        uid: peer.uid,
        key,
        socket: peer.socket.clone(),
        link,
        record,
        group,
        workloads,
        mapped: ids_of(pid).ok(),
        init: Arc::new(init),
        child: peer.pid.is_some(),
        exit: None,
    })
}

/// Whether the record says what the kernel says.
fn verify(group: &Cgroup, record: &CellRecord) -> Result<(), String> {
    let marked = init::marked(group);
    if marked != Some(record.meta.uid) {
        let group = group.path().display();
        return Err(format!("{group} is the group of {marked:?}, not its own"));
    }
    if record.ids.is_some() == record.spec.shares(Namespace::User) {
        return Err(format!(
            "it says that its ids are {:?}, which its namespaces contradict",
            record.ids
        ));
    }
    Ok(())
}

/// Whether it is light as it says: the mark of its group and node-init decide. A light cell has no
/// init that node-init could know; who pretended to be one could not be killed.
fn check_kind(says_light: bool, is_light: bool, known: Option<i32>) -> Result<(), String> {
    if says_light != is_light {
        let [says, is] =
            [says_light, is_light].map(|light| if light { "light" } else { "not light" });
        return Err(format!("it says that it is {says}, and it was made {is}"));
    }
    match known.filter(|_| is_light) {
        Some(pid) => Err(format!(
            "it is light, and process {pid} is an init of its own"
        )),
        None => Ok(()),
    }
}

/// What is known of the cell around one.
#[derive(Clone, Copy)]
pub(super) struct Host {
    pub(super) init: i32,
    pub(super) mapped: Option<IdRange>,
    pub(super) is_container: bool,
}

impl Found {
    /// What is known of it as the cell around others.
    pub(super) fn host(&self) -> Host {
        Host {
            init: self.init.pid(),
            mapped: self.mapped,
            is_container: self.record.spec.container.is_some(),
        }
    }

    /// The pid of its init where that is its own: a light cell has none to be killed.
    pub(super) fn own_pid(&self) -> Option<i32> {
        Some(self.init.pid()).filter(|_| !self.init.is_lent())
    }

    /// Whether it is where it says, as the cell around it tells.
    pub(super) fn check_place(&self, around: Option<Host>) -> Result<(), String> {
        let light = self.init.is_lent();
        place(
            light.then(|| self.init.pid()),
            self.record.ids,
            self.mapped,
            around,
        )
    }
}

/// `light`: the init of a light cell. `ids`: what the record says; `mapped`: what the kernel does.
fn place(
    light: Option<i32>,
    ids: Option<IdRange>,
    mapped: Option<IdRange>,
    around: Option<Host>,
) -> Result<(), String> {
    if let Some(pid) = light {
        match around {
            Some(host) if host.is_container => {
                return Err("it is light, and in a container".to_owned());
            }
            Some(host) if host.init == pid => {}
            _ => {
                return Err(format!(
                    "it is light, and process {pid} is not the init of the cell around it"
                ));
            }
        }
    }
    // Who shares the user namespace is in that of the cell around it.
    let expected = ids.or(around.and_then(|host| host.mapped));
    if mapped != expected {
        return Err(format!(
            "it says that its ids are {ids:?}, the kernel {mapped:?}"
        ));
    }
    Ok(())
}

/// The ids of a process's user namespace, as the daemon's one has them.
fn ids_of(pid: i32) -> Result<IdRange, String> {
    let file = format!("/proc/{pid}/uid_map");
    let text = read_pseudo(Path::new(&file)).map_err(|e| e.to_string())?;
    let extents: Option<Vec<IdMap>> = text.lines().map(extent).collect();
    let range = extents.and_then(|extents| IdRange::of_extents(&extents));
    range.ok_or_else(|| format!("{file} is not that of a cell"))
}

fn extent(line: &str) -> Option<IdMap> {
    let mut words = line.split_ascii_whitespace().map(str::parse);
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(Ok(inside)), Some(Ok(outside)), Some(Ok(count)), None) => Some(IdMap {
            inside,
            outside,
            count,
        }),
        _ => None,
    }
}

/// What the kernel says of a cell whose init says nothing.
pub(super) struct Seen {
    pub(super) key: Key,
    /// None of one that node-init doesn't know: a light cell's.
    pub(super) pid: Option<i32>,
    /// None where it has no user namespace of its own.
    pub(super) ids: Option<IdRange>,
    /// When its socket was made.
    pub(super) created: Timestamp,
}

/// Looks; none where there is nothing to be seen, and so nothing that could be served.
pub(super) fn look_at(shared: &Shared, peer: &Accepted) -> Option<Seen> {
    let (name, path) = match peer.pid {
        Some(pid) => {
            let inits = find::path_of_process(pid).ok()?;
            let name = inits::tenant_of(shared.root.path(), &inits)?.to_owned();
            let tenant = shared.around(&name).child(&name).ok()?;
            let path = init::find_marked(&tenant, peer.uid)?;
            (name, path)
        }
        None => anywhere(shared.tenant_groups(), peer.uid)?,
    };
    let meta = std::fs::metadata(&peer.socket).ok()?;
    let created = u64::try_from(meta.mtime()).unwrap_or(0);
    Some(Seen {
        key: Key {
            tenant: name.parse().ok()?,
            path: slices::without(&path).to_str()?.parse().ok()?,
        },
        pid: peer.pid,
        // The node's own map isn't a cell's.
        ids: peer.pid.and_then(|pid| ids_of(pid).ok()),
        created: Timestamp(created.saturating_mul(1_000_000_000)),
    })
}

/// The tenant and the group of a cell that node-init doesn't know: by the mark alone.
fn anywhere(tenants: Vec<(String, Cgroup)>, uid: Uid) -> Option<(String, PathBuf)> {
    let mut tenants = tenants.into_iter();
    tenants.find_map(|(name, tenant)| Some((name, init::find_marked(&tenant, uid)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_init_makes_itself_unkillable_by_calling_its_cell_light() {
        assert!(check_kind(true, true, None).is_ok());
        assert!(check_kind(false, false, Some(7)).is_ok());
        // Node-init that came again knows none of them.
        assert!(check_kind(false, false, None).is_ok());
        assert!(check_kind(true, false, Some(7)).is_err());
        assert!(check_kind(true, false, None).is_err());
        assert!(check_kind(false, true, None).is_err());
        assert!(check_kind(true, true, Some(7)).is_err());
    }

    #[test]
    fn a_light_cell_is_served_by_the_init_around_it_and_nobody_hides_ids() {
        let ids = |first| {
            Some(IdRange {
                first,
                count: 65_536,
            })
        };
        let host = |init, mapped| Host {
            init,
            mapped,
            is_container: false,
        };
        assert!(place(Some(7), None, ids(1), Some(host(7, ids(1)))).is_ok());
        assert!(place(Some(7), None, ids(1), Some(host(8, ids(1)))).is_err());
        assert!(place(Some(7), None, None, None).is_err());
        let container = Host {
            is_container: true,
            ..host(7, None)
        };
        assert!(place(Some(7), None, None, Some(container)).is_err());
        assert!(place(None, ids(1), ids(1), None).is_ok());
        assert!(place(None, ids(1), ids(2), None).is_err());
        // It says that it shares, and has ids of its own: the daemon would not know them as taken.
        assert!(place(None, None, ids(1), None).is_err());
        assert!(place(None, None, ids(1), Some(host(8, ids(2)))).is_err());
        assert!(place(None, None, ids(1), Some(host(8, ids(1)))).is_ok());
        assert!(place(None, None, None, Some(host(8, None))).is_ok());
    }

    #[test]
    fn a_silent_light_cell_is_found_by_the_mark_of_its_group() {
        // A folder stands for the group: it has marks and names as well.
        let folder = tempfile::tempdir().unwrap();
        let opened = kernel::fsutil::open_directory(folder.path()).unwrap();
        let root = Cgroup::from_fd(opened, folder.path());
        let tenant = root.ensure("red").unwrap();
        let around = tenant.ensure("web").unwrap();
        init::mark(&around, Uid([1; 16])).unwrap();
        let light = around.ensure("unit").unwrap();
        assert!(!init::is_light(&light).unwrap());
        init::mark(&light, Uid([2; 16])).unwrap();
        init::mark_light(&light).unwrap();
        assert!(init::is_light(&light).unwrap());
        let found = anywhere(root.groups(), Uid([2; 16]));
        assert_eq!(found, Some(("red".to_owned(), PathBuf::from("web/unit"))));
        assert_eq!(anywhere(root.groups(), Uid([3; 16])), None);
    }
}
