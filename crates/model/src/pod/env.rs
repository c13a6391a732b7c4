// SPDX-License-Identifier: Apache-2.0
//! The environment of a container: values, facts of the pod, and variables made of others, as
//! Kubernetes expands them (`$(NAME)`; `$$` is `$`; an unknown name stays as it is written).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::spec::Container;
use crate::error::{Error, Result};
use crate::executable::MAX_PROGRAM_WEIGHT;
use crate::label::Labels;

/// One variable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EnvVar {
    /// Without `=`.
    pub name: String,
    /// What it says.
    pub from: From,
}

/// What a variable says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// A text with variables in it.
    Value(String),
    /// The same, which is never shown.
    Secret(String),
    /// A fact.
    Fact(Fact),
    /// What that label of the pod says when the program starts; empty: the pod hasn't got it.
    Label(String),
}

/// Something that a container can be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The last label of the pod's path.
    PodName,
    /// The pod's tenant.
    Tenant,
    /// The pod's uid.
    PodUid,
    /// The node's name.
    NodeName,
    /// Whole CPUs, rounded up.
    CpuLimit,
    /// Whole CPUs, rounded up.
    CpuRequest,
    /// The container's memory limit in bytes.
    MemoryLimit,
    /// The container's memory request in bytes.
    MemoryRequest,
    /// What may be written to the container's root, in bytes.
    StorageLimit,
    /// The pod's first address.
    PodIp,
    /// All of them, divided by commas.
    PodIps,
    /// The node's first address.
    HostIp,
    /// All of them, divided by commas.
    HostIps,
}

/// What facts are made of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// The last label of the pod's path.
    pub pod_name: String,
    /// The pod's tenant.
    pub tenant: String,
    /// The pod's uid.
    pub pod_uid: String,
    /// The node's name.
    pub node_name: String,
    /// The pod's addresses, IPv6 first; the node's where it has the node's network.
    pub pod_ips: Vec<IpAddr>,
    /// What the node sends to the world with, IPv6 first.
    pub host_ips: Vec<IpAddr>,
    /// The pod's labels.
    pub labels: Labels,
}

impl Facts {
    pub(super) fn text(&self, fact: Fact, container: &Container) -> String {
        let first = |ips: &[IpAddr]| ips.first().map(IpAddr::to_string).unwrap_or_default();
        let all = |ips: &[IpAddr]| {
            let texts: Vec<_> = ips.iter().map(IpAddr::to_string).collect();
            texts.join(",")
        };
        match fact {
            Fact::PodName => self.pod_name.clone(),
            Fact::Tenant => self.tenant.clone(),
            Fact::PodUid => self.pod_uid.clone(),
            Fact::NodeName => self.node_name.clone(),
            Fact::PodIp => first(&self.pod_ips),
            Fact::PodIps => all(&self.pod_ips),
            Fact::HostIp => first(&self.host_ips),
            Fact::HostIps => all(&self.host_ips),
            Fact::CpuLimit
            | Fact::CpuRequest
            | Fact::MemoryLimit
            | Fact::MemoryRequest
            | Fact::StorageLimit => {
                let amount = fact.amount(container).unwrap_or_default();
                amount.divided(None).to_string()
            }
        }
    }
}

/// What a container may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Amount {
    /// In thousandths of a CPU, or in bytes. 0: it has none.
    number: u64,
    /// How many are one, where nothing is said.
    unit: u64,
}

impl Amount {
    /// Whole units, rounded up as Kubernetes does it; a unit of 0 is the usual one.
    pub(super) fn divided(self, unit: Option<u64>) -> u64 {
        let unit = unit.filter(|unit| *unit > 0).unwrap_or(self.unit);
        self.number.div_ceil(unit.max(1))
    }
}

impl Fact {
    /// What a container may take; `None`: it is a fact of something else.
    pub(super) fn amount(self, container: &Container) -> Option<Amount> {
        let needs = &container.needs;
        let (number, unit) = match self {
            Self::CpuLimit => (needs.cpu_limit_millis, 1000),
            Self::CpuRequest => (needs.cpu_request(), 1000),
            Self::MemoryLimit => (needs.memory_limit_bytes, 1),
            Self::MemoryRequest => (needs.memory_request(), 1),
            Self::StorageLimit => {
                let root = container.root();
                (root.map(|root| root.effective_root_bytes()), 1)
            }
            _ => return None,
        };
        let number = number.unwrap_or(0);
        Some(Amount { number, unit })
    }
}

/// What a container's program gets: its environment, entrypoint and arguments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Expanded {
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The entrypoint.
    pub entrypoint: Vec<String>,
    /// The arguments.
    pub args: Vec<String>,
    /// Variables that are never shown: secrets, and what is made of them.
    pub secret: BTreeSet<String>,
}

/// Whether a variable is a secret, or made of one.
fn hides(from: &From, secret: &BTreeSet<String>) -> bool {
    match from {
        From::Secret(_) => true,
        From::Value(text) => secret.iter().any(|it| text.contains(&format!("$({it})"))),
        From::Fact(_) | From::Label(_) => false,
    }
}

/// Fills facts and variables in.
///
/// # Errors
/// `INVALID_FIELD` where that takes more than a program may have: a few variables of variables can
/// stand for more than a machine holds.
pub fn expand(container: &Container, facts: &Facts) -> Result<Expanded> {
    let mut left = MAX_PROGRAM_WEIGHT;
    let told = |from: &From| match from {
        From::Fact(fact) => facts.text(*fact, container),
        From::Label(key) => facts.labels.get(key).unwrap_or_default().to_owned(),
        From::Value(_) | From::Secret(_) => String::new(),
    };
    let (env, secret) = environment(container, &told, &mut left)?;
    let mut words = |words: &[String]| -> Result<Vec<String>> {
        let words = words.iter();
        words.map(|word| replaced(word, &env, &mut left)).collect()
    };
    Ok(Expanded {
        entrypoint: words(&container.entrypoint)?,
        args: words(&container.args)?,
        env,
        secret,
    })
}

/// The variables of a container with those that are secrets, of at most `left` bytes. `told`: what
/// facts and labels are.
pub(super) fn environment(
    container: &Container,
    told: &dyn Fn(&From) -> String,
    left: &mut usize,
) -> Result<(BTreeMap<String, String>, BTreeSet<String>)> {
    let mut env = BTreeMap::new();
    let mut secret = BTreeSet::new();
    for variable in &container.env {
        if hides(&variable.from, &secret) {
            secret.insert(variable.name.clone());
        }
        let value = match &variable.from {
            From::Value(text) | From::Secret(text) => replaced(text, &env, left)?,
            from => told(from),
        };
        env.insert(variable.name.clone(), value);
    }
    Ok((env, secret))
}

/// A text whose `$(NAME)` are replaced, of at most `left` bytes; they are taken off.
fn replaced(text: &str, env: &BTreeMap<String, String>, left: &mut usize) -> Result<String> {
    let done = filled(text, env, *left, &mut |_| {});
    match left.checked_sub(done.len()) {
        Some(rest) => {
            *left = rest;
            Ok(done)
        }
        None => Err(Error::invalid(
            "env",
            format!("takes more than {MAX_PROGRAM_WEIGHT} bytes with its variables filled in"),
        )),
    }
}

/// Stops soon after `most` bytes. `named` is told each name that is asked for.
pub(super) fn filled(
    text: &str,
    env: &BTreeMap<String, String>,
    most: usize,
    named: &mut dyn FnMut(&str),
) -> String {
    let mut done = String::new();
    let mut rest = text;
    while done.len() <= most
        && let Some((before, after)) = rest.split_once('$')
    {
        done.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            done.push('$');
            rest = after;
            continue;
        }
        let variable = rest.strip_prefix('(').and_then(|it| it.split_once(')'));
        if let Some((name, _)) = variable {
            named(name);
        }
        match variable {
            Some((name, after)) if env.contains_key(name) => {
                done.push_str(env.get(name).map_or("", String::as_str));
                rest = after;
            }
            _ => done.push('$'),
        }
    }
    done.push_str(rest);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::spec::Needs;

    #[test]
    fn variables_are_expanded_as_kubernetes_documents_it() {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expected) in [
            ("x$(A)y", "x1y"),
            ("$$(A)", "$(A)"),
            ("$(B)", "$(B)"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("$", "$"),
            ("$$$(A)", "$1"),
        ] {
            assert_eq!(filled(text, &env, 100, &mut |_| {}), expected, "{text}");
        }
    }

    /// Twelve lines of spec that stand for more than a machine holds.
    #[test]
    fn variables_of_variables_are_bounded() {
        let mut env = vec![EnvVar {
            name: "V0".to_owned(),
            from: From::Value("x".repeat(1024)),
        }];
        for i in 1..12 {
            env.push(EnvVar {
                name: format!("V{i}"),
                from: From::Value(format!("$(V{})", i - 1).repeat(10)),
            });
        }
        let container = Container {
            env,
            ..Container::default()
        };
        let error = expand(&container, &Facts::default()).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("env"));
    }

    #[test]
    fn a_variable_is_made_of_those_before_it_and_of_facts() {
        let value = |name: &str, text: &str| EnvVar {
            name: name.to_owned(),
            from: From::Value(text.to_owned()),
        };
        let fact = |name: &str, fact| EnvVar {
            name: name.to_owned(),
            from: From::Fact(fact),
        };
        let label = |name: &str, key: &str| EnvVar {
            name: name.to_owned(),
            from: From::Label(key.to_owned()),
        };
        let container = Container {
            env: vec![
                value("LATE", "$(NAME)"),
                fact("NAME", Fact::PodName),
                fact("CPUS", Fact::CpuLimit),
                fact("BYTES", Fact::MemoryRequest),
                label("APP", "app"),
                label("NONE", "none"),
                value("ALL", "$(NAME)-$(CPUS)-$(BYTES)-$(APP)$(NONE)"),
            ],
            args: vec!["$(ALL)".to_owned()],
            needs: Needs {
                cpu_limit_millis: Some(1500),
                memory_limit_bytes: Some(64),
                ..Needs::default()
            },
            ..Container::default()
        };
        let facts = Facts {
            pod_name: "web".to_owned(),
            labels: Labels::new([("app".to_owned(), "shop".to_owned())].into()).unwrap(),
            ..Facts::default()
        };
        let expanded = expand(&container, &facts).unwrap();
        assert_eq!(expanded.env["LATE"], "$(NAME)");
        assert_eq!(expanded.args, ["web-2-64-shop"]);
    }
}
