// SPDX-License-Identifier: Apache-2.0
//! An image's configuration: what a container takes from it, as `config.md` of the OCI image
//! specification says, and Docker's health check. Reading is all that is done here; how requests
//! override it is the container's matter.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::digest::Digest;
use crate::error::{ImageError, Result};
use crate::manifest::{Manifest, check_length, null};
use crate::platform::Platform;

/// What a configuration says.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ImageConfig {
    /// What the image is for. Artifacts of builders may say nothing.
    pub os: String,
    /// Go's name of the architecture.
    pub architecture: String,
    /// Its variant.
    pub variant: Option<String>,
    /// When it was made, as RFC 3339 has it; not checked.
    pub created: Option<String>,
    /// What containers take.
    pub run: Run,
    /// The digests of the layers' tar streams, lowest first.
    pub diff_ids: Vec<Digest>,
}

/// What containers of the image start with. Empty where the image says nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Run {
    /// Before the arguments.
    #[serde(deserialize_with = "null")]
    pub entrypoint: Vec<String>,
    /// The arguments, or the whole command where there is no entrypoint.
    #[serde(deserialize_with = "null")]
    pub cmd: Vec<String>,
    /// `NAME=VALUE`.
    #[serde(deserialize_with = "null")]
    pub env: Vec<String>,
    /// `USER[:GROUP]`, each a name or a number.
    #[serde(deserialize_with = "null")]
    pub user: String,
    /// Absolute; `/` where it is empty.
    #[serde(deserialize_with = "null")]
    pub working_dir: String,
    /// `SIGTERM` or a number.
    #[serde(deserialize_with = "null")]
    pub stop_signal: String,
    /// Paths that want a volume.
    #[serde(deserialize_with = "keys")]
    pub volumes: BTreeSet<String>,
    /// `PORT[/PROTOCOL]`.
    #[serde(deserialize_with = "keys")]
    pub exposed_ports: BTreeSet<String>,
    /// What its author adds.
    #[serde(deserialize_with = "null")]
    pub labels: BTreeMap<String, String>,
    /// Docker's check of a running container.
    pub healthcheck: Option<Healthcheck>,
}

/// Docker's `HEALTHCHECK`. Times are nanoseconds; 0 is Docker's default.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Healthcheck {
    /// `CMD` with arguments, `CMD-SHELL` with one, or `NONE`.
    #[serde(deserialize_with = "null")]
    pub test: Vec<String>,
    /// Between two checks.
    pub interval: u64,
    /// For one check.
    pub timeout: u64,
    /// In which failures don't count.
    pub start_period: u64,
    /// Failures in a row that make it unhealthy.
    pub retries: u64,
}

/// A Go set: a map whose values say nothing.
fn keys<'de, D>(from: D) -> std::result::Result<BTreeSet<String>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let map = Option::<BTreeMap<String, IgnoredAny>>::deserialize(from)?;
    Ok(map.unwrap_or_default().into_keys().collect())
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default, deserialize_with = "null")]
    os: String,
    #[serde(default, deserialize_with = "null")]
    architecture: String,
    variant: Option<String>,
    created: Option<String>,
    #[serde(default, deserialize_with = "null")]
    config: Run,
    rootfs: Rootfs,
}

#[derive(Deserialize)]
struct Rootfs {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "null")]
    diff_ids: Vec<Digest>,
}

impl ImageConfig {
    /// Reads the configuration of an image with this manifest.
    ///
    /// # Errors
    /// [`ImageError::TooMuch`] for a document that is too long, [`ImageError::Document`] for one
    /// that can't be read, that holds a NUL where a program's argument is made of it, or that has
    /// another number of layers than the manifest.
    pub fn parse(bytes: &[u8], manifest: &Manifest) -> Result<Self> {
        let config = Self::read(bytes)?;
        let (layers, ids) = (manifest.layers.len(), config.diff_ids.len());
        if layers != ids {
            let name = format!("config {}", manifest.config.digest);
            let problem = format!("rootfs.diff_ids has {ids} entries for {layers} layers");
            return Err(ImageError::document(name, problem));
        }
        Ok(config)
    }

    /// Reads a configuration by itself, as a docker archive has it.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let name = format!("config {}", Digest::of(bytes));
        check_length(&name, bytes.len() as u64)?;
        let refuse = |problem: String| ImageError::document(&name, problem);
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| refuse(format!("it can't be read: {error}")))?;
        if raw.rootfs.kind != "layers" {
            return Err(refuse(format!(
                "rootfs.type {:?} isn't layers",
                raw.rootfs.kind
            )));
        }
        if let Some(field) = raw.config.nul() {
            return Err(refuse(format!("config.{field} holds a NUL byte")));
        }
        Ok(Self {
            os: raw.os,
            architecture: raw.architecture,
            variant: raw.variant.filter(|variant| !variant.is_empty()),
            created: raw.created,
            run: raw.config,
            diff_ids: raw.rootfs.diff_ids,
        })
    }

    /// What the image is for.
    pub fn platform(&self) -> Platform {
        Platform {
            os: self.os.clone(),
            architecture: self.architecture.clone(),
            variant: self.variant.clone(),
            os_version: None,
        }
        .normalised()
    }
}

impl Run {
    /// The first field with a text that no program could be given.
    fn nul(&self) -> Option<&'static str> {
        let all = |texts: &[String]| texts.iter().any(|text| text.contains('\0'));
        let has = [
            ("Entrypoint", all(&self.entrypoint)),
            ("Cmd", all(&self.cmd)),
            ("Env", all(&self.env)),
            ("User", self.user.contains('\0')),
            ("WorkingDir", self.working_dir.contains('\0')),
            (
                "Volumes",
                self.volumes.iter().any(|path| path.contains('\0')),
            ),
        ];
        has.into_iter()
            .find(|(_, has)| *has)
            .map(|(field, _)| field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Descriptor;

    fn manifest(layers: usize) -> Manifest {
        let descriptor = Descriptor::new("x", Digest::of(b""), 0);
        Manifest {
            media_type: String::new(),
            config: descriptor.clone(),
            layers: vec![descriptor; layers],
            subject: None,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }

    fn text(config: &str, ids: usize) -> String {
        let ids = vec![format!("\"{}\"", Digest::of(b"")); ids].join(",");
        format!(
            r#"{{"os":"linux","architecture":"arm","variant":"v7","config":{config},
                "rootfs":{{"type":"layers","diff_ids":[{ids}]}},"history":[{{"empty_layer":true}}]}}"#
        )
    }

    #[test]
    fn a_configuration_is_read_whole() {
        let config = r#"{"Entrypoint":["/e"],"Cmd":["a"],"Env":["A=b"],"User":"1:2",
            "WorkingDir":"/w","StopSignal":"SIGQUIT","Volumes":{"/v":{}},
            "ExposedPorts":{"80/tcp":{},"53":{}},"Labels":{"k":"v"},
            "Healthcheck":{"Test":["CMD","x"],"Interval":5},"ArgsEscaped":true}"#;
        let read = ImageConfig::parse(text(config, 2).as_bytes(), &manifest(2)).unwrap();
        assert_eq!(read.platform().to_string(), "linux/arm/v7");
        assert_eq!(read.run.entrypoint, ["/e"]);
        assert_eq!(read.run.stop_signal, "SIGQUIT");
        assert!(read.run.volumes.contains("/v"));
        assert_eq!(
            read.run.exposed_ports.iter().collect::<Vec<_>>(),
            ["53", "80/tcp"]
        );
        assert_eq!(read.run.healthcheck.unwrap().interval, 5);
        assert_eq!(read.diff_ids.len(), 2);
    }

    #[test]
    fn nulls_and_missing_fields_are_empty() {
        for config in [
            "null",
            "{}",
            r#"{"Entrypoint":null,"Env":null,"Volumes":null,"User":null}"#,
        ] {
            let read = ImageConfig::parse(text(config, 0).as_bytes(), &manifest(0)).unwrap();
            assert_eq!(read.run, Run::default(), "{config}");
        }
    }

    #[test]
    fn what_lies_is_refused() {
        let refused = |text: &str| {
            ImageConfig::parse(text.as_bytes(), &manifest(1))
                .unwrap_err()
                .to_string()
        };
        assert!(refused(&text("{}", 2)).contains("2 entries for 1 layers"));
        assert!(refused(&text(r#"{"Env":["A=\u0000"]}"#, 1)).contains("config.Env"));
        assert!(refused(&text("{}", 1).replace("layers", "chunks")).contains("rootfs.type"));
        assert!(refused("{}").contains("rootfs"));
    }
}
