// SPDX-License-Identifier: Apache-2.0
//! Configs, and what pods are given of them, from the wire and back.

use model::error::{Error, Result};
use model::name::Tenant;
use model::schedule::given::{Config, Given, Kind, Place, Texts};
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

/// The request of `PutConfig` in the form that a node gives its parts back in.
///
/// # Errors
/// As [`put`], and for the tenant.
pub fn normal_config(own: &str, message: wire::PutConfigRequest) -> Result<wire::PutConfigRequest> {
    let tenant = message.tenant.clone();
    let put = put(&parse("tenant", own)?, message)?;
    let (kind, name) = to_name(&put.named.config);
    Ok(wire::PutConfigRequest {
        tenant,
        kind: kind.into(),
        name,
        data: put.data,
        immutable: put.immutable,
    })
}

/// How much of a config's texts is told.
#[derive(Clone, Copy)]
pub enum Told<'a> {
    /// None: what was put, and lists.
    Keys,
    /// All; of a secret those that were asked about and are its own.
    Texts(&'a Texts),
}

/// Stands in the place of a text that isn't told.
const HIDDEN: &str = "(hidden)";

/// What is shown of a config.
pub struct Kept<'a> {
    /// The config's tenant, kind and name.
    pub named: &'a NamedConfig,
    /// Its texts.
    pub data: &'a Texts,
    /// How much of them is told.
    pub told: Told<'a>,
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
    let data = match kept.told {
        Told::Keys => Texts::new(),
        Told::Texts(asked) if kept.named.config.kind == Kind::Secret => hidden(kept.data, asked),
        Told::Texts(_) => kept.data.clone(),
    };
    wire::Config {
        tenant: kept.named.tenant.to_string(),
        kind: to_kind(kept.named.config.kind).into(),
        name: kept.named.config.name.to_string(),
        data,
        keys: kept.data.keys().cloned().collect(),
        immutable: kept.immutable,
        generation: kept.generation,
        changed: Some(to_timestamp(kept.changed)),
        owner: kept.owner.clone(),
    }
}

/// A secret's texts for one who says what he takes them for: what isn't so is something else than
/// what he says.
fn hidden(data: &Texts, asked: &Texts) -> Texts {
    let told = |key: &String, text: &String| match asked.get(key) {
        Some(same) if same == text => text.clone(),
        Some(other) if other == HIDDEN => String::new(),
        _ => HIDDEN.to_owned(),
    };
    let told = data
        .iter()
        .map(|(key, text)| (key.clone(), told(key, text)));
    told.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<const N: usize>(of: [(&str, &str); N]) -> Texts {
        let of = of.map(|(key, text)| (key.to_owned(), text.to_owned()));
        of.into_iter().collect()
    }

    #[test]
    fn a_secret_says_which_texts_are_its_own_and_tells_none() {
        let own = texts([("a", "one"), ("b", "two")]);
        let all = texts([("a", "(hidden)"), ("b", "(hidden)")]);
        assert_eq!(hidden(&own, &Texts::new()), all);
        assert_eq!(hidden(&own, &own), own);
        let other = texts([("a", "one"), ("b", "three"), ("c", "four")]);
        assert_eq!(
            hidden(&own, &other),
            texts([("a", "one"), ("b", "(hidden)")])
        );
        // Who says what stands in a text's place isn't told that it is so.
        assert_ne!(hidden(&own, &all), all);
        assert!(!format!("{:?}", hidden(&own, &all)).contains("one"));
    }
}
