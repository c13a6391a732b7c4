// SPDX-License-Identifier: Apache-2.0
//! Who reads layers while they come: unpacking goes on beside the download. The reader sees the
//! bytes before they are verified, and hears at the end whether they were what they should be.

use std::fmt;
use std::fs::File;

use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::Descriptor;
use crate::store::{Ingest, Pin};

/// Hears of an image's blobs. All but [`Tap::came`] is called on threads that may wait.
pub trait Tap: fmt::Debug + Send + Sync {
    /// The manifest and the configuration are in the store; layers come next.
    ///
    /// # Errors
    /// What ends the pull.
    fn image(&self, manifest: &Descriptor) -> Result<(), model::error::Error>;

    /// A blob begins to come into this file, or begins anew: what was told of it before is void.
    /// `None`: no [`Feed`] reads it meanwhile.
    fn begin(&self, blob: &Digest, file: File) -> Option<Box<dyn Feed>>;

    /// A blob is in the store.
    fn came(&self, blob: &Digest);
}

/// Hears of one blob. Dropped before [`Feed::whole`], it comes no further.
pub trait Feed: Send {
    /// So many bytes are in the file, from its start.
    fn grown(&mut self, bytes: u64);

    /// It has so many bytes, and they are what the digest says.
    fn whole(self: Box<Self>, bytes: u64);
}

/// An ingest with who reads it.
pub(super) struct Tapped<'a> {
    pub(super) ingest: Ingest,
    tap: Option<&'a dyn Tap>,
    feed: Option<Box<dyn Feed>>,
}

impl<'a> Tapped<'a> {
    pub(super) fn new(ingest: Ingest, tap: Option<&'a dyn Tap>) -> Result<Self, ImageError> {
        let mut tapped = Self {
            ingest,
            tap,
            feed: None,
        };
        tapped.begin()?;
        Ok(tapped)
    }

    fn begin(&mut self) -> Result<(), ImageError> {
        if let Some(tap) = self.tap {
            self.feed = tap.begin(self.ingest.digest(), self.ingest.reader()?);
            self.grown();
        }
        Ok(())
    }

    fn grown(&mut self) {
        if let Some(feed) = &mut self.feed {
            feed.grown(self.ingest.offset());
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), ImageError> {
        self.ingest.write(bytes)?;
        self.grown();
        Ok(())
    }

    pub(super) fn restart(&mut self) -> Result<(), ImageError> {
        // Before the file is cut below its reader.
        self.feed = None;
        self.ingest.restart()?;
        self.begin()
    }

    pub(super) fn finish(self) -> Result<Pin, ImageError> {
        let bytes = self.ingest.offset();
        let pin = self.ingest.finish()?;
        if let Some(feed) = self.feed {
            feed.whole(bytes);
        }
        Ok(pin)
    }
}
