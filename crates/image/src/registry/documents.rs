// SPDX-License-Identifier: Apache-2.0
//! Manifests and indexes of a repository: looked at by HEAD, fetched whole and bounded, and checked
//! against their digest (distribution specification, "Pulling manifests"; referrers: "Listing
//! Referrers"). They are fetched each time, also where the store has them: that they come is the
//! registry's leave to read what they name.

use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::Response;

use super::error::RegistryError;
use super::session::Session;
use crate::digest::{Digest, Hasher};
use crate::manifest::{Descriptor, Document, MAX_DOCUMENT, media};

/// The header in which a registry names the digest.
const CONTENT_DIGEST: &str = "docker-content-digest";
/// Docker's manifests of version 1, with and without signatures.
const SCHEMA_ONE: [&str; 2] = [
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
];

/// A manifest or an index as it came, with what its bytes are.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) descriptor: Descriptor,
    pub(crate) bytes: Vec<u8>,
    pub(crate) document: Document,
}

impl Session {
    /// What a tag or digest points to, without fetching it; `None` where the registry names no
    /// digest, or does not answer HEAD.
    ///
    /// # Errors
    /// What keeps the registry from answering; [`RegistryError::NotFound`].
    pub(crate) async fn head_manifest(
        &self,
        wanted: &str,
    ) -> Result<Option<Digest>, RegistryError> {
        let ask = self.ask(Method::HEAD, &format!("manifests/{wanted}"), accept())?;
        match self.send(&ask).await {
            Ok(response) => self.named_digest(&ask.what, &response),
            Err(problem) if problem.status() == Some(405) => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// Fetches a manifest or an index by its tag or digest.
    ///
    /// # Errors
    /// [`RegistryError::TooLarge`] past [`MAX_DOCUMENT`]; [`RegistryError::Lie`] where it isn't
    /// what was asked for; [`RegistryError::SchemaOne`]; what `Document::parse` refuses.
    pub(crate) async fn manifest(
        &self,
        wanted: &str,
        expected: Option<&Digest>,
    ) -> Result<Fetched, RegistryError> {
        let ask = self.ask(Method::GET, &format!("manifests/{wanted}"), accept())?;
        let response = self.send(&ask).await?;
        let media_type = media_type(&response);
        if media_type
            .as_deref()
            .is_some_and(|it| SCHEMA_ONE.contains(&it))
        {
            return Err(RegistryError::SchemaOne { what: ask.what });
        }
        let named = self.named_digest(&ask.what, &response)?;
        let bytes = self.wire.body(response, &ask.what, MAX_DOCUMENT).await?;
        let digest = self.check(&bytes, expected.or(named.as_ref()))?;
        if is_schema_one(&bytes) {
            return Err(RegistryError::SchemaOne { what: ask.what });
        }
        let announced = media_type
            .as_deref()
            .filter(|it| media::DOCUMENTS.contains(it));
        let document = Document::parse(&bytes, announced)?;
        let own = match &document {
            Document::Index(index) => &index.media_type,
            Document::Manifest(manifest) => &manifest.media_type,
        };
        let descriptor = Descriptor::new(own, digest, super::wire::length(&bytes));
        Ok(Fetched {
            descriptor,
            bytes,
            document,
        })
    }

    /// What refers to a manifest: signatures, attestations. Registries without that API are asked
    /// for the tag that the specification names for them. Empty where there is nothing.
    ///
    /// # Errors
    /// What keeps the registry from answering, or an answer that is no index.
    pub(crate) async fn referrers(
        &self,
        subject: &Digest,
    ) -> Result<Vec<Descriptor>, RegistryError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(media::INDEX));
        let ask = self.ask(Method::GET, &format!("referrers/{subject}"), headers)?;
        let document = match self.send(&ask).await {
            Ok(response) => {
                let bytes = self.wire.body(response, &ask.what, MAX_DOCUMENT).await?;
                Document::parse(&bytes, Some(media::INDEX))?
            }
            Err(RegistryError::NotFound { .. }) => {
                match self.manifest(&referrers_tag(subject), None).await {
                    Ok(fetched) => fetched.document,
                    Err(RegistryError::NotFound { .. }) => return Ok(Vec::new()),
                    Err(problem) => return Err(problem),
                }
            }
            Err(problem) => return Err(problem),
        };
        match document {
            Document::Index(index) => Ok(index.manifests),
            Document::Manifest(_) => Err(self.malformed(&ask.what, "a manifest, not an index")),
        }
    }

    /// Stores a manifest or an index under its tag or digest.
    ///
    /// # Errors
    /// What keeps the registry from taking it; [`RegistryError::Lie`] where it took another one.
    pub(crate) async fn put_manifest(
        &self,
        wanted: &str,
        descriptor: &Descriptor,
        bytes: bytes::Bytes,
    ) -> Result<(), RegistryError> {
        let mut ask = self.ask(
            Method::PUT,
            &format!("manifests/{wanted}"),
            HeaderMap::new(),
        )?;
        let media_type = HeaderValue::try_from(descriptor.media_type.as_str());
        let wrong = |_| self.malformed(&ask.what, "a media type that no header can have");
        let media_type = media_type.map_err(wrong)?;
        ask.headers.insert(CONTENT_TYPE, media_type);
        ask.payload = super::payload::Payload::Bytes(bytes);
        let response = self.send(&ask).await?;
        match self.named_digest(&ask.what, &response)? {
            Some(found) if found != descriptor.digest => Err(RegistryError::Lie {
                host: self.host.name.clone(),
                digest: descriptor.digest.clone(),
                problem: format!("it stored it as {found}"),
            }),
            _ => Ok(()),
        }
    }

    fn named_digest(
        &self,
        what: &str,
        response: &Response,
    ) -> Result<Option<Digest>, RegistryError> {
        let Some(header) = response.headers().get(CONTENT_DIGEST) else {
            return Ok(None);
        };
        let digest = header.to_str().ok().and_then(|it| it.parse().ok());
        let wrong = || self.malformed(what, "its Docker-Content-Digest is no digest");
        digest.ok_or_else(wrong).map(Some)
    }

    /// The digest of what came, by the algorithm of what was expected.
    fn check(&self, bytes: &[u8], expected: Option<&Digest>) -> Result<Digest, RegistryError> {
        let Some(expected) = expected else {
            return Ok(Digest::of(bytes));
        };
        let mut hasher = Hasher::new(expected.algorithm());
        hasher.update(bytes);
        let found = hasher.finish();
        if found == *expected {
            return Ok(found);
        }
        Err(RegistryError::Lie {
            host: self.host.name.clone(),
            digest: expected.clone(),
            problem: format!("it sent a document with the digest {found}"),
        })
    }
}

/// The tag under which registries without the API keep an index of what refers to a manifest
/// ("Referrers Tag Schema"): a tag has at most 64 characters of the hash.
fn referrers_tag(subject: &Digest) -> String {
    let hex = subject.hex();
    let hex = hex.get(..64).unwrap_or(hex);
    format!("{}-{hex}", subject.algorithm().as_str())
}

fn accept() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for media_type in media::DOCUMENTS {
        headers.append(ACCEPT, HeaderValue::from_static(media_type));
    }
    headers
}

/// The media type without its parameters.
fn media_type(response: &Response) -> Option<String> {
    let header = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let media_type = header.split(';').next().unwrap_or_default().trim();
    Some(media_type.to_ascii_lowercase())
}

/// Whether it says so itself: registries send version 1 under other media types, too.
fn is_schema_one(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        schema_version: u32,
    }
    serde_json::from_slice::<Version>(bytes).is_ok_and(|it| it.schema_version == 1)
}
