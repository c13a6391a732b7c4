// SPDX-License-Identifier: Apache-2.0
//! Descriptors that node-init keeps for the next daemon: listening sockets, what services have
//! stored. The daemon gives them, names them and drops them; here nothing is read, closed or made
//! of them by itself. They end with node-init. What they are for is the daemon's matter, and so is
//! that closing one never waits.

use std::os::fd::{AsFd, OwnedFd};

use kernel::rlimit::Limit;
use rustix::io::Errno;

use super::Node;
use crate::link::Link;
use crate::protocol::{Failure, MAX_DESCRIPTORS, MAX_DESCRIPTORS_OF_OWNER, NodeEvent, Step};

/// One of them.
struct One {
    /// Counts up; never used twice.
    number: u64,
    owner: String,
    name: String,
    fd: OwnedFd,
}

/// All of them, by their numbers.
pub(super) struct Kept {
    all: Vec<One>,
    /// The most.
    limit: usize,
    last: u64,
    /// A listing that goes on: its request, and the number that was sent last.
    listing: Option<(u64, u64)>,
}

impl Kept {
    /// Room for descriptors beside what node-init itself must open: a part of its limit.
    pub(super) fn of_limit(descriptors: Option<Limit>) -> Kept {
        let part = descriptors.map_or(0, |limit| limit.soft / 4);
        Kept {
            all: Vec::new(),
            limit: usize::try_from(part)
                .unwrap_or(MAX_DESCRIPTORS)
                .min(MAX_DESCRIPTORS),
            last: 0,
            listing: None,
        }
    }

    /// Takes one in, and answers its number.
    fn take(&mut self, owner: String, name: String, fd: OwnedFd) -> Result<u64, Failure> {
        let full = |errno: Errno, words: String| {
            Err(Failure::new(Step::Limit, errno.raw_os_error(), words))
        };
        if self.all.len() >= self.limit {
            let words = format!("{} descriptors are kept, the most of this node", self.limit);
            return full(Errno::NFILE, words);
        }
        let of_owner = self.all.iter().filter(|it| it.owner == owner).count();
        if of_owner >= MAX_DESCRIPTORS_OF_OWNER {
            let words = format!("{MAX_DESCRIPTORS_OF_OWNER} are kept for {owner}, the most");
            return full(Errno::MFILE, words);
        }
        if self.all.try_reserve(1).is_err() {
            return full(Errno::NOMEM, String::new());
        }
        self.last = self.last.saturating_add(1);
        self.all.push(One {
            number: self.last,
            owner,
            name,
            fd,
        });
        Ok(self.last)
    }

    /// Closes one, where it is there.
    pub(super) fn forget(&mut self, number: u64) {
        if let Ok(at) = self.all.binary_search_by_key(&number, |it| it.number) {
            drop(self.all.remove(at));
            self.all.shrink_to(self.all.len().saturating_mul(2));
        }
    }

    /// Begins to hand all over.
    pub(super) fn list(&mut self, request: u64) {
        self.listing = Some((request, 0));
    }

    /// The daemon doesn't ask for them any more.
    pub(super) fn stop_listing(&mut self) {
        self.listing = None;
    }

    /// Sends what was asked for, one after the other as the daemon reads; `false` where the
    /// connection is broken.
    pub(super) fn tell(&mut self, link: &mut Link) -> bool {
        while let Some((request, sent)) = self.listing
            && link.is_flushed()
        {
            let at = self.all.partition_point(|it| it.number <= sent);
            let posted = match self.all.get(at) {
                Some(one) => {
                    self.listing = Some((request, one.number));
                    let event = NodeEvent::Descriptor {
                        request,
                        number: one.number,
                        owner: one.owner.clone(),
                        name: one.name.clone(),
                    };
                    link.post(&event, &[one.fd.as_fd()])
                }
                None => {
                    self.listing = None;
                    link.post(&NodeEvent::DescriptorsListed { request }, &[])
                }
            };
            if posted.is_err() {
                return false;
            }
        }
        true
    }
}

impl Node {
    /// Keeps a descriptor, and says so.
    pub(super) fn keep_descriptor(
        &mut self,
        request: u64,
        owner: String,
        name: String,
        fds: Vec<OwnedFd>,
    ) {
        let one: Result<[OwnedFd; 1], _> = fds.try_into();
        let kept = match one {
            Ok([fd]) => self.kept.take(owner, name, fd),
            Err(fds) => {
                let words = format!("one descriptor was to come, not {}", fds.len());
                self.complain(&words);
                Err(Failure::new(
                    Step::Protocol,
                    Errno::BADMSG.raw_os_error(),
                    words,
                ))
            }
        };
        let event = match kept {
            Ok(number) => NodeEvent::DescriptorKept { request, number },
            Err(failure) => NodeEvent::DescriptorNotKept { request, failure },
        };
        self.post(&event, &[]);
    }
}
