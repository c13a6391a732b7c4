// SPDX-License-Identifier: Apache-2.0
//! What comes in an answer: bodies piece by piece or whole, each within a bound of bytes and of
//! time, and the words of a registry's errors. Which request it answers is `wire`'s matter.

use reqwest::Response;

use super::error::{RegistryError, presentable};
use super::wire::{Wire, authority, length};

/// How much of an error's body is read, in bytes.
const MOST_WORDS: u64 = 16 << 10;

impl Wire {
    /// The next piece of a body; a host that is silent for too long is an error.
    pub(crate) async fn chunk(
        &self,
        response: &mut Response,
        what: &str,
    ) -> Result<Option<bytes::Bytes>, RegistryError> {
        let host = authority(response.url());
        match tokio::time::timeout(self.options.idle, response.chunk()).await {
            Ok(chunk) => chunk.map_err(|problem| self.classify(&host, what, &problem)),
            Err(_) => Err(self.slow(&host, what)),
        }
    }

    /// A whole body that has at most this many bytes.
    ///
    /// # Errors
    /// [`RegistryError::TooLarge`] before more than that is read; what [`Wire::chunk`] returns.
    pub(crate) async fn body(
        &self,
        mut response: Response,
        what: &str,
        limit: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let too_large = |response: &Response| RegistryError::TooLarge {
            host: authority(response.url()),
            what: what.to_owned(),
            limit,
        };
        if response
            .content_length()
            .is_some_and(|length| length > limit)
        {
            return Err(too_large(&response));
        }
        let mut body = Vec::new();
        let mut pace = super::pace::Pace::new(&self.options);
        loop {
            let since = tokio::time::Instant::now();
            let Some(chunk) = self.chunk(&mut response, what).await? else {
                return Ok(body);
            };
            if length(&body) + length(&chunk) > limit {
                return Err(too_large(&response));
            }
            body.extend_from_slice(&chunk);
            if pace.is_too_slow(chunk.len(), since.elapsed()) {
                return Err(self.slow(&authority(response.url()), what));
            }
        }
    }

    /// What an answer that is no success says: the `errors` of the distribution specification, or
    /// nothing.
    pub(crate) async fn words(&self, response: Response) -> String {
        #[derive(serde::Deserialize)]
        struct Body {
            errors: Vec<Item>,
        }
        #[derive(serde::Deserialize)]
        struct Item {
            #[serde(default)]
            code: String,
            #[serde(default)]
            message: String,
        }
        let body = self
            .body(response, "an error", MOST_WORDS)
            .await
            .unwrap_or_default();
        let body = serde_json::from_slice::<Body>(&body).ok();
        let first = body.and_then(|body| body.errors.into_iter().next());
        first.map_or(String::new(), |it| {
            presentable(&format!("{} {}", it.code, it.message))
        })
    }
}
