// SPDX-License-Identifier: Apache-2.0
//! Texts that pods are given from elsewhere: Kubernetes' ConfigMaps and Secrets, kept beside the
//! schedules. A pod's spec names them; they are put in when a run begins, so that no spec shows a
//! secret, and those in files again when they have changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::spec::Work;
use crate::error::{Error, Result};
use crate::name::Label;
use crate::pod::PodSpec;
use crate::pod::env::{EnvVar, From};
use crate::pod::spec::Draft;
use crate::pod::volume::Source;

/// The most places of one pod that are given something.
pub const MAX_GIVEN: usize = 64;
/// The most that one config may hold, keys and texts, in bytes: 1 MiB, as of one of Kubernetes'.
pub const MAX_CONFIG: usize = 1 << 20;

/// Of which kind a config is; each has names of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It can be read.
    ConfigMap,
    /// It is never shown.
    Secret,
}

impl Kind {
    /// Kubernetes' word.
    pub fn word(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// Which config.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Of which kind.
    pub kind: Kind,
    /// Of the tenant.
    pub name: Label,
}

impl std::fmt::Display for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.word(), self.name)
    }
}

/// What a pod is given, and where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Given {
    /// From there.
    pub config: Config,
    /// Nothing is given where it, or the key, isn't there. Otherwise no run begins.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub optional: bool,
    /// To this place.
    pub place: Place,
}

/// A place in a pod's spec.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A variable that the container's spec has; what it says there is nothing.
    Env {
        /// The container.
        container: String,
        /// The variable.
        name: String,
        /// The key of its text.
        key: String,
    },
    /// A variable for each key, where the container's spec has none of the name.
    EnvAll {
        /// The container.
        container: String,
        /// Before each name.
        prefix: String,
    },
    /// The files of a volume that the spec has.
    Volume {
        /// The volume.
        name: String,
        /// Keys and paths; none: a file for each key.
        items: BTreeMap<String, String>,
    },
}

/// Texts by key.
pub type Texts = BTreeMap<String, String>;

/// The configs that a pod is given.
pub fn mentioned(work: &Work) -> impl Iterator<Item = &Given> {
    let given = match work {
        Work::Pod { given, .. } => given.as_slice(),
        Work::Executable { .. } | Work::Cell { .. } => &[],
    };
    given.iter()
}

/// Checks that each place is there.
///
/// # Errors
/// `INVALID_FIELD`, below `given`.
pub(super) fn check(spec: &PodSpec, given: &[Given]) -> Result<()> {
    if given.len() > MAX_GIVEN {
        let problem = format!("has more than {MAX_GIVEN} entries");
        return Err(Error::invalid("given", problem));
    }
    for (i, it) in given.iter().enumerate() {
        let wrong = |problem: String| Err(Error::invalid(format!("given[{i}]"), problem));
        match &it.place {
            Place::Env {
                container, name, ..
            } => {
                let found = spec.container(container);
                let has = |found: &crate::pod::spec::Container| {
                    found.env.iter().any(|it| it.name == *name)
                };
                if !found.is_some_and(has) {
                    return wrong(format!("names {name} of {container}, which isn't there"));
                }
            }
            Place::EnvAll { container, .. } => {
                if spec.container(container).is_none() {
                    return wrong(format!(
                        "names the container {container}, which isn't there"
                    ));
                }
            }
            Place::Volume { name, .. } => {
                let files = spec.volumes.iter().any(|volume| {
                    volume.name == *name && matches!(volume.source, Source::Files(_))
                });
                if !files {
                    return wrong(format!("names {name}, which is no volume with files"));
                }
            }
        }
    }
    Ok(())
}

/// The pod with what it is given.
///
/// # Errors
/// `NOT_FOUND`: a config or a key isn't there. `INVALID_FIELD`: the pod can't have the texts.
pub fn filled(
    spec: &PodSpec,
    given: &[Given],
    texts: impl Fn(&Config) -> Option<Texts>,
) -> Result<PodSpec> {
    let mut draft: Draft = spec.clone().into();
    let mut first: BTreeMap<String, Vec<EnvVar>> = BTreeMap::new();
    for it in given {
        let all = match texts(&it.config) {
            Some(all) => all,
            None if it.optional => Texts::new(),
            None => return Err(missing(&it.config)),
        };
        let secret = it.config.kind == Kind::Secret;
        match &it.place {
            Place::Env {
                container,
                name,
                key,
            } => {
                let text = found(&all, key, it)?;
                set(&mut draft, container, name, text, secret);
            }
            Place::EnvAll { container, prefix } => {
                let vars = first.entry(container.clone()).or_default();
                for (key, text) in &all {
                    let name = format!("{prefix}{key}");
                    vars.retain(|it| it.name != name);
                    vars.push(fixed(name, text, secret));
                }
            }
            Place::Volume { name, items } => fill_volume(&mut draft, name, items, &all, it)?,
        }
    }
    for (name, mut vars) in first {
        if let Some(container) = container(&mut draft, &name) {
            vars.retain(|var| container.env.iter().all(|it| it.name != var.name));
            vars.append(&mut container.env);
            container.env = vars;
        }
    }
    draft.try_into()
}

fn missing(config: &Config) -> Error {
    Error::not_found("config", config.to_string())
}

fn found<'a>(all: &'a Texts, key: &str, given: &Given) -> Result<Option<&'a String>> {
    match all.get(key) {
        None if !given.optional => {
            let what = format!("{key} of {}", given.config);
            Err(Error::not_found("config", what))
        }
        text => Ok(text),
    }
}

fn container<'a>(draft: &'a mut Draft, name: &str) -> Option<&'a mut crate::pod::spec::Container> {
    let all = draft
        .init_containers
        .iter_mut()
        .chain(&mut draft.containers);
    all.into_iter().find(|it| it.name == name)
}

/// A text that is not expanded.
fn fixed(name: String, text: &str, secret: bool) -> EnvVar {
    let text = text.replace('$', "$$");
    let from = match secret {
        true => From::Secret(text),
        false => From::Value(text),
    };
    EnvVar { name, from }
}

fn set(draft: &mut Draft, of: &str, name: &str, text: Option<&String>, secret: bool) {
    let Some(container) = container(draft, of) else {
        return;
    };
    match text {
        Some(text) => {
            for var in container.env.iter_mut().filter(|it| it.name == name) {
                *var = fixed(name.to_owned(), text, secret);
            }
        }
        None => container.env.retain(|it| it.name != name),
    }
}

fn fill_volume(
    draft: &mut Draft,
    name: &str,
    items: &BTreeMap<String, String>,
    all: &Texts,
    given: &Given,
) -> Result<()> {
    let mut volumes = draft.volumes.iter_mut();
    let Some(volume) = volumes.find(|it| it.name == *name) else {
        return Ok(());
    };
    let Source::Files(files) = &mut volume.source else {
        return Ok(());
    };
    // One secret hides all: who reads the volume's texts reads its.
    files.secret |= given.config.kind == Kind::Secret;
    let mut put =
        |path: &String, text: &String| match files.files.insert(path.clone(), text.clone()) {
            None => Ok(()),
            Some(_) => {
                let field = format!("volumes[{name:?}].files.files[{path:?}]");
                let problem = format!("is another's already: {} has it, too", given.config);
                let hint = "say by `items` which keys are taken, and as which files";
                Err(Error::invalid(field, problem).hint(hint))
            }
        };
    match items.is_empty() {
        true => all.iter().try_for_each(|(key, text)| put(key, text)),
        false => items
            .iter()
            .try_for_each(|(key, path)| match found(all, key, given)? {
                Some(text) => put(path, text),
                None => Ok(()),
            }),
    }
}
