// SPDX-License-Identifier: Apache-2.0
//! Configs, and what pods are given of them, from the wire and back.

use model::error::{Error, Result};
use model::name::Tenant;
use model::schedule::given::{Config, Given, Kind, Place};
use model::schedule::manifest::ReadConfig;
use model::schedule::request::{NamedConfig, PutConfig};
use model::time::Timestamp;

use crate::convert::scalar::{enumeration, maybe_parse, parse, required, to_timestamp};
use crate::schedule::v0 as wire;

fn kind(number: i32) -> Result<Kind> {
    Ok(match enumeration("kind", number)? {
        wire::ConfigKind::Unspecified | wire::ConfigKind::ConfigMap => Kind::ConfigMap,
        wire::ConfigKind::Secret => Kind::Secret,
    })
}

fn to_kind(kind: Kind) -> wire::ConfigKind {
    match kind {
        Kind::ConfigMap => wire::ConfigKind::ConfigMap,
        Kind::Secret => wire::ConfigKind::Secret,
    }
}

/// Checks the name of a config.
///
/// # Errors
/// `INVALID_FIELD`: the tenant, the kind or the name is malformed.
pub fn config(own: &Tenant, tenant: &str, of: i32, name: &str) -> Result<NamedConfig> {
    Ok(NamedConfig {
        tenant: maybe_parse("tenant", tenant)?.unwrap_or_else(|| own.clone()),
        config: Config {
            kind: kind(of)?,
            name: parse("name", name)?,
        },
    })
}

/// Checks the request of `PutConfig`.
///
/// # Errors
/// `INVALID_FIELD`: its name is malformed, or its texts are too long.
pub fn put(own: &Tenant, message: wire::PutConfigRequest) -> Result<PutConfig> {
    let named = config(own, &message.tenant, message.kind, &message.name)?;
    PutConfig::new(named, message.data, message.immutable)
}

/// What is shown of a config.
pub struct Kept<'a> {
    /// Which.
    pub named: &'a NamedConfig,
    /// Its texts.
    pub data: &'a model::schedule::given::Texts,
    /// Whether the texts are told, of what is no secret.
    pub whole: bool,
    /// It can't be changed.
    pub immutable: bool,
    /// How often it was put.
    pub generation: u64,
    /// When last.
    pub changed: Timestamp,
    /// By whom, as TENANT/USER.
    pub owner: String,
}

/// The message of a config.
pub fn to_config(kept: &Kept<'_>) -> wire::Config {
    let shown = kept.whole && kept.named.config.kind != Kind::Secret;
    wire::Config {
        tenant: kept.named.tenant.to_string(),
        kind: to_kind(kept.named.config.kind).into(),
        name: kept.named.config.name.to_string(),
        data: match shown {
            true => kept.data.clone(),
            false => Default::default(),
        },
        keys: kept.data.keys().cloned().collect(),
        immutable: kept.immutable,
        generation: kept.generation,
        changed: Some(to_timestamp(kept.changed)),
        owner: kept.owner.clone(),
    }
}

/// The request that puts a config that was read, of that tenant; empty: the caller's own.
pub fn to_put(tenant: String, read: &ReadConfig) -> wire::PutConfigRequest {
    let (kind, name) = to_name(&read.config);
    wire::PutConfigRequest {
        tenant,
        kind: kind.into(),
        name,
        data: read.data.clone(),
        immutable: read.immutable,
    }
}

/// The kind and the name of a config, as messages have them.
pub fn to_name(config: &Config) -> (wire::ConfigKind, String) {
    (to_kind(config.kind), config.name.to_string())
}

pub(super) fn given(message: wire::Given) -> Result<Given> {
    use wire::given::Place as Wire;
    let text = |field: &str, text: String| match text.is_empty() {
        true => Err(Error::invalid(field, "is required")),
        false => Ok(text),
    };
    let place = match required("place", message.place)? {
        Wire::Variable(it) => Place::Env {
            container: text("variable.container", it.container)?,
            name: text("variable.name", it.name)?,
            key: text("variable.key", it.key)?,
        },
        Wire::Variables(it) => Place::EnvAll {
            container: text("variables.container", it.container)?,
            prefix: it.prefix,
        },
        Wire::Files(it) => Place::Volume {
            name: text("files.volume", it.volume)?,
            items: it.items,
        },
    };
    Ok(Given {
        config: Config {
            kind: kind(message.kind)?,
            name: parse("config", &message.config)?,
        },
        optional: message.optional,
        place,
    })
}

pub(super) fn to_given(given: &Given) -> wire::Given {
    use wire::given::Place as Wire;
    let place = match &given.place {
        Place::Env {
            container,
            name,
            key,
        } => Wire::Variable(wire::GivenVariable {
            container: container.clone(),
            name: name.clone(),
            key: key.clone(),
        }),
        Place::EnvAll { container, prefix } => Wire::Variables(wire::GivenVariables {
            container: container.clone(),
            prefix: prefix.clone(),
        }),
        Place::Volume { name, items } => Wire::Files(wire::GivenFiles {
            volume: name.clone(),
            items: items.clone(),
        }),
    };
    wire::Given {
        kind: to_kind(given.config.kind).into(),
        config: given.config.name.to_string(),
        optional: given.optional,
        place: Some(place),
    }
}
