// SPDX-License-Identifier: Apache-2.0
//! When everything that was sent to the journal before a moment is in the pipe to the mover: the
//! first half of what `journalctl --sync` waits for. Each reader of a socket says so itself: it has
//! seen the socket empty, or has taken as much since as the kernel can have held of it, so that who
//! sends without end holds up nothing. Used by the tasks of one thread.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::{Notify, watch};

/// See the module.
#[derive(Debug)]
pub(super) struct Settling {
    /// How often it was asked for.
    asked: watch::Sender<u64>,
    /// Which of these each reader has done.
    done: RefCell<HashMap<u64, u64>>,
    next: Cell<u64>,
    news: Notify,
}

impl Settling {
    pub(super) fn new() -> Rc<Settling> {
        Rc::new(Settling {
            asked: watch::Sender::new(0),
            done: RefCell::default(),
            next: Cell::new(0),
            news: Notify::new(),
        })
    }

    /// A reader of a socket of which the kernel holds `most` at once: bytes, or connections.
    pub(super) fn reader(self: &Rc<Self>, most: usize) -> Reader {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        self.done.borrow_mut().insert(number, 0);
        Reader {
            of: self.clone(),
            number,
            asked: self.asked.subscribe(),
            round: 0,
            taken: 0,
            most,
        }
    }

    /// Resolves when every reader has taken what was there when this was called.
    pub(super) async fn settle(&self) {
        let mut round = 0;
        self.asked.send_modify(|asked| {
            *asked = asked.wrapping_add(1);
            round = *asked;
        });
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if self.done.borrow().values().all(|done| *done >= round) {
                return;
            }
            news.await;
        }
    }
}

/// One reader's part.
#[derive(Debug)]
pub(super) struct Reader {
    of: Rc<Settling>,
    number: u64,
    asked: watch::Receiver<u64>,
    /// The one that it is at.
    round: u64,
    /// What it has taken since it began that.
    taken: usize,
    most: usize,
}

impl Reader {
    /// Has taken so much.
    pub(super) fn took(&mut self, size: usize) {
        self.taken = self.taken.saturating_add(size);
    }

    /// Looks whether it has done what was asked. Called when everything that it has taken is
    /// written.
    pub(super) fn look(&mut self, socket: &impl AsFd) {
        let asked = *self.asked.borrow_and_update();
        if asked != self.round {
            (self.round, self.taken) = (asked, 0);
        }
        let done = self.of.done.borrow().get(&self.number).copied();
        if done == Some(asked) {
            return;
        }
        if self.taken >= self.most || is_empty(socket) {
            self.of.done.borrow_mut().insert(self.number, asked);
            self.of.news.notify_waiters();
        }
    }

    /// Resolves when it is to look again.
    pub(super) async fn asked(&mut self) {
        if self.asked.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.of.done.borrow_mut().remove(&self.number);
        self.of.news.notify_waiters();
    }
}

/// By the kernel's word: the runtime may not have heard yet of what came last.
fn is_empty(socket: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn it_is_settled_when_each_has_seen_its_socket_empty_or_has_taken_what_it_can_have_held() {
        let (send, receive) = UnixDatagram::pair().unwrap();
        let settling = Settling::new();
        let (mut one, mut other) = (settling.reader(100), settling.reader(100));
        let mut settled = Box::pin(settling.settle());
        assert!(settled.as_mut().now_or_never().is_none());
        send.send(b"first").unwrap();
        one.look(&receive);
        other.look(&send);
        assert!(settled.as_mut().now_or_never().is_none());
        one.took(99);
        one.look(&receive);
        assert!(settled.as_mut().now_or_never().is_none());
        one.took(1);
        one.look(&receive);
        assert!(settled.as_mut().now_or_never().is_some());
        // What was taken before doesn't count for the next.
        one.took(100);
        let mut again = Box::pin(settling.settle());
        assert!(again.as_mut().now_or_never().is_none());
        one.look(&receive);
        other.look(&send);
        assert!(again.as_mut().now_or_never().is_none());
        // One that begins meanwhile has something to say, too; one that ends has nothing left.
        let late = settling.reader(100);
        receive.recv(&mut [0; 9]).unwrap();
        one.look(&receive);
        assert!(again.as_mut().now_or_never().is_none());
        drop(late);
        assert!(again.as_mut().now_or_never().is_some());
    }
}
