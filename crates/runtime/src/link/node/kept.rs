// SPDX-License-Identifier: Apache-2.0
//! Descriptors that node-init keeps for the next daemon (ADR 53). A subsystem gives what must
//! outlive this daemon with an owner's name; the next daemon gets all of them back, by
//! [`NodeInit::kept_descriptors`], and drops what it knows no owner of.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use init::protocol::{Failure, MAX_DESCRIPTOR_NAME, MAX_OWNER, NodeRequest};
use model::error::{Error, Reason};
use tokio::sync::oneshot;

use super::{Command, LinkError, NodeInit};

/// A descriptor that node-init keeps.
#[derive(Debug)]
pub struct KeptDescriptor {
    /// What it is called, as long as this node-init lives; never used twice.
    pub number: u64,
    /// Whom it is kept for.
    pub owner: String,
    /// Its name among the owner's.
    pub name: String,
    /// A duplicate.
    pub fd: OwnedFd,
}

pub(super) type Reply = oneshot::Sender<Result<u64, Failure>>;

/// Who waits for what.
#[derive(Default)]
pub(super) struct Asked {
    keeping: HashMap<u64, Reply>,
    listing: Option<(
        u64,
        Vec<KeptDescriptor>,
        oneshot::Sender<Vec<KeptDescriptor>>,
    )>,
}

impl Asked {
    pub(super) fn keep(&mut self, request: u64, reply: Reply) {
        self.keeping.insert(request, reply);
    }

    /// A listing begins. One that goes on has been given up by its caller.
    pub(super) fn list(&mut self, request: u64, reply: oneshot::Sender<Vec<KeptDescriptor>>) {
        self.listing = Some((request, Vec::new(), reply));
    }

    pub(super) fn answered(&mut self, request: u64, answer: Result<u64, Failure>) -> Option<u64> {
        let number = answer.as_ref().ok().copied();
        let unheard = match self.keeping.remove(&request) {
            Some(reply) => reply.send(answer).is_err(),
            None => true,
        };
        // The caller has gone: nothing would drop it before the next daemon does.
        number.filter(|_| unheard)
    }

    pub(super) fn one(
        &mut self,
        request: u64,
        (number, owner, name): (u64, String, String),
        fds: Vec<OwnedFd>,
    ) -> Result<(), LinkError> {
        let one: Result<[OwnedFd; 1], _> = fds.try_into();
        let Ok([fd]) = one else {
            return Err(LinkError::Malformed("a kept descriptor has none".into()));
        };
        if let Some((asked, all, _)) = &mut self.listing
            && *asked == request
        {
            all.push(KeptDescriptor {
                number,
                owner,
                name,
                fd,
            });
        }
        Ok(())
    }

    pub(super) fn listed(&mut self, request: u64) {
        if let Some((_, all, reply)) = self.listing.take_if(|(asked, ..)| *asked == request) {
            // Who asked may have gone.
            let _ = reply.send(all);
        }
    }
}

fn gone() -> Error {
    Error::new(Reason::Internal, "node-init is gone")
}

impl NodeInit {
    /// Keeps a descriptor over the death of this daemon; its number. A future that is dropped
    /// before its end keeps nothing.
    ///
    /// `fd` must be none whose closing asks a server (a file of FUSE, NFS): node-init would wait
    /// for that one.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`: too many are kept, for this owner (1,024) or in all (8,192, or a quarter
    /// of node-init's own limit); `INVALID_FIELD`: a name is too long.
    pub async fn keep_descriptor(
        &self,
        owner: &str,
        name: &str,
        fd: OwnedFd,
    ) -> Result<u64, Error> {
        for (field, text, most) in [
            ("owner", owner, MAX_OWNER),
            ("name", name, MAX_DESCRIPTOR_NAME),
        ] {
            if text.len() > most {
                let problem = format!("of a kept descriptor has at most {most} bytes");
                return Err(Error::invalid(field, problem));
            }
        }
        let (reply, answer) = oneshot::channel();
        let command = Command::Keep(owner.to_owned(), name.to_owned(), fd, reply);
        self.commands.send(command).await.map_err(|_| gone())?;
        let answer = answer.await.map_err(|_| gone())?;
        answer.map_err(|failure| {
            let message = format!("a descriptor is not kept: {}", failure.detail);
            Error::new(Reason::LimitExceeded, message).errno(failure.errno)
        })
    }

    /// All that earlier daemons and this one have left with node-init. It keeps them.
    ///
    /// # Errors
    /// `INTERNAL`: node-init is gone.
    pub async fn kept_descriptors(&self) -> Result<Vec<KeptDescriptor>, Error> {
        let _one_at_a_time = self.listing.lock().await;
        let (reply, answer) = oneshot::channel();
        let command = Command::Kept(reply);
        self.commands.send(command).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }

    /// Closes what is kept under a number.
    pub async fn drop_descriptor(&self, number: u64) {
        self.plain(NodeRequest::DropDescriptor { number }).await;
    }
}
