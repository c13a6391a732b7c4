// SPDX-License-Identifier: Apache-2.0
//! Containers that are added to a running pod, to look at it: Kubernetes' ephemeral containers.
//! They run once, are asked nothing, and say nothing about the pod's phase.

use serde::{Deserialize, Serialize};

use super::spec::{Container, MAX_WEIGHT, PodSpec};
use crate::error::{Error, Reason, Result};

/// The most of one pod, also of those that have ended.
pub const MAX_DEBUG: usize = 8;

/// The name of a container's own program in its cell.
pub const MAIN: &str = "main";
/// What the names of programs of probes and hooks begin with, in the cell of their container.
pub const ASK: &str = "ask-";

/// A container that is added.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Debug {
    /// Its spec. Probes, hooks and resources are for other containers.
    pub container: Container,
    /// Whose processes it sees; empty: its own alone.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub target: String,
}

impl Debug {
    /// Where its cell is in the pod's: within the one whose processes it sees.
    pub fn place(&self) -> String {
        match self.target.as_str() {
            "" => self.container.name.clone(),
            target => format!("{target}/{}", self.container.name),
        }
    }
}

/// Whether a pod that has some may get one more.
///
/// # Errors
/// `INVALID_FIELD` by the path in the request, `LIMIT_EXCEEDED` with [`MAX_DEBUG`] already,
/// `NOT_FOUND` where the target is no container of the pod.
pub fn check(spec: &PodSpec, others: &[Debug], new: &Debug) -> Result<()> {
    if others.len() >= MAX_DEBUG {
        let message = format!("the pod has {MAX_DEBUG} containers that were added, the most");
        return Err(Error::new(Reason::LimitExceeded, message));
    }
    if !new.target.is_empty() && spec.container(&new.target).is_none() {
        return Err(Error::not_found("container", new.target.clone()).field("target"));
    }
    let container = &new.container;
    check_place(new)?;
    if !new.target.is_empty() && container.entrypoint.is_empty() && container.args.is_empty() {
        let problem = "must name a program where it sees another container's processes";
        return Err(Error::invalid("container.entrypoint", problem));
    }
    let asked = [
        ("startup", container.startup.is_some()),
        ("liveness", container.liveness.is_some()),
        ("readiness", container.readiness.is_some()),
        ("pre_stop", container.pre_stop.is_some()),
        ("post_start", container.post_start.is_some()),
        ("sidecar", container.sidecar),
        (
            "resources",
            container.needs != super::spec::Needs::default(),
        ),
    ];
    if let Some((field, _)) = asked.iter().find(|(_, there)| *there) {
        let problem = "is for the containers of a pod's spec";
        return Err(Error::invalid(format!("container.{field}"), problem));
    }
    let taken = |debug: &Debug| debug.container.name == container.name;
    if spec.container(&container.name).is_some() || others.iter().any(taken) {
        let problem = format!("is {}, as another container's", container.name);
        return Err(Error::invalid("container.name", problem));
    }
    let all = others.iter().chain([new]);
    check_weight(spec, all)?;
    // The rules for containers, in a pod of this one and what it may mount.
    let mut draft = super::Draft::from(spec.clone());
    draft.init_containers.clear();
    draft.containers = vec![container.clone()];
    let checked = PodSpec::try_from(draft).map(drop);
    checked.map_err(|error| match error.field.clone() {
        Some(field) => error.field(field.replacen("containers[0]", "container", 1)),
        None => error,
    })
}

/// Beside a target it stands among the programs that the node starts there: the target's own, and
/// those of probes and hooks.
fn check_place(new: &Debug) -> Result<()> {
    let name = new.container.name.as_str();
    match !new.target.is_empty() && (name == MAIN || name.starts_with(ASK)) {
        true => {
            let problem = format!(
                "is {name}: {MAIN} and {ASK}… are the target's own programs; choose another name"
            );
            Err(Error::invalid("container.name", problem))
        }
        false => Ok(()),
    }
}

/// Whether a spec and the containers that were added to its pod can be kept together: there must
/// always be room beside them for a stop, and for how containers have ended.
///
/// # Errors
/// `LIMIT_EXCEEDED`.
pub fn check_weight<'a>(spec: &PodSpec, added: impl IntoIterator<Item = &'a Debug>) -> Result<()> {
    let bytes = |json: serde_json::Result<Vec<u8>>| json.map_or(usize::MAX, |json| json.len());
    let added = added.into_iter().map(|it| bytes(serde_json::to_vec(it)));
    let weight = added.fold(bytes(serde_json::to_vec(spec)), usize::saturating_add);
    if weight <= MAX_WEIGHT {
        return Ok(());
    }
    let message = format!(
        "the pod with the containers that were added takes {weight} bytes; at most {MAX_WEIGHT} \
         are kept of it"
    );
    Err(Error::new(Reason::LimitExceeded, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executable::MAX_WORD;
    use crate::pod::Draft;

    fn container(name: &str) -> Container {
        Container {
            name: name.to_owned(),
            entrypoint: vec!["true".to_owned()],
            ..Container::default()
        }
    }

    fn debug(name: &str, target: &str) -> Debug {
        Debug {
            container: container(name),
            target: target.to_owned(),
        }
    }

    #[test]
    fn what_is_added_is_a_container_of_another_name_and_nothing_more() {
        let draft = Draft {
            containers: vec![container("app")],
            ..Draft::default()
        };
        let spec = PodSpec::try_from(draft).unwrap();
        check(&spec, &[], &debug("look", "app")).unwrap();
        let refused = |others: &[Debug], new: &Debug| check(&spec, others, new).unwrap_err();
        let field = |error: Error| error.field.clone().unwrap_or_default();
        let other = debug("look", "");
        assert_eq!(field(refused(&[], &debug("app", ""))), "container.name");
        assert_eq!(
            field(refused(std::slice::from_ref(&other), &other)),
            "container.name"
        );
        assert_eq!(field(refused(&[], &debug("look", "none"))), "target");
        // In the target's cell these are the node's names; in the pod's they are free.
        for name in ["main", "ask-0123456789abcdef"] {
            let within = debug(name, "app");
            assert_eq!(field(refused(&[], &within)), "container.name", "{name}");
            check(&spec, &[], &debug(name, "")).unwrap();
        }
        let sidecar = Debug {
            container: Container {
                sidecar: true,
                ..container("look")
            },
            ..other.clone()
        };
        assert_eq!(field(refused(&[], &sidecar)), "container.sidecar");
        let nothing = Debug {
            container: Container {
                entrypoint: Vec::new(),
                ..container("look")
            },
            ..other
        };
        assert_eq!(field(refused(&[], &nothing)), "container.entrypoint");
        let many: Vec<_> = (0..MAX_DEBUG)
            .map(|i| debug(&format!("l{i}"), ""))
            .collect();
        let error = refused(&many, &debug("look", ""));
        assert_eq!(error.reason, Reason::LimitExceeded);
        let heavy = |name: &str| Debug {
            container: Container {
                args: vec!["x".repeat(MAX_WORD); MAX_WEIGHT / 2 / MAX_WORD],
                ..container(name)
            },
            target: String::new(),
        };
        check(&spec, &[], &heavy("one")).unwrap();
        let error = refused(&[heavy("one")], &heavy("two"));
        assert_eq!(error.reason, Reason::LimitExceeded);
    }
}
