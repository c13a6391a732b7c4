// SPDX-License-Identifier: Apache-2.0
//! The handle: requests to the thread that owns the network, and their answers.

use std::os::fd::OwnedFd;
use std::path::Path;

use kernel::namespace::{Namespaces, join};
use model::name::Uid;
use tokio::sync::{mpsc, oneshot};

use crate::adopt::{self, Started};
use crate::error::Step;
use crate::look::Seen;
use crate::port::{Attach, Attached};
use crate::settings::Settings;
use crate::worker::Worker;
use crate::{Error, Result};

/// How many requests wait. Who comes later waits to be let in, in the order of coming.
const QUEUE: usize = 64;

type Reply<T> = oneshot::Sender<Result<T>>;

enum Request {
    Attach(Attach, Reply<Attached>),
    Detach(Uid, Reply<()>),
    Look(Reply<Seen>),
    Repair(Reply<()>),
    Remove(Reply<()>),
}

impl Request {
    fn detaches(&self) -> Option<Uid> {
        match self {
            Request::Detach(uid, _) => Some(*uid),
            _ => None,
        }
    }
}

/// The network of the node's cells. Clones share one thread, which ends with the last of them.
///
/// A request goes on where its caller stops waiting: who gives up an attach detaches the cell.
#[derive(Clone, Debug)]
pub struct Network {
    requests: mpsc::Sender<Request>,
}

impl Network {
    /// Makes the bridge and the rules in the network namespace `netns`, the caller's where none is
    /// given, and takes over the interfaces of the cells that live: what [`Network::attach`] gave,
    /// as their records have it. What is of none of them is removed.
    ///
    /// # Errors
    /// A setting that can't be worked with, or the kernel's refusal. `EPERM`: without
    /// `CAP_NET_ADMIN`. `EOPNOTSUPP`, `ENOENT`: the kernel lacks bridges, veth, `nf_tables` or
    /// `nf_conntrack_netlink`.
    pub async fn start(
        settings: Settings,
        netns: Option<OwnedFd>,
        living: Vec<(Uid, Attached)>,
    ) -> Result<(Network, Started)> {
        settings.check()?;
        let (requests, queue) = mpsc::channel(QUEUE);
        let (reply, answer) = oneshot::channel();
        let thread = std::thread::Builder::new().name("net".to_owned());
        thread
            .spawn(move || serve(settings, netns, living, queue, reply))
            .step("starting the network's thread")?;
        let started = answer.await.map_err(|_| Error::Ended)??;
        Ok((Network { requests }, started))
    }

    /// Gives a cell an interface. When this returns, its addresses can be used.
    ///
    /// # Errors
    /// No address or port is free, the interface is there already, or the kernel refused a step. Of
    /// a failed attach nothing is left.
    pub async fn attach(&self, attach: Attach) -> Result<Attached> {
        self.ask(|reply| Request::Attach(attach, reply)).await
    }

    /// Takes all interfaces of a cell away and gives their addresses and ports back. That the cell
    /// is gone already, or had none, is no error.
    ///
    /// # Errors
    /// The kernel refused a step; all others were done. The addresses stay taken then.
    pub async fn detach(&self, uid: Uid) -> Result<()> {
        self.ask(|reply| Request::Detach(uid, reply)).await
    }

    /// What the kernel has of ours.
    ///
    /// # Errors
    /// The kernel's refusal, `ENOENT` above all: the tables are gone, and [`Network::repair`] puts
    /// them in place.
    pub async fn look(&self) -> Result<Seen> {
        self.ask(Request::Look).await
    }

    /// Puts the rules in place again, in one transaction: where another program may have flushed
    /// them.
    ///
    /// # Errors
    /// The kernel's refusal; the rules are as they were then.
    pub async fn repair(&self) -> Result<()> {
        self.ask(Request::Repair).await
    }

    /// Removes all of it from the node: interfaces, bridge, rules. Kernel settings stay.
    ///
    /// # Errors
    /// The first of the steps that the kernel refused; all others were done.
    pub async fn remove(self) -> Result<()> {
        self.ask(Request::Remove).await
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(request(reply)).await;
        sent.map_err(|_| Error::Ended)?;
        answer.await.map_err(|_| Error::Ended)?
    }
}

/// The thread.
fn serve(
    settings: Settings,
    netns: Option<OwnedFd>,
    living: Vec<(Uid, Attached)>,
    mut queue: mpsc::Receiver<Request>,
    reply: Reply<Started>,
) {
    let started = enter(netns).and_then(|here| adopt::start(settings, here, living));
    let mut worker = match started {
        Ok((worker, started)) => {
            // No caller waits: the loop below ends at once, since the handle is gone too.
            let _ = reply.send(Ok(started));
            worker
        }
        Err(error) => {
            let _ = reply.send(Err(error));
            return;
        }
    };
    serve_all(&mut worker, &mut queue);
    // Who has a place in the queue but no message in it yet would wait for ever otherwise.
    queue.close();
    while let Some(unheard) = queue.blocking_recv() {
        drop(unheard);
    }
}

/// Until no handle is there any more, or the thread can't get home.
fn serve_all(worker: &mut Worker, queue: &mut mpsc::Receiver<Request>) {
    while let Some(first) = queue.blocking_recv() {
        // What waits is taken together: cells that end at once are detached at once.
        let waiting = std::iter::from_fn(|| queue.try_recv().ok());
        let requests: Vec<Request> = std::iter::once(first).chain(waiting).take(QUEUE).collect();
        let ended: Vec<Uid> = requests.iter().filter_map(Request::detaches).collect();
        if ended.len() > 1 {
            // What fails here fails for its own cell below, which is told.
            let _ = worker.unlink_together(&ended);
        }
        for request in requests {
            answer(worker, request);
            if worker.stranded {
                return;
            }
        }
    }
}

/// Moves the thread into the namespace; gives a descriptor to come back by.
fn enter(netns: Option<OwnedFd>) -> Result<OwnedFd> {
    let Some(netns) = netns else {
        let own = Path::new("/proc/thread-self/ns/net");
        return kernel::namespace::open(own).step("opening the network namespace");
    };
    join(&netns, Namespaces::NET).step("entering the node's network namespace")?;
    Ok(netns)
}

/// A caller that no longer waits misses the answer; what was done stays done.
fn answer(worker: &mut Worker, request: Request) {
    match request {
        Request::Attach(attach, reply) => {
            let _ = reply.send(worker.attach(attach.uid, &attach));
        }
        Request::Detach(uid, reply) => {
            let _ = reply.send(worker.detach(uid));
        }
        Request::Look(reply) => {
            let _ = reply.send(worker.look());
        }
        Request::Repair(reply) => {
            let _ = reply.send(worker.replace());
        }
        Request::Remove(reply) => {
            let _ = reply.send(worker.remove_all());
        }
    }
}
