// SPDX-License-Identifier: Apache-2.0
//! How far a pull or a push is: one small value in a tokio watch. A slow reader sees the latest
//! state and never holds anything up; there is no queue that could grow.

use tokio::sync::watch;

use crate::digest::Digest;
use crate::manifest::Descriptor;

/// How far a pull or a push is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The host that gives or takes the image; empty until one did.
    pub host: String,
    /// The configuration and the layers, in the manifest's order; empty until it is known.
    pub blobs: Vec<Blob>,
}

/// One blob's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Which one.
    pub digest: Digest,
    /// What is done with it.
    pub state: State,
    /// How many of its bytes are done.
    pub done: u64,
    /// How many bytes it has.
    pub whole: u64,
    /// How many of its bytes the unpacker has read.
    pub unpacked: u64,
}

/// What is done with a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Others come first.
    Waiting,
    /// Its bytes are on their way.
    Moving,
    /// All of it has come, and is being unpacked. (It may be unpacked while it comes, too.)
    Unpacking,
    /// It was there already, and the registry has confirmed that these credentials may have it.
    Present,
    /// It is there, verified.
    Done,
}

/// The sending side. Without a reader nothing is lost.
#[derive(Clone, Debug)]
pub(crate) struct Meter(watch::Sender<Progress>);

impl Meter {
    pub(crate) fn new(sender: watch::Sender<Progress>) -> Self {
        Self(sender)
    }

    pub(crate) fn host(&self, host: &str) {
        self.0.send_if_modified(|progress| {
            let new = progress.host != host;
            if new {
                host.clone_into(&mut progress.host);
            }
            new
        });
    }

    pub(crate) fn expect<'a>(&self, blobs: impl Iterator<Item = &'a Descriptor>) {
        let blobs = blobs.map(|it| Blob {
            digest: it.digest.clone(),
            state: State::Waiting,
            done: 0,
            whole: it.size,
            unpacked: 0,
        });
        let blobs = blobs.collect();
        self.0.send_modify(|progress| progress.blobs = blobs);
    }

    /// A blob has come altogether. Where a tap reads it, it is done when that is.
    pub(crate) fn came(&self, digest: &Digest, tapped: bool) {
        self.0.send_modify(|progress| {
            for blob in progress.blobs.iter_mut().filter(|it| it.digest == *digest) {
                let is_read = !tapped || blob.unpacked == blob.whole;
                blob.state = if is_read {
                    State::Done
                } else {
                    State::Unpacking
                };
                blob.done = blob.whole;
            }
        });
    }

    /// Sets what is done with a blob; one that isn't of the image (a manifest) is not counted.
    pub(crate) fn set(&self, digest: &Digest, state: State, done: u64) {
        self.0.send_if_modified(|progress| {
            let mut changed = false;
            for blob in progress.blobs.iter_mut().filter(|it| it.digest == *digest) {
                changed = true;
                blob.state = state;
                blob.done = done.min(blob.whole);
            }
            changed
        });
    }
}
