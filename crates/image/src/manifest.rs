// SPDX-License-Identifier: Apache-2.0
//! Manifests and indexes, of OCI and of Docker's schema 2, read into checked values. What is read
//! is bounded, and never written again: the bytes as they came are what the digest names.
//!
//! A document must be one thing. One that could be read both as an index and as a manifest, or that
//! says another media type than it was announced with, is refused (CVE-2021-41190).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::{ImageError, Result};
use crate::platform::Platform;

/// The longest manifest, index or configuration, in bytes: what registries accept.
pub const MAX_DOCUMENT: u64 = 4 << 20;
/// The most layers of an image. overlayfs takes 500 lower directories.
pub const MAX_LAYERS: usize = 500;
/// The most entries of an index.
pub const MAX_ENTRIES: usize = 4096;
/// The largest blob, in bytes: 1 TiB.
pub const MAX_BLOB: u64 = 1 << 40;

/// The media types that are read here.
pub mod media {
    /// An OCI index.
    pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// An OCI manifest.
    pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// An OCI configuration.
    pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    /// An OCI layer; `+gzip` or `+zstd` may follow.
    pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
    /// A layer that may not be pushed elsewhere; `+gzip` or `+zstd` may follow.
    pub const FOREIGN_LAYER: &str = "application/vnd.oci.image.layer.nondistributable.v1.tar";
    /// Docker's index.
    pub const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
    /// Docker's manifest.
    pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
    /// Docker's configuration.
    pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
    /// Docker's layer; `.gzip` or `.zstd` may follow.
    pub const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
    /// Docker's layer that is had from elsewhere; `.gzip` may follow.
    pub const DOCKER_FOREIGN_LAYER: &str = "application/vnd.docker.image.rootfs.foreign.diff.tar";

    /// Every manifest and index, for a registry's `Accept`.
    pub const DOCUMENTS: [&str; 4] = [INDEX, MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST];
}

/// What content is pointed at by.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// What its bytes hash to.
    pub digest: Digest,
    /// How many bytes it has; at most [`MAX_BLOB`].
    pub size: u64,
    /// Of an entry of an index: what it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Where else it can be had; of foreign layers.
    #[serde(
        default,
        deserialize_with = "null",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub urls: Vec<String>,
    /// What its author adds.
    #[serde(
        default,
        deserialize_with = "null",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: BTreeMap<String, String>,
    /// Of a manifest that is no image: what it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
}

/// Go writes an empty list or map as `null`.
pub(crate) fn null<'de, D, T>(from: D) -> std::result::Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

impl Descriptor {
    /// With nothing but the three that every one has.
    pub fn new(media_type: impl Into<String>, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.into(),
            digest,
            size,
            platform: None,
            urls: Vec::new(),
            annotations: BTreeMap::new(),
            artifact_type: None,
        }
    }
}

/// How a layer's tar stream is packed, by its media type. The unpacker goes by the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not at all.
    None,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// What a layer's media type says; `None` where it is no layer's.
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        let layers = [
            media::LAYER,
            media::FOREIGN_LAYER,
            media::DOCKER_LAYER,
            media::DOCKER_FOREIGN_LAYER,
        ];
        let behind = layers
            .into_iter()
            .find_map(|layer| media_type.strip_prefix(layer))?;
        match behind {
            "" => Some(Self::None),
            "+gzip" | ".gzip" => Some(Self::Gzip),
            "+zstd" | ".zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// An image's manifest, or an artifact's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// Its own media type.
    pub media_type: String,
    /// The configuration.
    pub config: Descriptor,
    /// The layers, lowest first; at most [`MAX_LAYERS`].
    pub layers: Vec<Descriptor>,
    /// What it is about: of signatures and the like.
    pub subject: Option<Descriptor>,
    /// Of an artifact: what it is.
    pub artifact_type: Option<String>,
    /// What its author adds.
    pub annotations: BTreeMap<String, String>,
}

impl Manifest {
    /// Whether containers can be made of it: an image's configuration, and layers that are tar
    /// streams.
    ///
    /// # Errors
    /// [`ImageError::Document`] names the media type that isn't an image's.
    pub fn check_image(&self) -> Result<()> {
        let refuse = |problem| Err(ImageError::document("the manifest", problem));
        let config = self.config.media_type.as_str();
        if ![media::CONFIG, media::DOCKER_CONFIG].contains(&config) {
            return refuse(format!(
                "it is of an artifact, not an image: its config is {config:?}"
            ));
        }
        for layer in &self.layers {
            if Compression::of_media_type(&layer.media_type).is_none() {
                let found = &layer.media_type;
                return refuse(format!(
                    "layer {} isn't a tar stream: {found:?}",
                    layer.digest
                ));
            }
        }
        Ok(())
    }

    /// All that it points to: the configuration, then the layers.
    pub fn blobs(&self) -> impl Iterator<Item = &Descriptor> {
        std::iter::once(&self.config).chain(&self.layers)
    }
}

/// A list of manifests, one for each platform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    /// Its own media type.
    pub media_type: String,
    /// Manifests and further indexes; at most [`MAX_ENTRIES`].
    pub manifests: Vec<Descriptor>,
    /// What it is about.
    pub subject: Option<Descriptor>,
    /// What its author adds.
    pub annotations: BTreeMap<String, String>,
}

/// What a reference can point to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Document {
    /// Of several platforms.
    Index(Index),
    /// Of one.
    Manifest(Manifest),
}

impl Document {
    /// Reads a manifest or an index. `announced` is the media type that a descriptor or a
    /// registry's `Content-Type` says.
    ///
    /// # Errors
    /// [`ImageError::TooMuch`] past a bound of this module, [`ImageError::Document`] for all else
    /// that is wrong.
    pub fn parse(bytes: &[u8], announced: Option<&str>) -> Result<Self> {
        let name = format!("manifest {}", Digest::of(bytes));
        check_length(&name, bytes.len() as u64)?;
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| ImageError::document(&name, format!("it can't be read: {error}")))?;
        raw.check(announced).map_err(|problem| match problem {
            Problem::Words(words) => ImageError::document(&name, words),
            Problem::TooMany(what, limit) => ImageError::TooMuch {
                what: format!("{what} of {name}"),
                limit: limit.to_string(),
            },
        })
    }
}

/// Refuses a document that is longer than [`MAX_DOCUMENT`], before it is read.
///
/// # Errors
/// [`ImageError::TooMuch`].
pub fn check_length(name: &str, bytes: u64) -> Result<()> {
    if bytes > MAX_DOCUMENT {
        return Err(ImageError::TooMuch {
            what: format!("{name} of {bytes} bytes"),
            limit: format!("{MAX_DOCUMENT} bytes"),
        });
    }
    Ok(())
}

enum Problem {
    Words(String),
    TooMany(&'static str, usize),
}

impl From<String> for Problem {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl From<&str> for Problem {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}

/// A manifest or an index, as it came.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: u32,
    media_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    subject: Option<Descriptor>,
    artifact_type: Option<String>,
    #[serde(default, deserialize_with = "null")]
    annotations: BTreeMap<String, String>,
    /// Of schema 1 alone.
    #[serde(rename = "fsLayers")]
    fs_layers: Option<serde::de::IgnoredAny>,
}

impl Raw {
    fn check(self, announced: Option<&str>) -> std::result::Result<Document, Problem> {
        if self.schema_version == 1 || self.fs_layers.is_some() {
            return Err(
                "schema 1 has no digests that can be trusted: push the image again with a \
                        tool of after 2017"
                    .into(),
            );
        }
        if self.schema_version != 2 {
            return Err(format!("schemaVersion {} isn't 2", self.schema_version).into());
        }
        let is_index = self.is_index()?;
        let media_type = self.own_media_type(is_index, announced)?;
        if is_index {
            let manifests = bounded("entries", self.manifests.unwrap_or_default(), MAX_ENTRIES)?;
            return Ok(Document::Index(Index {
                media_type,
                manifests,
                subject: self.subject,
                annotations: self.annotations,
            }));
        }
        let config = bounded("configs", self.config.into_iter().collect(), 1)?;
        Ok(Document::Manifest(Manifest {
            media_type,
            config: config.into_iter().next().ok_or("config is missing")?,
            layers: bounded("layers", self.layers.unwrap_or_default(), MAX_LAYERS)?,
            subject: self.subject,
            artifact_type: self.artifact_type,
            annotations: self.annotations,
        }))
    }

    fn is_index(&self) -> std::result::Result<bool, Problem> {
        let index = self.manifests.is_some();
        let manifest = self.config.is_some() || self.layers.is_some();
        match (index, manifest) {
            (true, true) => Err("it has manifests and layers: it must be one of both".into()),
            (false, false) => Err("it has neither manifests nor config and layers".into()),
            (index, _) => Ok(index),
        }
    }

    fn own_media_type(
        &self,
        is_index: bool,
        announced: Option<&str>,
    ) -> std::result::Result<String, Problem> {
        // A registry that doesn't know better says one of these.
        let vague = ["application/json", "application/octet-stream", "text/plain"];
        let announced = announced
            .map(|text| text.split(';').next().unwrap_or_default().trim())
            .filter(|text| !text.is_empty() && !vague.contains(text));
        let own = self.media_type.as_deref().filter(|text| !text.is_empty());
        if let (Some(own), Some(announced)) = (own, announced)
            && own != announced
        {
            let problem =
                format!("its mediaType is {own:?}, but it was announced as {announced:?}");
            return Err(problem.into());
        }
        let (kinds, default) = match is_index {
            true => ([media::INDEX, media::DOCKER_INDEX], media::INDEX),
            false => ([media::MANIFEST, media::DOCKER_MANIFEST], media::MANIFEST),
        };
        let media_type = own.or(announced).unwrap_or(default);
        if !kinds.contains(&media_type) {
            let expected = kinds.join(" or ");
            return Err(format!("mediaType {media_type:?} isn't {expected}").into());
        }
        Ok(media_type.to_owned())
    }
}

fn bounded(
    what: &'static str,
    all: Vec<Descriptor>,
    limit: usize,
) -> std::result::Result<Vec<Descriptor>, Problem> {
    if all.len() > limit {
        return Err(Problem::TooMany(what, limit));
    }
    if let Some(large) = all.iter().find(|descriptor| descriptor.size > MAX_BLOB) {
        let problem = format!(
            "{} has a size of {} bytes: 1 TiB at most",
            large.digest, large.size
        );
        return Err(problem.into());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(media_type: &str, size: u64) -> String {
        let digest = Digest::of(b"");
        format!(r#"{{"mediaType":"{media_type}","digest":"{digest}","size":{size}}}"#)
    }

    fn manifest(layers: &[String]) -> String {
        let config = descriptor(media::CONFIG, 2);
        let layers = layers.join(",");
        format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layers}]}}"#)
    }

    fn refused(text: &str, announced: Option<&str>) -> String {
        Document::parse(text.as_bytes(), announced)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn manifests_of_both_kinds_are_read() {
        let layer = descriptor("application/vnd.oci.image.layer.v1.tar+zstd", 7);
        let text = manifest(&[layer]);
        let Ok(Document::Manifest(oci)) = Document::parse(text.as_bytes(), None) else {
            panic!("it is a manifest");
        };
        assert_eq!(oci.media_type, media::MANIFEST);
        oci.check_image().unwrap();
        let docker = Document::parse(text.as_bytes(), Some(media::DOCKER_MANIFEST)).unwrap();
        assert!(matches!(docker, Document::Manifest(m) if m.media_type == media::DOCKER_MANIFEST));
        let nulls = r#"{"schemaVersion":2,"manifests":null,"annotations":null,"config":"#;
        let nulls = format!(r#"{nulls}{},"layers":null}}"#, descriptor(media::CONFIG, 2));
        assert!(Document::parse(nulls.as_bytes(), None).is_ok());
    }

    #[test]
    fn a_document_is_one_thing() {
        let both = manifest(&[]).replacen('{', r#"{"manifests":[],"#, 1);
        assert!(refused(&both, None).contains("one of both"));
        assert!(refused(r#"{"schemaVersion":2}"#, None).contains("neither"));
        let index = r#"{"schemaVersion":2,"manifests":[]}"#;
        assert!(refused(index, Some(media::MANIFEST)).contains("isn't"));
        assert!(refused(&manifest(&[]), Some(media::INDEX)).contains("isn't"));
        let typed = format!(r#"{{"mediaType":"{}","#, media::DOCKER_MANIFEST);
        let typed = manifest(&[]).replacen('{', &typed, 1);
        assert!(refused(&typed, Some(media::MANIFEST)).contains("announced"));
        let charset = format!("{}; charset=utf-8", media::DOCKER_MANIFEST);
        assert!(Document::parse(typed.as_bytes(), Some(&charset)).is_ok());
    }

    #[test]
    fn schema_1_is_refused_by_name() {
        assert!(refused(r#"{"schemaVersion":1,"fsLayers":[]}"#, None).contains("schema 1"));
    }

    #[test]
    fn bounds_have_names() {
        let layer = descriptor(media::LAYER, 1);
        let many = manifest(&vec![layer; MAX_LAYERS + 1]);
        assert!(refused(&many, None).contains("layers of manifest sha256:"));
        let large = manifest(&[descriptor(media::LAYER, MAX_BLOB + 1)]);
        assert!(refused(&large, None).contains("1 TiB"));
        let negative = manifest(&[]).replace("\"size\":2", "\"size\":-1");
        assert!(refused(&negative, None).contains("`-1`"));
        let long = " ".repeat(MAX_DOCUMENT as usize + 1);
        assert!(matches!(
            Document::parse(long.as_bytes(), None),
            Err(ImageError::TooMuch { .. })
        ));
        let deep = "[".repeat(100_000);
        assert!(Document::parse(deep.as_bytes(), None).is_err());
    }

    #[test]
    fn an_artifact_is_no_image() {
        let text = manifest(&[descriptor("application/vnd.cncf.helm.chart", 1)]);
        let Ok(Document::Manifest(chart)) = Document::parse(text.as_bytes(), None) else {
            panic!("it is a manifest");
        };
        assert!(
            chart
                .check_image()
                .unwrap_err()
                .to_string()
                .contains("isn't a tar stream")
        );
    }
}
