// SPDX-License-Identifier: Apache-2.0
//! How a daemon comes back: the view is rebuilt from the cells' sockets, checked against the
//! kernel's cgroup tree and id maps, and completed by the archive. Only then does anybody see it.
//!
//! A record comes from a cell-init, which counts as hostile. What it says of its own tenant, path
//! and ids is compared with where the kernel has its process; a cell whose init lies, or can't be
//! talked to, is killed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use init::protocol::Welcome;
use kernel::cgroup::{Cgroup, find};
use model::cell::Namespace;
use model::error::Error;
use model::name::Uid;
use model::object::Kind;

use super::cell::limits;
use super::cell::owner::{Beginning, Line, Owner};
use super::ids::{IdPool, IdRange};
use super::index::ring::{Epoch, Ring};
use super::index::{Bounds, Index, Key};
use super::link::cell::{CellLink, Greeting, connect};
use super::link::node::NodeInit;
use super::make::{INIT_LEAF, effective, group_path, status};
use super::ports::{Archive, Logs};
use super::record::{self, Archived, CellRecord};
use super::{Runtime, Settings, Shared};
use crate::store::Finished;

/// How long dead cells may take to go before the API is opened; the rest goes on beside it.
const SWEEP: Duration = Duration::from_secs(2);

/// How often the age of finished records is looked at; their number is at every end.
const AGEING: Duration = Duration::from_secs(60);

/// What a daemon found when it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Adoption {
    /// Cells that live.
    pub cells: usize,
    /// Executables in them, and ends that nobody had acknowledged.
    pub executables: usize,
    /// Finished records.
    pub finished: usize,
    /// Cells that could not be taken over, and are being killed.
    pub refused: usize,
}

/// A cell-init that answered.
struct Found {
    uid: Uid,
    socket: PathBuf,
    link: CellLink,
    greeting: Greeting,
    record: CellRecord,
    /// In the daemon's pid namespace.
    pid: i32,
    child: bool,
}

impl Runtime {
    /// Rebuilds the view and opens the subsystem.
    ///
    /// # Errors
    /// Where the run directory or the cgroup can't be used, or the archive can't be read.
    pub async fn start(
        settings: Settings,
        node: NodeInit,
        welcome: &Welcome,
        logs: Arc<dyn Logs>,
        archive: Arc<dyn Archive>,
    ) -> Result<(Self, Adoption), Error> {
        let root = open_root(&settings.cgroup_root)?;
        cells_dir(&settings.cells_dir)?;
        let finished = load(archive.as_ref()).await?;
        let index = index(&settings, &finished)?;
        let controllers = root.enabled().unwrap_or_default();
        let seccomp = super::seccomp::Filters::default();
        let shared = Arc::new(Shared {
            settings,
            index,
            node,
            logs,
            archive,
            seccomp,
            controllers,
            root,
        });
        let mut adoption = Adoption::default();
        let found = find_cells(&shared, welcome).await?;
        let (living, refused) = (found.living, found.refused);
        adoption.refused = refused;
        let kept = adopt(&shared, living, &mut adoption).await;
        adoption.finished = publish_finished(&shared, finished);
        sweep(&shared, kept).await;
        shared.age_out();
        tokio::spawn(keep_ageing(Arc::downgrade(&shared)));
        Ok((Self { shared }, adoption))
    }
}

/// Ages out what has become too old, for as long as there is a runtime.
async fn keep_ageing(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(AGEING).await;
        match shared.upgrade() {
            Some(shared) => shared.age_out(),
            None => return,
        }
    }
}

/// What ended before this moment is aged out.
pub(crate) fn expiry(shared: &Shared) -> model::time::Timestamp {
    let age = u64::try_from(shared.settings.max_finished_age.as_nanos()).unwrap_or(u64::MAX);
    model::time::Timestamp(super::now().0.saturating_sub(age))
}

fn open_root(path: &Path) -> Result<Cgroup, Error> {
    let failed = |e: kernel::Error| {
        Error::internal(format!("the cgroup for cells can't be used: {e}")).errno(e.errno())
    };
    let root = Cgroup::open(path).map_err(failed)?;
    if let Err(error) = limits::enable_usual(&root, &["cpuset", "hugetlb"]) {
        tracing::warn!(%error, "not every controller can be handed to cells");
    }
    Ok(root)
}

fn cells_dir(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|e| {
        let message = format!("the folder of the cells' sockets, {}: {e}", path.display());
        Error::internal(message).errno(e.raw_os_error().unwrap_or_default())
    })
}

async fn load(archive: &dyn Archive) -> Result<Vec<(Finished, Archived)>, Error> {
    let mut records = Vec::new();
    for finished in archive.load().await? {
        match serde_json::from_slice::<Archived>(&finished.record) {
            Ok(archived) => records.push((finished, archived)),
            Err(error) => {
                tracing::warn!(path = finished.path, %error, "a finished record can't be read");
            }
        }
    }
    Ok(records)
}

fn index(settings: &Settings, finished: &[(Finished, Archived)]) -> Result<Arc<Index>, Error> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).unwrap_or_default();
    let drawn = super::api::new_uid()?.0;
    let instance = drawn
        .iter()
        .take(8)
        .fold(0, |n, byte| n << 8 | u64::from(*byte));
    let bounds = Bounds {
        cells: settings.max_cells,
        running_per_tenant: settings.max_running_per_tenant,
        finished: settings.max_finished,
    };
    let ids = IdPool::new(IdRange {
        first: settings.first_id,
        count: settings.id_count,
    });
    // Above every revision that an earlier daemon gave out, unless it gave out one each
    // microsecond.
    let newest = finished
        .iter()
        .map(|(_, archived)| archived.object.meta().revision)
        .max();
    let revision = (super::now().0 / 1_000).max(newest.unwrap_or_default());
    Ok(Index::new(
        bounds,
        ids,
        Ring::new(Epoch { boot, instance }),
        revision,
    ))
}

struct Sockets {
    living: Vec<Found>,
    refused: usize,
}

/// Greets every cell-init that there is a socket of, all at once.
async fn find_cells(shared: &Arc<Shared>, welcome: &Welcome) -> Result<Sockets, Error> {
    let pids: HashMap<Uid, i32> = welcome
        .cells
        .iter()
        .map(|(uid, pid)| (record::unwire(*uid), *pid))
        .collect();
    let mut greetings = Vec::new();
    for (uid, socket) in sockets(&shared.settings.cells_dir)? {
        let (shared, pid) = (shared.clone(), pids.get(&uid).copied());
        greetings.push(tokio::spawn(async move {
            let found = greet(&shared, uid, socket.clone(), pid).await;
            found.map_err(|error| (socket, pid, error))
        }));
    }
    let mut living = Vec::new();
    let mut refused = 0;
    for greeting in greetings {
        match greeting.await {
            Ok(Ok(found)) => living.push(found),
            Ok(Err((socket, pid, error))) => {
                refused += usize::from(pid.is_some());
                give_up(&socket, pid, &error);
            }
            Err(error) => tracing::error!(%error, "a cell could not be taken over"),
        }
    }
    // Enclosing cells first.
    living.sort_by_key(|found| found.record.meta.path.labels().len());
    Ok(Sockets { living, refused })
}

fn sockets(folder: &Path) -> Result<Vec<(Uid, PathBuf)>, Error> {
    let failed = |e: std::io::Error| {
        Error::internal(format!("{}: {e}", folder.display()))
            .errno(e.raw_os_error().unwrap_or_default())
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if let Some(Ok(uid)) = name.strip_suffix(".sock").map(str::parse) {
            found.push((uid, path));
        }
    }
    Ok(found)
}

async fn greet(
    shared: &Shared,
    uid: Uid,
    socket: PathBuf,
    pid: Option<i32>,
) -> Result<Found, String> {
    let (link, greeting) = connect(&socket, record::wire(uid))
        .await
        .map_err(|e| e.to_string())?;
    let record: CellRecord = record::decode(&greeting.record)?;
    let child = pid.is_some();
    let pid = verify(shared, uid, &record, pid)?;
    Ok(Found {
        uid,
        socket,
        link,
        greeting,
        record,
        pid,
        child,
    })
}

/// Whether the record says what the kernel says. Answers the pid of the cell-init.
fn verify(shared: &Shared, uid: Uid, record: &CellRecord, pid: Option<i32>) -> Result<i32, String> {
    if record.meta.uid != uid || record.meta.kind != Kind::Cell {
        return Err("its record is of another object".to_owned());
    }
    let key = Key {
        tenant: record.meta.tenant.clone(),
        path: record.meta.path.clone(),
    };
    let leaf = group_path(shared, &key).join(INIT_LEAF);
    let pid = match pid {
        Some(pid) => pid,
        // Its parent died with an earlier node-init: whoever is in the leaf.
        None => Cgroup::open(&leaf)
            .and_then(|leaf| leaf.processes())
            .ok()
            .and_then(|pids| pids.first().copied())
            .ok_or_else(|| format!("nothing lives in {}", leaf.display()))?,
    };
    let actual = find::path_of_process(pid).map_err(|e| e.to_string())?;
    if actual != leaf {
        return Err(format!(
            "it says {}, the kernel {}",
            leaf.display(),
            actual.display()
        ));
    }
    let ids = (!record.spec.shares(Namespace::User))
        .then(|| ids_of(pid))
        .transpose()?;
    if ids != record.ids {
        return Err(format!(
            "it says that its ids are {:?}, the kernel {ids:?}",
            record.ids
        ));
    }
    Ok(pid)
}

/// The ids of a process's user namespace, as the daemon's one has them.
fn ids_of(pid: i32) -> Result<IdRange, String> {
    let file = format!("/proc/{pid}/uid_map");
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
    let mut words = text.split_ascii_whitespace().map(str::parse::<u32>);
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(Ok(0)), Some(Ok(first)), Some(Ok(count)), None) => Ok(IdRange { first, count }),
        _ => Err(format!("{file} is not one range from 0")),
    }
}

/// A socket without a cell-init behind it is litter; a cell-init that can't be talked to is killed.
fn give_up(socket: &Path, pid: Option<i32>, error: &str) {
    let Some(pid) = pid else {
        tracing::info!(socket = %socket.display(), error, "nobody is behind this socket any more");
        let _ = std::fs::remove_file(socket);
        return;
    };
    tracing::error!(socket = %socket.display(), pid, error, "a cell is killed: it can't be taken over");
    let group = find::path_of_process(pid).ok();
    let cell = group
        .as_deref()
        .filter(|path| path.ends_with(INIT_LEAF))
        .and_then(Path::parent);
    if let Some(Ok(cell)) = cell.map(Cgroup::open) {
        super::cell::leaf::kill(&cell);
    }
    let _ = std::fs::remove_file(socket);
}

/// Makes the owners. Answers where the living cells' cgroups are.
async fn adopt(
    shared: &Arc<Shared>,
    living: Vec<Found>,
    adoption: &mut Adoption,
) -> HashSet<PathBuf> {
    let mut kept = HashSet::new();
    let mut frozen: HashMap<Key, bool> = HashMap::new();
    for found in living {
        let key = Key {
            tenant: found.record.meta.tenant.clone(),
            path: found.record.meta.path.clone(),
        };
        let path = group_path(shared, &key);
        let parent_frozen = key
            .parent()
            .and_then(|p| frozen.get(&p).copied())
            .unwrap_or(false);
        frozen.insert(key.clone(), parent_frozen || found.record.frozen);
        let (socket, pid) = (found.socket.clone(), found.pid);
        match take_over(shared, key, found, parent_frozen).await {
            Ok(executables) => {
                adoption.cells += 1;
                adoption.executables += executables;
                kept.insert(path);
            }
            Err(error) => {
                adoption.refused += 1;
                give_up(&socket, Some(pid), &error);
            }
        }
    }
    kept
}

async fn take_over(
    shared: &Arc<Shared>,
    key: Key,
    found: Found,
    parent_frozen: bool,
) -> Result<usize, String> {
    let ids = found.record.ids;
    if ids.is_some_and(|ids| !shared.index.take_ids(&key, ids)) {
        return Err(format!("its ids {ids:?} are another cell's"));
    }
    let group = Cgroup::open(&group_path(shared, &key)).map_err(|e| e.to_string())?;
    let around = key
        .parent()
        .map_or(0, |parent| shared.index.root_id(&parent));
    let effective = effective(&found.record.spec, &key, ids);
    let status = status(&found.record, effective, found.pid, &group);
    let beginning = Beginning {
        key: key.clone(),
        status,
        group,
        root_id: ids.map_or(around, |ids| ids.first),
        parent_frozen,
        link: found.link,
        socket: found.socket,
        exit: shared.node.exit_of(record::wire(found.uid)).await,
        child: found.child,
        record: found.record,
    };
    let (mut owner, line) = Owner::new(shared.clone(), beginning);
    for kept in found.greeting.workloads {
        owner.adopt(kept)?;
    }
    introduce(shared, key, &mut owner, &line)?;
    let executables = owner.adopted().len();
    tokio::spawn(async move {
        let Line { inbox, over, .. } = line;
        owner.resume();
        owner.run(inbox, over).await;
    });
    Ok(executables)
}

fn introduce(shared: &Arc<Shared>, key: Key, owner: &mut Owner, line: &Line) -> Result<(), String> {
    let (record, cell, executables) = owner.parts();
    let mut objects = vec![(cell, None)];
    objects.extend(executables);
    let (ids, asked, uid) = (record.ids, record.asked.clone(), record.meta.uid);
    let handle = line.handle.clone();
    shared
        .index
        .register(key.clone(), handle, ids)
        .map_err(|e| e.to_string())?;
    if let Some(asked) = asked {
        shared.index.remember(&key.tenant, &asked, uid);
    }
    for (object, asked) in objects {
        let uid = object.meta().uid;
        if !shared.index.publish_known(object) {
            return Err("two objects have one name".to_owned());
        }
        if let Some(asked) = asked {
            shared.index.remember(&key.tenant, &asked, uid);
        }
    }
    Ok(())
}

/// Publishes what the archive keeps, the newest of each name. Answers how many.
fn publish_finished(shared: &Arc<Shared>, finished: Vec<(Finished, Archived)>) -> usize {
    let mut published = 0;
    // By name and end: from behind, the newest of a name comes first.
    for (_, archived) in finished.into_iter().rev() {
        let object = archived.object;
        let meta = object.meta().clone();
        let key = Key::of(&object);
        if shared.index.publish_known(object.clone()) {
            published += 1;
            if let Some(asked) = &archived.asked {
                shared.index.remember(&key.tenant, asked, meta.uid);
            }
        } else if shared.index.by_uid(meta.uid).is_none() {
            // Replaced by another run; the earlier daemon did not get to removing it.
            shared.forget_beside(Arc::new(object));
        }
    }
    published
}

/// Kills and removes cgroups of cells whose init is gone.
async fn sweep(shared: &Arc<Shared>, kept: HashSet<PathBuf>) {
    let dead: Vec<PathBuf> = tenants(&shared.root)
        .iter()
        .flat_map(|tenant| dead_cells(tenant, &kept))
        .collect();
    if dead.is_empty() {
        return;
    }
    tracing::warn!(
        cells = dead.len(),
        "cgroups without an init are killed and removed"
    );
    let sweeping = tokio::task::spawn_blocking(move || dead.iter().for_each(|path| bury(path)));
    if tokio::time::timeout(SWEEP, sweeping).await.is_err() {
        tracing::warn!("dead cells still go; the API is opened meanwhile");
    }
}

fn tenants(root: &Cgroup) -> Vec<Cgroup> {
    let names = root.children().unwrap_or_default();
    let names = names.iter().filter_map(|name| name.to_str());
    // `_init` and `_daemon` are the node's own.
    names
        .filter(|name| !name.starts_with('_'))
        .filter_map(|name| root.child(name).ok())
        .collect()
}

/// The outermost groups below that are cells and not among the living.
fn dead_cells(group: &Cgroup, kept: &HashSet<PathBuf>) -> Vec<PathBuf> {
    let mut dead = Vec::new();
    for name in group.children().unwrap_or_default() {
        let path = group.path().join(&name);
        if !kept.contains(&path) {
            if !name_is_private(&name) {
                dead.push(path);
            }
            continue;
        }
        let Some(child) = name.to_str().and_then(|name| group.child(name).ok()) else {
            continue;
        };
        // Without a leaf for an init it is an executable's, which its owner looks after.
        let below = dead_cells(&child, kept).into_iter();
        dead.extend(below.filter(|path| path.join(INIT_LEAF).exists()));
    }
    dead
}

fn name_is_private(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_none_or(|name| name.starts_with('_'))
}

fn bury(path: &Path) {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        return;
    };
    if let Ok(group) = Cgroup::open(path) {
        super::cell::leaf::kill(&group);
    }
    let removed = Cgroup::open(parent).and_then(|p| p.remove(name, Duration::from_secs(10)));
    if let Err(error) = removed {
        tracing::error!(%error, "the cgroup of a dead cell stays behind");
    }
}
