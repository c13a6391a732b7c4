// SPDX-License-Identifier: Apache-2.0
//! Blobs of a repository: looked at, proved, and downloaded into a sink, with a `Range` request
//! after each cut (distribution specification, "Pulling blobs").
//!
//! Bytes that the store has already may be another owner's. That this registry answers HEAD with
//! 200 is no proof that it has them: a registry of a tenant's own can say yes to everything, and
//! the tenant would read what it knows a digest of. So the registry must also show bytes from
//! places that it can't foresee, and small blobs are downloaded again.

use std::os::unix::fs::FileExt as _;

use http::header::{ACCEPT_ENCODING, CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};
use http::{Method, StatusCode};
use reqwest::Response;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::time::Instant;

use super::error::RegistryError;
use super::pace::Pace;
use super::progress::{Meter, State};
use super::session::Session;
use super::sink::Sink;
use super::wire::length;
use crate::manifest::Descriptor;
use crate::store::Store;

/// Blobs up to this size are downloaded again rather than proved, in bytes.
const SMALL: u64 = 64 << 10;
/// How many places of a blob must be shown, and how many bytes of each.
const PLACES: usize = 3;
const PLACE: u64 = 4 << 10;
/// How much must come between two cuts for the attempts to count anew.
const ADVANCE: u64 = 64 << 10;

impl Session {
    /// Whether the registry has the blob and lets these credentials read it.
    ///
    /// # Errors
    /// [`RegistryError::NotFound`], [`RegistryError::Refused`]; [`RegistryError::Lie`] for another
    /// size than the descriptor's.
    pub(crate) async fn head_blob(&self, blob: &Descriptor) -> Result<(), RegistryError> {
        let ask = self.ask(Method::HEAD, &format!("blobs/{}", blob.digest), plain())?;
        let response = self.send(&ask).await?;
        // Not `content_length`: the body of an answer to HEAD is empty.
        let header = response.headers().get(http::header::CONTENT_LENGTH);
        let found = header
            .and_then(|it| it.to_str().ok())
            .and_then(|it| it.parse().ok());
        match found {
            Some(found) if found != blob.size => Err(self.wrong_size(blob, found)),
            _ => Ok(()),
        }
    }

    /// Whether the registry shows that it has the bytes that the store has. `false` means that it
    /// can't show a part, so that all must be downloaded.
    ///
    /// # Errors
    /// [`RegistryError::Lie`] where it shows others; those of [`Session::head_blob`].
    pub(crate) async fn prove(
        &self,
        store: &Store,
        blob: &Descriptor,
    ) -> Result<bool, RegistryError> {
        if blob.size <= SMALL {
            return Ok(false);
        }
        for _ in 0..PLACES {
            let offset = random()? % (blob.size - PLACE);
            let (store, digest) = (store.clone(), blob.digest.clone());
            let read = tokio::task::spawn_blocking(move || {
                let mut bytes = vec![0; usize::try_from(PLACE).unwrap_or_default()];
                let file = store.read_blob(&digest)?;
                let read = file.read_exact_at(&mut bytes, offset);
                Ok::<_, crate::error::ImageError>(read.is_ok().then_some(bytes))
            });
            let ours = read.await.map_err(|_| RegistryError::Stopped)??;
            let range = format!("bytes={offset}-{}", offset + PLACE - 1);
            let theirs = self.part(blob, &range, offset).await?;
            match (ours, theirs) {
                (Some(ours), Some(theirs)) if ours == theirs => {}
                (Some(_), Some(_)) => {
                    return Err(RegistryError::Lie {
                        host: self.host.name.clone(),
                        digest: blob.digest.clone(),
                        problem: "it has other bytes under this digest".to_owned(),
                    });
                }
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    async fn part(
        &self,
        blob: &Descriptor,
        range: &str,
        offset: u64,
    ) -> Result<Option<Vec<u8>>, RegistryError> {
        let mut ask = self.ask(Method::GET, &format!("blobs/{}", blob.digest), plain())?;
        ask.headers.insert(RANGE, self.header(&ask.what, range)?);
        let response = self.send(&ask).await?;
        if response.status() != StatusCode::PARTIAL_CONTENT {
            return Ok(None);
        }
        self.check_range(&ask.what, &response, offset)?;
        self.wire.body(response, &ask.what, PLACE).await.map(Some)
    }

    /// Brings what is missing of a blob. After a cut it goes on where it was, as often as the
    /// back-off allows.
    ///
    /// # Errors
    /// What ended the last attempt. What has come stays in the sink.
    pub(crate) async fn download(
        &self,
        blob: &Descriptor,
        sink: &mut Sink,
        meter: &Meter,
    ) -> Result<(), RegistryError> {
        let mut failures = 0;
        loop {
            let before = sink.offset();
            let problem = match self.download_once(blob, sink, meter).await {
                Ok(()) => return Ok(()),
                Err(problem) if problem.is_passing() => problem,
                Err(problem) => return Err(problem),
            };
            if sink.offset() >= before.saturating_add(ADVANCE) {
                failures = 0;
            }
            failures += 1;
            self.wait(failures, problem).await?;
        }
    }

    async fn download_once(
        &self,
        blob: &Descriptor,
        sink: &mut Sink,
        meter: &Meter,
    ) -> Result<(), RegistryError> {
        if sink.missing() == 0 {
            // All of it came in an earlier attempt; the leave to read it is of now.
            return self.head_blob(blob).await;
        }
        let mut ask = self.ask(Method::GET, &format!("blobs/{}", blob.digest), plain())?;
        if sink.offset() > 0 {
            let range = format!("bytes={}-", sink.offset());
            ask.headers.insert(RANGE, self.header(&ask.what, &range)?);
        }
        let answer = match self.once(&ask).await {
            Err(problem) if problem.status() == Some(416) && sink.offset() > 0 => {
                sink.restart().await?;
                ask.headers.remove(RANGE);
                self.once(&ask).await
            }
            other => other,
        };
        let response = answer?;
        if response.status() == StatusCode::PARTIAL_CONTENT {
            self.check_range(&ask.what, &response, sink.offset())?;
        } else if sink.offset() > 0 {
            sink.restart().await?;
        }
        if let Some(length) = response.content_length().filter(|it| *it != sink.missing()) {
            return Err(self.wrong_size(blob, sink.offset().saturating_add(length)));
        }
        self.stream(blob, response, sink, meter, &ask.what).await
    }

    async fn stream(
        &self,
        blob: &Descriptor,
        mut response: Response,
        sink: &mut Sink,
        meter: &Meter,
        what: &str,
    ) -> Result<(), RegistryError> {
        let mut pace = Pace::new(&self.wire.options);
        loop {
            let since = Instant::now();
            let Some(chunk) = self.wire.chunk(&mut response, what).await? else {
                break;
            };
            let slow = pace.is_too_slow(chunk.len(), since.elapsed());
            if length(&chunk) > sink.missing() {
                let found = sink.offset().saturating_add(length(&chunk));
                return Err(self.wrong_size(blob, found));
            }
            sink.write(chunk).await?;
            meter.set(&blob.digest, State::Moving, sink.offset());
            if sink.missing() == 0 {
                return Ok(());
            }
            if slow {
                return Err(self.wire.slow(&self.host.name, what));
            }
        }
        if sink.missing() == 0 {
            return Ok(());
        }
        Err(RegistryError::Unreachable {
            host: self.host.name.clone(),
            problem: format!(
                "the connection ended {} bytes before the blob's end",
                sink.missing()
            ),
        })
    }

    /// `Content-Range` must begin where it was asked to (RFC 9110, section 14.4).
    fn check_range(
        &self,
        what: &str,
        response: &Response,
        offset: u64,
    ) -> Result<(), RegistryError> {
        let header = response
            .headers()
            .get(CONTENT_RANGE)
            .and_then(|it| it.to_str().ok());
        let first = header
            .and_then(|it| it.strip_prefix("bytes "))
            .and_then(|it| it.split_once('-'))
            .and_then(|(first, _)| first.trim().parse::<u64>().ok());
        if first == Some(offset) {
            return Ok(());
        }
        let header = super::error::presentable(header.unwrap_or("none"));
        Err(self.malformed(
            what,
            format!("Content-Range {header}, asked from byte {offset}"),
        ))
    }

    fn wrong_size(&self, blob: &Descriptor, found: u64) -> RegistryError {
        RegistryError::Lie {
            host: self.host.name.clone(),
            digest: blob.digest.clone(),
            problem: format!("it has {found} bytes or more there, not {}", blob.size),
        }
    }

    fn header(&self, what: &str, value: &str) -> Result<HeaderValue, RegistryError> {
        HeaderValue::try_from(value).map_err(|problem| self.malformed(what, problem.to_string()))
    }
}

/// A digest is of the bytes as they are stored: nothing on the way may pack them.
fn plain() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers
}

fn random() -> Result<u64, RegistryError> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|_| RegistryError::Stopped)?;
    Ok(u64::from_ne_bytes(bytes))
}
