// SPDX-License-Identifier: Apache-2.0
//! The way of the node's mounts into a cell: one thread in a mount namespace of its own, which
//! holds a folder for each cell that mounts are being brought to. Its effects are
//! `kernel::mount::stage`'s; what is mounted where is the cell's owner's.
//!
//! Nothing is kept: the namespace ends with the daemon. What a cell-init has copied to its place
//! stays there.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use kernel::mount::stage;
use model::error::{Error, Reason};

use crate::devices::InFile;

/// The thread.
#[derive(Clone, Debug)]
pub(crate) struct Staging {
    orders: mpsc::SyncSender<Order>,
    next: Arc<AtomicU64>,
}

/// How many orders wait for the thread. Senders of more wait; each takes some ten microseconds.
const QUEUE: usize = 64;

#[derive(Debug)]
enum Order {
    Open(String, Vec<bool>, mpsc::SyncSender<kernel::Result<OwnedFd>>),
    Attach(String, Vec<InFile>, mpsc::SyncSender<kernel::Result<()>>),
    Close(String),
}

impl Staging {
    /// Starts the thread.
    ///
    /// # Errors
    /// Where it can't have a mount namespace of its own: without `CAP_SYS_ADMIN`.
    pub(crate) fn start() -> Result<Self, Error> {
        let (orders, inbox) = mpsc::sync_channel(QUEUE);
        let (begun, answer) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("mounts".to_owned());
        let started = thread.spawn(move || {
            let entered = stage::enter();
            let able = entered.is_ok();
            // Its starter waits for the answer.
            let _ = begun.send(entered);
            while able && let Ok(order) = inbox.recv() {
                carry_out(order);
            }
        });
        started.map_err(|e| Error::internal(format!("the thread for mounts: {e}")))?;
        answer.recv().map_err(|_| gone())?.map_err(failed)?;
        Ok(Self {
            orders,
            next: Arc::default(),
        })
    }

    /// A folder for mounts that are folders, or files (`false`); and its slave, for the cell.
    pub(crate) fn open(&self, directories: Vec<bool>) -> Result<(Stage, OwnedFd), Error> {
        let name = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let (reply, answer) = mpsc::sync_channel(1);
        let order = Order::Open(name.clone(), directories, reply);
        self.orders.send(order).map_err(|_| gone())?;
        let stage = Stage {
            name,
            orders: self.orders.clone(),
        };
        let slave = answer.recv().map_err(|_| gone())?.map_err(failed)?;
        Ok((stage, slave))
    }
}

/// A folder that a cell has as a slave. It is closed when this goes.
#[derive(Debug)]
pub(crate) struct Stage {
    name: String,
    orders: mpsc::SyncSender<Order>,
}

impl Stage {
    /// Attaches these in it, numbered from 0: they show in the cell, where the slave was attached.
    pub(crate) fn attach(&self, mounts: Vec<InFile>) -> Result<(), Error> {
        let (reply, answer) = mpsc::sync_channel(1);
        let order = Order::Attach(self.name.clone(), mounts, reply);
        self.orders.send(order).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?.map_err(failed)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Where the thread is gone, so is the folder.
        let _ = self
            .orders
            .send(Order::Close(std::mem::take(&mut self.name)));
    }
}

/// The caller that waits for an answer may be gone.
fn carry_out(order: Order) {
    match order {
        Order::Open(name, directories, reply) => {
            let _ = reply.send(stage::open(&name, &directories));
        }
        Order::Attach(name, mounts, reply) => {
            let mut numbered = mounts.iter().enumerate();
            let attached = numbered.try_for_each(|(at, (mount, file))| match file {
                None => stage::attach(&name, at, mount),
                Some(file) => stage::attach_file(&name, at, mount, file),
            });
            let _ = reply.send(attached);
        }
        Order::Close(name) => {
            if let Err(error) = stage::close(&name) {
                tracing::warn!(%error, "a folder for mounts stays behind in the daemon");
            }
        }
    }
}

fn failed(error: kernel::Error) -> Error {
    let message = format!("the node can't bring mounts to a cell: {error}");
    Error::new(Reason::Unsupported, message).errno(error.errno())
}

fn gone() -> Error {
    Error::internal("the thread for mounts has ended")
}
