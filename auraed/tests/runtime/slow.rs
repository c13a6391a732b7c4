// SPDX-License-Identifier: Apache-2.0
//! A store that is slow or refuses to be written, when a story says so by a file, and the stories
//! of what is removed meanwhile.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;
use model::error::{Error, Reason};
use model::lifecycle::State;
use model::name::Uid;
use runtime::ports::Archive;
use store::{Finished, Store};
use testkit::until;

use crate::client::{Answer, Ask, Client, refusal};
use crate::host::Node;

/// How long a slow one takes.
const SLOW: Duration = Duration::from_millis(400);

/// The store itself, with a hindrance before each `put`, or before each `remove` where it is stuck.
pub(crate) struct Hindered {
    pub(crate) store: Store,
    /// With `slow`, `broken` or `stuck` in it.
    pub(crate) dir: PathBuf,
}

impl Archive for Hindered {
    fn put(&self, record: Finished) -> BoxFuture<'static, Result<(), Error>> {
        let (slow, broken) = (self.dir.join("slow"), self.dir.join("broken"));
        let put = Archive::put(&self.store, record);
        Box::pin(async move {
            if broken.exists() {
                return Err(Error::new(Reason::Degraded, "a story broke it"));
            }
            if slow.exists() {
                tokio::time::sleep(SLOW).await;
            }
            put.await
        })
    }

    fn remove(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<(), Error>> {
        if self.dir.join("stuck").exists() {
            let stuck = Error::new(Reason::Degraded, "a story got it stuck");
            return Box::pin(async { Err(stuck) });
        }
        Archive::remove(&self.store, uids)
    }

    fn remove_later(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<(), Error>> {
        if self.dir.join("stuck").exists() {
            return self.remove(uids);
        }
        Archive::remove_later(&self.store, uids)
    }

    fn get(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<Vec<Finished>, Error>> {
        Archive::get(&self.store, uids)
    }

    fn load(&self, after: Option<Uid>) -> BoxFuture<'static, Result<Vec<Finished>, Error>> {
        Archive::load(&self.store, after)
    }
}

fn set(dir: &Path, name: &str) {
    std::fs::write(dir.join(name), "").unwrap();
}

fn remove(path: &str) -> Ask {
    Ask::Remove {
        path: path.into(),
        recursive: true,
        force: false,
    }
}

/// A cell that was lost is removed as soon as it is seen to have ended, while its end is stored.
pub(crate) fn what_is_removed_while_it_is_stored_stays_removed(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let cell = daemon.cell("web");
    set(node.dir(), "slow");
    let init = kernel::pidfd::open(cell.pid.unwrap().try_into().unwrap()).unwrap();
    kernel::pidfd::send_signal(&init, kernel::signal::Signal::KILL).unwrap();
    until("the cell has ended", || {
        daemon.get("web").state() == State::Failed
    });
    assert!(matches!(daemon.ask(remove("web")), Answer::Removed(1)));
    std::thread::sleep(SLOW * 2);
    node.kill_daemon();
    assert!(node.client().list().is_empty(), "it came back");
}

/// An end that could not be stored is tried again; not where it was removed meanwhile.
pub(crate) fn what_is_removed_before_it_could_be_stored_stays_removed(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    set(node.dir(), "broken");
    for job in ["web/gone", "web/kept"] {
        daemon.run(job, &["/bin/true"]);
    }
    assert!(matches!(daemon.ask(remove("web/gone")), Answer::Removed(1)));
    // What no caller wants to know any more waits for no store.
    let leaf = node.cgroup().join("acme/web/gone");
    until("it has left its cell", || !leaf.exists());
    std::fs::remove_file(node.dir().join("broken")).unwrap();
    // Its leaf goes when its end is stored.
    let leaf = node.cgroup().join("acme/web/kept");
    until("the leaf is gone", || !leaf.exists());
    node.kill_daemon();
    let left = node.client().list();
    let left: Vec<_> = left.iter().map(|o| o.meta().path.to_string()).collect();
    assert_eq!(left, ["web", "web/kept"]);
}

/// The disk stays full: a cell ends all the same, with what has ended in it.
pub(crate) fn a_cell_ends_while_nothing_can_be_stored(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    daemon.start("web/runs", &["/bin/sleep", "100"]);
    set(node.dir(), "broken");
    daemon.run("web/ended", &["/bin/true"]);
    assert!(daemon.stop("web", None).state().is_final());
    for job in ["web/runs", "web/ended"] {
        assert!(daemon.get(job).state().is_final(), "{job}");
    }
    let group = node.cgroup().join("acme/web");
    assert!(!group.exists());
}

/// What can't be removed for good isn't removed at all: it is there until it can be.
pub(crate) fn what_the_store_can_not_forget_is_not_removed(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    daemon.run("web/job", &["/bin/true"]);
    let there = |daemon: &mut Client| {
        let list = daemon.list();
        let mut paths: Vec<_> = list.iter().map(|o| o.meta().path.to_string()).collect();
        paths.sort();
        paths
    };
    set(node.dir(), "stuck");
    for path in ["web/job", "web"] {
        let (reason, _) = refusal(daemon.ask(remove(path)));
        assert_eq!(reason, "DEGRADED", "{path}");
    }
    assert_eq!(there(&mut daemon), ["web", "web/job"]);
    assert!(daemon.get("web").state().is_final());
    std::fs::remove_file(node.dir().join("stuck")).unwrap();
    assert!(matches!(daemon.ask(remove("web")), Answer::Removed(2)));
    node.kill_daemon();
    assert!(there(&mut node.client()).is_empty());
}
