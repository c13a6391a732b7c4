// SPDX-License-Identifier: Apache-2.0
//! How a daemon comes back: the view is rebuilt from the cells' sockets, checked against the
//! kernel's cgroup tree and id maps, and completed by the archive. Only then do clients see it.
//!
//! A record comes from a cell-init, which counts as hostile. What it says of its own tenant, path
//! and ids is compared with where the kernel has its process; a cell whose init lies, or can't be
//! talked to, is killed. One that says nothing delays no other cell: it is listed as what the
//! kernel knows of it, with the condition `InitSilent`, until it answers or is given up.
//!
//! ```text
//!  handshake: a task per cell-init, on every worker ──► Adopter: names, ids, index ──► API opens
//!                                                         └─► owners go on, one by one (resume)
//! ```

mod handshake;
pub(crate) mod orphans;
mod silent;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use ::init::protocol::{CLONERS, Welcome};
use kernel::cgroup::{Cgroup, find};
use model::error::Error;
use model::name::Uid;
use model::quota::Quota;
use model::status::CellStatus;
use tokio::sync::{Semaphore, mpsc, watch};

use super::cell::owner::{Beginning, Line, Owner};
use super::cell::resume::Attaching;
use super::cell::{init, limits};
use super::devices;
use super::ids::{IdPool, IdRange};
use super::index::counts::LimitsNow;
use super::index::ring::{Epoch, Ring};
use super::index::{Index, Key};
use super::layout::{effective, group_path, status};
use super::link::node::NodeInit;
use super::ports::{Archive, Neighbours};
use super::record::{self, Archived};
use super::tally::Tally;
use super::tenant::{Told, inits, place};
use super::{Runtime, Settings, Shared};
use handshake::{Accepted, Answer, Found, Handshakes, Host};
use store::Finished;
use tenants::{Pool, Tenants, Turns};

/// What a daemon found when it came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Adoption {
    /// Cells that live.
    pub cells: usize,
    /// Executables in them, and ends that were not acknowledged.
    pub executables: usize,
    /// Finished records.
    pub finished: usize,
    /// Cells that could not be taken over, and are being killed.
    pub refused: usize,
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
        tenants: Tenants,
        neighbours: Neighbours,
    ) -> Result<(Self, Adoption), Error> {
        let Neighbours {
            logs,
            archive,
            networks,
            hooks,
        } = neighbours;
        let root = open_root(&settings.cgroup_root)?;
        cells_dir(&settings.cells_dir)?;
        let archive = Tally::new(archive);
        let finished = load(&archive).await?;
        let index = index(&settings, limits_now(&tenants), &finished)?;
        let controllers = root.enabled().unwrap_or_default();
        let seccomp = super::seccomp::Filters::default();
        let (root_name, root_below) = names(&root)?;
        let inits = inits::open(&root)
            .map_err(|e| Error::internal(format!("the cell-inits' cgroup can't be used: {e}")))?;
        // A node-init of before knows neither place.
        let beside = inits
            .as_ref()
            .and_then(|_| place::open(&root, &root_name, &root_below));
        let (attaching, known) = logs_known();
        let shared = Arc::new(Shared {
            settings,
            index,
            node,
            logs,
            archive,
            reads: Default::default(),
            creations: Pool::new(&tenants, Quota::Creations),
            spawner: Turns::new(crate::create::AT_THE_SPAWNER),
            tenants,
            told: Told::default(),
            attachments: Default::default(),
            offered: Default::default(),
            seccomp,
            images: Default::default(),
            networks,
            hooks,
            staging: super::staging::Staging::start()?,
            controllers,
            inits,
            root,
            beside,
            root_name,
            root_below,
            known,
            resuming: Arc::new(Semaphore::new(1)),
        });
        let mut handshakes = Handshakes::begin(&shared, welcome)?;
        let mut adopter = Adopter::new(shared.clone(), attaching);
        adopter.begin(&mut handshakes).await;
        adopter.adoption.finished = publish_finished(&shared, finished);
        orphans::kill_orphans(&shared, &adopter.kept, &adopter.inits).await;
        let adoption = adopter.adoption;
        if handshakes.silent().next().is_some() {
            tokio::spawn(adopter.go_on(handshakes));
        } else {
            shared.node.all_adopted().await;
        }
        shared.age_out();
        shared.follow_quotas();
        tokio::spawn(keep_ageing(Arc::downgrade(&shared)));
        Ok((Self { shared }, adoption))
    }
}

/// Ages out what has become too old, for as long as there is a runtime.
async fn keep_ageing(shared: Weak<Shared>) {
    while let Some(every) = shared.upgrade().map(|shared| shared.settings.ageing) {
        tokio::time::sleep(every).await;
        if let Some(shared) = shared.upgrade() {
            shared.age_out();
        }
    }
}

fn limits_now(tenants: &Tenants) -> LimitsNow {
    let tenants = tenants.clone();
    Arc::new(move || tenants.limits())
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

/// A token for each task that is about to attach a log, and what says that the last one was given
/// back.
fn logs_known() -> (Attaching, watch::Receiver<bool>) {
    let (attaching, mut gone) = mpsc::channel(1);
    let (publish, known) = watch::channel(false);
    tokio::spawn(async move {
        while gone.recv().await.is_some() {}
        publish.send_replace(true);
    });
    (attaching, known)
}

/// What the kernel calls the group, and where it is below the mount point.
fn names(root: &Cgroup) -> Result<(String, PathBuf), Error> {
    let failed = |e: kernel::Error| Error::internal(e.to_string()).errno(e.errno());
    let mount = find::mount_point().map_err(failed)?;
    let below = root.path().strip_prefix(&mount).unwrap_or(root.path());
    let name = find::group_of_path(root.path()).map_err(failed)?;
    Ok((name, below.to_owned()))
}

fn cells_dir(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    let made = made.and_then(|()| super::create::names::begin(path));
    made.map_err(|e| {
        let message = format!("the folder of the cells' sockets, {}: {e}", path.display());
        Error::internal(message).errno(e.raw_os_error().unwrap_or_default())
    })
}

fn by_name_and_end(record: &Finished) -> (&str, &str, i64, Uid) {
    let Finished { tenant, path, .. } = record;
    (tenant, path, record.finished_ns, record.uid)
}

/// What is kept of finished objects, by name and end, each as a summary: together they may be
/// larger than memory.
async fn load(archive: &dyn Archive) -> Result<Vec<(Finished, Archived)>, Error> {
    let mut records = Vec::new();
    let mut after = None;
    loop {
        let page = archive.load(after).await?;
        let Some(last) = page.last() else {
            records
                .sort_by(|(one, _), (other, _)| by_name_and_end(one).cmp(&by_name_and_end(other)));
            return Ok(records);
        };
        after = Some(last.uid);
        for mut finished in page {
            match serde_json::from_slice::<Archived>(&finished.record) {
                Ok(mut archived) => {
                    finished.record = Vec::new();
                    if let Some(summary) = super::finished::summary(&archived.object) {
                        archived.object = summary;
                    }
                    records.push((finished, archived));
                }
                Err(error) => {
                    tracing::warn!(path = finished.path, %error, "a finished record can't be read");
                }
            }
        }
    }
}

fn index(
    settings: &Settings,
    limits: LimitsNow,
    finished: &[(Finished, Archived)],
) -> Result<Arc<Index>, Error> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).unwrap_or_default();
    let drawn = super::api::new_uid()?.0;
    let instance = drawn
        .iter()
        .take(8)
        .fold(0, |n, byte| n << 8 | u64::from(*byte));
    let mut ids = IdPool::new(IdRange {
        first: settings.first_id,
        count: settings.id_count,
    });
    // No cell's, where a configuration has it in the pool.
    ids.take(IdRange {
        first: CLONERS,
        count: 1,
    });
    // Above every revision that an earlier daemon gave out, unless it gave out one each
    // microsecond.
    let newest = finished
        .iter()
        .map(|(_, archived)| archived.object.meta().revision)
        .max();
    let revision = (super::now().0 / 1_000).max(newest.unwrap_or_default());
    Ok(Index::new(
        settings.bounds,
        limits,
        ids,
        Ring::new(Epoch { boot, instance }),
        revision,
    ))
}

/// A socket without a cell-init behind it is litter; a cell-init that can't be talked to is killed.
fn give_up(shared: &Shared, uid: Uid, socket: &Path, pid: Option<i32>, error: &str) {
    if let Some(pid) = pid {
        tracing::error!(socket = %socket.display(), pid, error, "a cell is killed: it can't be taken over");
        init::kill(shared, pid, uid);
    } else {
        tracing::info!(socket = %socket.display(), error, "no cell-init listens on this socket");
    }
    let _ = std::fs::remove_file(socket);
}

/// Who takes the cells over that have answered, the enclosing ones first.
struct Adopter {
    shared: Arc<Shared>,
    attaching: Attaching,
    /// Where the cells are that live, silent ones among them.
    kept: HashSet<PathBuf>,
    /// The pids of their inits.
    inits: HashSet<i32>,
    /// What is known of the cells that were taken over, for those in them.
    hosts: HashMap<Key, Host>,
    /// Whether the cells that were taken over are held.
    frozen: HashMap<Key, bool>,
    /// Said not to answer: where the kernel has them.
    silent: BTreeMap<Uid, Key>,
    /// They have answered, and a cell around them has not.
    behind: Vec<Found>,
    /// Published, and not running yet.
    owners: Vec<(Box<Owner>, Line)>,
    adoption: Adoption,
}

impl Adopter {
    fn new(shared: Arc<Shared>, attaching: Attaching) -> Self {
        Self {
            shared,
            attaching,
            kept: HashSet::new(),
            inits: HashSet::new(),
            hosts: HashMap::new(),
            frozen: HashMap::new(),
            silent: BTreeMap::new(),
            behind: Vec::new(),
            owners: Vec::new(),
            adoption: Adoption::default(),
        }
    }

    /// Takes over who has answered, and says of the others that they have not.
    async fn begin(&mut self, handshakes: &mut Handshakes) {
        let answers = handshakes.prompt().await;
        for peer in handshakes.silent() {
            if let Some(seen) = handshake::look_at(&self.shared, peer) {
                self.kept.insert(group_path(&self.shared, &seen.key));
                self.inits.extend(seen.pid);
                self.silent.insert(peer.uid, seen.key);
            }
        }
        self.take_over(answers).await;
        let behind = self.behind.iter().map(|found| Accepted {
            uid: found.uid,
            socket: found.socket.clone(),
            pid: found.own_pid(),
        });
        for peer in handshakes.silent().cloned().chain(behind) {
            self.say_silent(&peer);
        }
        self.release();
    }

    /// Goes on until every handshake has ended.
    async fn go_on(mut self, mut handshakes: Handshakes) {
        while let Some(answer) = handshakes.next().await {
            self.silent.remove(&answer.peer.uid);
            let uid = answer.peer.uid;
            self.take_over(vec![answer]).await;
            self.release();
            self.shared.hold_again(uid).await;
        }
        self.shared.node.all_adopted().await;
        tracing::info!("every cell's init has answered, or was given up");
    }

    async fn take_over(&mut self, answers: Vec<Answer>) {
        let mut living = std::mem::take(&mut self.behind);
        for Answer { peer, outcome } in answers {
            match outcome {
                Ok(found) => living.push(*found),
                Err(error) => {
                    self.adoption.refused += usize::from(peer.pid.is_some());
                    self.give_up(peer.uid, &peer.socket, peer.pid, &error);
                }
            }
        }
        // Enclosing cells first.
        living.sort_by_key(|found| found.key.path.labels().len());
        let unasked = living
            .iter()
            .filter(|found| found.child && found.exit.is_none());
        let uids = unasked.map(|found| record::wire(found.uid)).collect();
        let mut exits = self.shared.node.exits_of(uids).await;
        for mut found in living {
            let exit = exits.remove(&record::wire(found.uid));
            found.exit = found.exit.or(exit);
            if self.is_behind(&found.key) {
                self.silent.insert(found.uid, found.key.clone());
                self.kept.insert(found.group.path().to_owned());
                self.inits.insert(found.init.pid());
                self.behind.push(found);
                continue;
            }
            self.silent.remove(&found.uid);
            let (uid, socket, pid) = (found.uid, found.socket.clone(), found.own_pid());
            let path = found.group.path().to_owned();
            match self.adopt(found) {
                Ok(()) => {
                    self.kept.insert(path);
                    self.inits.extend(pid);
                }
                Err(error) => {
                    self.adoption.refused += 1;
                    // A light cell has no init to be killed: what is in its group is, as an orphan.
                    self.give_up(uid, &socket, pid, &error);
                }
            }
        }
    }

    /// Whether a cell around it is silent.
    fn is_behind(&self, key: &Key) -> bool {
        std::iter::successors(key.parent(), Key::parent)
            .any(|around| self.silent.values().any(|silent| *silent == around))
    }

    /// One that answered: makes its owner, and publishes what it has.
    fn adopt(&mut self, found: Found) -> Result<(), String> {
        let above = found.key.parent();
        let around = above.as_ref().and_then(|above| self.hosts.get(above));
        found.check_place(around.copied())?;
        self.hosts.insert(found.key.clone(), found.host());
        let shared = &self.shared;
        let (key, ids) = (found.key, found.record.ids);
        let around = above
            .as_ref()
            .map_or(0, |above| shared.index.root_id(above));
        let parent_frozen = above.is_some_and(|above| self.frozen.get(&above) == Some(&true));
        let held = parent_frozen || found.record.frozen;
        self.frozen.insert(key.clone(), held);
        let network = shared.networks.attached(found.uid);
        if found.record.attached && network.is_none() {
            return Err("its network was not made, or is lost".to_owned());
        }
        if found.record.attached {
            // Without it plugins remove what they can name; the cell is as it was.
            match found.init.namespace("net") {
                Ok(netns) => shared.networks.adopted(found.uid, netns),
                Err(error) => tracing::warn!(uid = %found.uid, %error, "its network's end"),
            }
        }
        let effective = effective(&found.record, &key);
        let below = shared.below_mount(&key);
        let status = CellStatus {
            conditions: devices::conditions(&found.record.spec, &found.group),
            ..status(&found.record, effective, found.init.pid(), &below, network)
        };
        let beginning = Beginning {
            key: key.clone(),
            status,
            group: found.group,
            root_id: ids.map_or(around, |ids| ids.first),
            parent_frozen,
            init: found.init,
            link: found.link,
            socket: found.socket,
            exit: found.exit,
            record: found.record,
        };
        let (mut owner, line) = Owner::new(shared.clone(), beginning);
        for workload in found.workloads {
            owner.adopt(workload, self.attaching.clone())?;
        }
        introduce(shared, key, &mut owner, &line)?;
        self.adoption.cells += 1;
        self.adoption.executables += owner.adopted().len();
        self.owners.push((owner, line));
        Ok(())
    }

    /// Lets the owners go on. Not before every name is known: they remove what has none.
    fn release(&mut self) {
        for (mut owner, line) in self.owners.drain(..) {
            if owner.is_to_end() {
                // A run of its name waits for it from the first request on.
                owner.close();
            }
            let turns = self.shared.resuming.clone();
            tokio::spawn(async move {
                let Line { inbox, over, .. } = line;
                // Who is listed already can wait for its turn: the API has the other processor.
                let turn = turns.acquire_owned().await;
                owner.resume();
                drop(turn);
                owner.run(inbox, over).await;
            });
        }
    }

    /// Shows a cell that has not answered, as far as the kernel tells of it.
    fn say_silent(&self, peer: &Accepted) {
        let Some(seen) = handshake::look_at(&self.shared, peer) else {
            return;
        };
        tracing::error!(cell = %seen.key.path, pid = ?seen.pid, "the cell's init does not answer");
        let cell = silent::status(&self.shared, peer.uid, &seen);
        if !self.shared.index.publish_silent(cell, seen.ids) {
            tracing::error!(cell = %seen.key.path, "its name is another cell's");
        }
    }

    /// A socket without a cell-init behind it is litter; a cell-init that can't be talked to is
    /// killed.
    fn give_up(&self, uid: Uid, socket: &Path, pid: Option<i32>, error: &str) {
        give_up(&self.shared, uid, socket, pid, error);
        if let Some(key) = silent::lost(&self.shared, uid, error) {
            // One that was shown: orphans were removed before.
            let group = group_path(&self.shared, &key);
            let around = group.parent().map(Cgroup::open);
            if let Some(Ok(around)) = around {
                drop(orphans::kill_orphan(&self.shared, &around, key.path.name()));
            }
        }
        let detached = self.shared.networks.detach(uid);
        tokio::spawn(detached);
        tokio::spawn(self.shared.hooks.gone(uid));
        if pid.is_some() {
            let node = self.shared.node.clone();
            let uid = record::wire(uid);
            // Its end may have been asked for, and no client is to be told of it now.
            tokio::spawn(async move { node.acknowledge(uid).await });
        }
    }
}

fn introduce(shared: &Arc<Shared>, key: Key, owner: &mut Owner, line: &Line) -> Result<(), String> {
    let (record, cell, executables) = owner.parts();
    let mut objects = vec![(cell, None)];
    objects.extend(executables);
    let (ids, idempotency_key, uid) = (record.ids, record.idempotency_key.clone(), record.meta.uid);
    let storage = record.spec.storage();
    if ids.is_some_and(|ids| !shared.index.take_ids(&key, ids)) {
        return Err(format!("its ids {ids:?} are another cell's"));
    }
    let handle = line.handle.clone();
    shared
        .index
        .register(key.clone(), handle, ids, storage)
        .map_err(|e| e.to_string())?;
    if let Some(idempotency_key) = idempotency_key {
        shared.index.remember(&key.tenant, &idempotency_key, uid);
    }
    for (object, idempotency_key) in objects {
        let uid = object.meta().uid;
        if !shared.index.publish_known(object) {
            return Err("two objects have one name".to_owned());
        }
        if let Some(idempotency_key) = idempotency_key {
            shared.index.remember(&key.tenant, &idempotency_key, uid);
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
            if let Some(idempotency_key) = &archived.idempotency_key {
                shared
                    .index
                    .remember(&key.tenant, idempotency_key, meta.uid);
            }
            // An earlier daemon kept it for an attachment, and did not get to removing it.
            if removes_itself(&object) {
                shared.forget_after_attachments(Arc::new(object));
            }
        } else if shared.index.by_uid(meta.uid).is_none() {
            // Replaced by another run; the earlier daemon did not get to removing it.
            shared.forget_beside(&object);
        }
    }
    published
}

fn removes_itself(object: &model::status::Object) -> bool {
    matches!(object, model::status::Object::Executable(executable) if executable.effective.auto_remove)
}
