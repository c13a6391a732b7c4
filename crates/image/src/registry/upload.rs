// SPDX-License-Identifier: Apache-2.0
//! One blob's way into a repository (distribution specification, "Pushing blobs"): it is there
//! already, is mounted from another repository, is sent in one request, or in chunks. After a cut
//! the registry is asked how much it has; where it no longer knows, the upload begins anew.

use std::sync::Arc;

use http::Method;
use http::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RANGE};
use reqwest::{Response, Url};

use super::error::RegistryError;
use super::payload::Payload;
use super::progress::{Meter, State};
use super::session::Session;
use super::wire::Ask;
use crate::manifest::Descriptor;
use crate::store::Store;

/// The least that a registry takes as a chunk, other than the last one.
const LEAST_CHUNK: HeaderName = HeaderName::from_static("oci-chunk-min-length");
/// The largest chunk that a registry may ask for, in bytes.
const LARGEST_CHUNK: u64 = 1 << 30;

/// How a blob got there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It was there.
    Present,
    /// From another repository of the same registry.
    Mounted,
    /// Its bytes were sent.
    Sent,
}

/// An upload under way.
struct Upload {
    /// Where the next request goes.
    at: Ask,
    /// How many bytes the registry has.
    offset: u64,
    chunk: u64,
}

impl Session {
    /// Brings a blob of the store into the repository.
    ///
    /// # Errors
    /// What the registry answers to the last attempt; what the store says.
    pub(crate) async fn upload(
        &self,
        store: &Store,
        blob: &Descriptor,
        mount_from: &[String],
        meter: &Meter,
    ) -> Result<Way, RegistryError> {
        if self.has(blob).await? {
            return Ok(Way::Present);
        }
        let mut begun = None;
        for from in mount_from.iter().filter(|it| **it != self.repository) {
            match self.mount(blob, from).await? {
                Mount::Done => return Ok(Way::Mounted),
                Mount::Begun(upload) => begun = Some(upload),
                Mount::Not => {}
            }
            if begun.is_some() {
                break;
            }
        }
        let (store, digest) = (store.clone(), blob.digest.clone());
        let open = tokio::task::spawn_blocking(move || store.read_blob(&digest));
        let file = Arc::new(open.await.map_err(|_| RegistryError::Stopped)??);
        let upload = match begun {
            Some(upload) => upload,
            None => self.begin(blob).await?,
        };
        meter.set(&blob.digest, State::Moving, 0);
        self.send_all(upload, &file, blob, meter).await?;
        Ok(Way::Sent)
    }

    async fn has(&self, blob: &Descriptor) -> Result<bool, RegistryError> {
        match self.head_blob(blob).await {
            Ok(()) => Ok(true),
            Err(RegistryError::NotFound { .. }) => Ok(false),
            Err(problem) => Err(problem),
        }
    }

    async fn mount(&self, blob: &Descriptor, from: &str) -> Result<Mount, RegistryError> {
        let mut ask = self.ask(Method::POST, "blobs/uploads/", HeaderMap::new())?;
        ask.payload = Payload::Bytes(bytes::Bytes::new());
        let digest = blob.digest.to_string();
        ask.url
            .query_pairs_mut()
            .append_pair("mount", &digest)
            .append_pair("from", from);
        match self.send(&ask).await {
            Ok(response) if response.status() == http::StatusCode::CREATED => Ok(Mount::Done),
            Ok(response) => Ok(Mount::Begun(self.begun(&ask, &response)?)),
            // The other repository isn't there or isn't ours to read: the bytes are sent instead.
            Err(RegistryError::NotFound { .. } | RegistryError::Refused { .. }) => Ok(Mount::Not),
            Err(problem) if problem.status() == Some(405) => Ok(Mount::Not),
            Err(problem) => Err(problem),
        }
    }

    async fn begin(&self, blob: &Descriptor) -> Result<Upload, RegistryError> {
        let mut ask = self.ask(Method::POST, "blobs/uploads/", HeaderMap::new())?;
        ask.payload = Payload::Bytes(bytes::Bytes::new());
        ask.what = format!("an upload of {} to {}", blob.digest, self.repository);
        let response = self.send(&ask).await?;
        self.begun(&ask, &response)
    }

    fn begun(&self, ask: &Ask, response: &Response) -> Result<Upload, RegistryError> {
        let least = response
            .headers()
            .get(LEAST_CHUNK)
            .and_then(|it| it.to_str().ok());
        let least = least
            .and_then(|it| it.parse().ok())
            .unwrap_or(0)
            .min(LARGEST_CHUNK);
        Ok(Upload {
            at: self.ask_at(ask, response, Method::PATCH)?,
            offset: 0,
            chunk: self.wire.options.chunk.max(least).max(1),
        })
    }

    async fn send_all(
        &self,
        mut upload: Upload,
        file: &Arc<std::fs::File>,
        blob: &Descriptor,
        meter: &Meter,
    ) -> Result<(), RegistryError> {
        let (mut failures, mut farthest) = (0, 0);
        loop {
            let problem = match self.step(&mut upload, file, blob).await {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    meter.set(&blob.digest, State::Moving, upload.offset);
                    if upload.offset > farthest {
                        (failures, farthest) = (0, upload.offset);
                    }
                    continue;
                }
                Err(problem) if problem.is_passing() => problem,
                // Chunks out of order: it has more or less than was thought.
                Err(problem) if problem.status() == Some(416) => problem,
                Err(problem) => return Err(problem),
            };
            failures += 1;
            self.wait(failures, problem).await?;
            if !self.find(&mut upload).await {
                // The last answer may have been lost and not the last request.
                if self.has(blob).await? {
                    return Ok(());
                }
                upload = self.begin(blob).await?;
            }
        }
    }

    /// Sends the next part; whether it was the last one.
    async fn step(
        &self,
        upload: &mut Upload,
        file: &Arc<std::fs::File>,
        blob: &Descriptor,
    ) -> Result<bool, RegistryError> {
        let left = blob.size.saturating_sub(upload.offset);
        let at_once = upload.offset == 0 && left <= upload.chunk;
        let length = if at_once {
            left
        } else {
            left.min(upload.chunk)
        };
        let mut ask = upload.at.again(Method::PATCH);
        let octets = HeaderValue::from_static("application/octet-stream");
        ask.headers.insert(CONTENT_TYPE, octets);
        ask.payload = match length {
            0 => Payload::Bytes(bytes::Bytes::new()),
            length => Payload::Part {
                file: file.clone(),
                offset: upload.offset,
                length,
            },
        };
        if at_once || left == 0 {
            ask.method = Method::PUT;
            let digest = blob.digest.to_string();
            ask.url.query_pairs_mut().append_pair("digest", &digest);
            self.once(&ask).await?;
            return Ok(true);
        }
        let end = upload.offset + length;
        let range = format!("{}-{}", upload.offset, end - 1);
        let range = HeaderValue::try_from(range);
        let range = range.map_err(|problem| self.malformed(&ask.what, problem.to_string()))?;
        ask.headers.insert(CONTENT_RANGE, range);
        let response = self.once(&ask).await?;
        upload.at = self.ask_at(&ask, &response, Method::PATCH)?;
        upload.offset = match taken(&response) {
            Some(taken) if taken > upload.offset && taken <= end => taken,
            None => end,
            Some(taken) => {
                let problem = format!("it has {taken} bytes of {end} that were sent");
                return Err(self.malformed(&ask.what, problem));
            }
        };
        Ok(false)
    }

    /// Asks how much the registry has of an upload; `false` where it doesn't know it any more.
    async fn find(&self, upload: &mut Upload) -> bool {
        let ask = upload.at.again(Method::GET);
        let Ok(response) = self.send(&ask).await else {
            return false;
        };
        if let Ok(at) = self.ask_at(&ask, &response, Method::PATCH) {
            upload.at = at;
        }
        upload.offset = taken(&response).unwrap_or(0);
        true
    }
}

enum Mount {
    Done,
    Begun(Upload),
    Not,
}

impl Ask {
    /// Another request to the same place.
    fn again(&self, method: Method) -> Self {
        Self {
            method,
            url: Url::clone(&self.url),
            headers: HeaderMap::new(),
            payload: Payload::None,
            what: self.what.clone(),
        }
    }
}

/// How many bytes a registry says that it has: `Range: 0-LAST`, where `0-0` stands for none.
fn taken(response: &Response) -> Option<u64> {
    let header = response.headers().get(RANGE)?.to_str().ok()?;
    let header = header.strip_prefix("bytes=").unwrap_or(header);
    let last: u64 = header.strip_prefix("0-")?.parse().ok()?;
    Some(if last == 0 { 0 } else { last.saturating_add(1) })
}
