// SPDX-License-Identifier: Apache-2.0
//! What the runtime needs of its neighbours, as narrow as it needs it: one that stores output,
//! one that keeps finished records, one that has images, one that attaches networks, one that runs
//! hooks. Linux and the inits it calls itself.

use std::any::Any;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use model::container::Defaults;
use model::error::{Error, Reason};
use model::executable::LogPolicy;
use model::hook::{Hook, Moment};
use model::name::{ObjectPath, Tenant, Uid};
use model::network::{Attached, Dns, Network};
use model::status::Meta;

use store::{Finished, Store, StoreError};

/// Whose output it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogOwner {
    /// The tenant of the executable that writes the log.
    pub tenant: Tenant,
    /// The path of that executable.
    pub path: ObjectPath,
    /// Which run.
    pub uid: Uid,
    /// How much is kept.
    pub policy: LogPolicy,
}

/// Where output comes out.
#[derive(Debug)]
pub enum LogSource {
    /// The read ends of two pipes.
    Pipes {
        /// Of standard output.
        stdout: OwnedFd,
        /// Of standard error.
        stderr: OwnedFd,
    },
    /// The master of a terminal; all of it counts as standard output.
    Terminal(OwnedFd),
}

/// How much was written so far, in bytes, dropped ones included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogTotals {
    /// To standard output.
    pub stdout: u64,
    /// To standard error.
    pub stderr: u64,
}

/// Stores what workloads print.
pub trait Logs: Send + Sync + 'static {
    /// Begins to store the output of a run, or goes on where its log ends.
    ///
    /// # Errors
    /// Where the log can't be opened. The run goes on; its pipes fill up.
    fn attach(&self, owner: LogOwner, source: LogSource) -> BoxFuture<'static, Result<(), Error>>;

    /// Called when no process of the run is left: stores what its pipes still hold, closes them,
    /// and answers how much it was altogether.
    fn finish(&self, uid: Uid) -> BoxFuture<'static, LogTotals>;

    /// How much it is so far; `None` for a run that isn't attached.
    fn totals(&self, uid: Uid) -> Option<LogTotals>;

    /// The last bytes that a run has printed, at most so many.
    ///
    /// # Errors
    /// Where the log can't be read now.
    fn tail(
        &self,
        tenant: &Tenant,
        uid: Uid,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<u8>, Error>>;

    /// Forgets the output of a run.
    fn remove(&self, tenant: &Tenant, uid: Uid) -> BoxFuture<'static, ()>;
}

/// What a container's root is made of.
pub struct Root {
    /// The digest of the image's manifest.
    pub digest: String,
    /// What the image says of its program.
    pub defaults: Defaults,
    /// Its file trees.
    pub layers: Layers,
    /// The image and its layers stay as long as this lives.
    pub hold: Arc<dyn Any + Send + Sync>,
}

/// The layers of an image, on the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layers {
    /// The folder that the layers of all images are in.
    pub folder: PathBuf,
    /// The layers' folders in it, the uppermost first.
    pub paths: Vec<String>,
}

/// Has the images that containers are made of.
pub trait Images: Send + Sync + 'static {
    /// What a container of that image is made of: a name or a digest of the tenant's. Nothing is
    /// pulled.
    ///
    /// # Errors
    /// `NOT_FOUND` where the tenant hasn't got it.
    fn root(&self, tenant: &Tenant, image: &str) -> BoxFuture<'static, Result<Root, Error>>;

    /// Keeps what a cell of an earlier daemon was made of, by the digest of its manifest.
    ///
    /// # Errors
    /// `NOT_FOUND`, or where the store can't be read.
    fn root_again(
        &self,
        tenant: &Tenant,
        digest: &str,
    ) -> BoxFuture<'static, Result<Arc<dyn Any + Send + Sync>, Error>>;
}

/// What is asked for a cell whose network namespace is there, and none of whose programs runs.
#[derive(Debug)]
pub struct Attach {
    /// The cell.
    pub uid: Uid,
    /// The cell's tenant.
    pub tenant: Tenant,
    /// Its network namespace.
    pub netns: OwnedFd,
    /// What it asks for.
    pub network: Network,
    /// Whether ports of the node lead there from its own loopback addresses, too: an
    /// administrator's do.
    pub on_loopback: bool,
}

/// What the node itself resolves names with: the text of its files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeNames {
    /// Of `/etc/hosts`.
    pub hosts: String,
    /// Of `/etc/resolv.conf`, for who shares the node's network.
    pub resolv_conf: String,
    /// Its name servers that can be reached from another network namespace, with search domains
    /// and options.
    pub dns: Dns,
    /// The same with those that only the node's own network reaches.
    pub dns_here: Dns,
}

/// Attaches cells to the node's network of cells. What a cell has got is kept by the port, not in
/// the cell's record: a cell-init counts as hostile, and a port of the node is not its own affair.
pub trait Networks: Send + Sync + 'static {
    /// Why no cell that asks for that can be attached on this node; `None`: cells can be.
    fn absent(&self, asked: &Network) -> BoxFuture<'static, Option<Error>>;

    /// Attaches a cell; when it answers, the addresses can be used, and `kill -9` of the daemon
    /// loses nothing of it.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, `CONFLICT` for a port or address that another one has, `UNSUPPORTED` where
    /// the node has no such network. Nothing is left then.
    fn attach(&self, attach: Attach) -> BoxFuture<'static, Result<Attached, Error>>;

    /// A cell that an earlier daemon has attached is there, with this namespace.
    fn adopted(&self, uid: Uid, netns: OwnedFd);

    /// Takes all of it away. That there is none is no error; what fails is tried again by the next
    /// daemon.
    fn detach(&self, uid: Uid) -> BoxFuture<'static, ()>;

    /// What a cell has.
    fn attached(&self, uid: Uid) -> Option<Attached>;

    /// How the node resolves names, now.
    fn names(&self) -> NodeNames;
}

/// A container that was made, with hooks, and none of whose programs has run.
#[derive(Debug)]
pub struct NewContainer {
    /// Its cell.
    pub meta: Meta,
    /// Its hooks, in the order in which those of one moment run.
    pub hooks: Vec<Hook>,
    /// The process of its init, as the daemon numbers it.
    pub pid: i32,
    /// The namespaces of that.
    pub spaces: Spaces,
}

/// The namespaces that a hook may be run in, or with a look at.
#[derive(Debug)]
pub struct Spaces {
    /// Of mounts: its root is the container's.
    pub mounts: OwnedFd,
    /// Of users.
    pub users: OwnedFd,
    /// Of the network.
    pub network: OwnedFd,
    /// Of System V IPC and message queues.
    pub ipc: OwnedFd,
    /// Of the host name.
    pub uts: OwnedFd,
    /// Of cgroups.
    pub cgroup: OwnedFd,
}

/// Runs hooks of containers on the node. What hooks a container has is kept by the port until they
/// have run for the last time, not in the cell's record: a cell-init counts as hostile, and hooks
/// are the node's root.
pub trait Hooks: Send + Sync + 'static {
    /// Keeps the hooks of a container, and runs those of its making.
    ///
    /// # Errors
    /// `WRONG_STATE`: one of them has failed; those after it aren't run. [`Self::gone`] is to
    /// follow.
    fn made(&self, container: NewContainer) -> BoxFuture<'static, Result<(), Error>>;

    /// Those of that moment.
    fn of(&self, uid: Uid, moment: Moment) -> Vec<Hook>;

    /// Its main process was executed, and has this number. Doesn't wait for the hooks.
    fn started(&self, uid: Uid, pid: Option<u32>);

    /// The container is gone: runs the last hooks and forgets all. That there are none is no error.
    /// What takes long goes on beside.
    fn gone(&self, uid: Uid) -> BoxFuture<'static, ()>;
}

/// The neighbours of a runtime.
#[derive(Clone)]
pub struct Neighbours {
    /// Stores output.
    pub logs: Arc<dyn Logs>,
    /// Keeps finished records.
    pub archive: Arc<dyn Archive>,
    /// Attaches networks.
    pub networks: Arc<dyn Networks>,
    /// Runs hooks.
    pub hooks: Arc<dyn Hooks>,
}

/// Keeps the records of what has ended.
pub trait Archive: Send + Sync + 'static {
    /// Keeps one; the same again is harmless. When it answers, `kill -9` does not lose it.
    fn put(&self, record: Finished) -> BoxFuture<'static, Result<(), Error>>;
    /// Forgets some.
    fn remove(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<(), Error>>;
    /// Those of these that are kept.
    fn get(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<Vec<Finished>, Error>>;
    /// Forgets some that no caller waits for, within a second and at less cost. A daemon that is
    /// killed before finds them again.
    fn remove_later(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<(), Error>> {
        self.remove(uids)
    }
    /// Some of all that are kept, by uid: those after that one. None: that was all.
    fn load(&self, after: Option<Uid>) -> BoxFuture<'static, Result<Vec<Finished>, Error>>;
}

impl Archive for Store {
    fn put(&self, record: Finished) -> BoxFuture<'static, Result<(), Error>> {
        let store = self.clone();
        Box::pin(async move { store.put_finished(record).await.map_err(degraded) })
    }

    fn remove(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<(), Error>> {
        let store = self.clone();
        Box::pin(async move {
            store
                .remove_finished(uids)
                .await
                .map(drop)
                .map_err(degraded)
        })
    }

    fn remove_later(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<(), Error>> {
        let store = self.clone();
        Box::pin(async move {
            store
                .remove_finished_later(uids)
                .await
                .map(drop)
                .map_err(degraded)
        })
    }

    fn get(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<Vec<Finished>, Error>> {
        let store = self.clone();
        Box::pin(async move { store.finished_of(uids).await.map_err(degraded) })
    }

    fn load(&self, after: Option<Uid>) -> BoxFuture<'static, Result<Vec<Finished>, Error>> {
        const PAGE: u32 = 64;
        let store = self.clone();
        Box::pin(async move {
            let page = store.list_finished(after, PAGE).await;
            page.map_err(degraded)
        })
    }
}

fn degraded(error: StoreError) -> Error {
    Error::new(Reason::Degraded, error.to_string())
}
