// SPDX-License-Identifier: Apache-2.0
//! The part of a volume that a container has, where it is made of variables: Kubernetes'
//! `subPathExpr`. It is expanded once, when the container is made. What would lead out of the
//! volume, or to all of it, is refused: a variable that isn't set must not show a container more
//! than its part.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::env::{self, Expanded, Facts, From};
use super::spec::{Container, PodSpec};
use super::volume::VolumeMount;
use crate::error::{Error, Result, Within};
use crate::executable::MAX_PROGRAM_WEIGHT;
use crate::text::{MAX_PATH_BYTES, check_length, check_printable, check_relative_path};

const FIELD: &str = "sub_path_expr";

/// What is wrong whatever the variables are.
pub(super) fn check(mount: &VolumeMount) -> Result<()> {
    let expr = mount.sub_path_expr.as_str();
    if !expr.is_empty() && !mount.sub_path.is_empty() {
        let problem = "must not be given beside sub_path: say the part in one of them";
        return Err(Error::invalid(FIELD, problem));
    }
    check_length(FIELD, expr, MAX_PATH_BYTES)?;
    check_printable(FIELD, expr)?;
    match expr.starts_with('/') || expr.split('/').any(|part| part == "..") {
        true => {
            let problem = "must be relative, without `..`: it is a part of the volume";
            Err(Error::invalid(FIELD, problem))
        }
        false => Ok(()),
    }
}

/// Checks a pod that is to be made: each variable must be there, and what is made of them a part of
/// the volume, as far as that is known before the container is made. Texts of configs are in it.
///
/// # Errors
/// `INVALID_FIELD`, below `pod.spec`.
pub fn check_pod(spec: &PodSpec) -> Result<()> {
    let lists = [
        ("init_containers", &spec.init_containers),
        ("containers", &spec.containers),
    ];
    for (list, containers) in lists {
        for (i, container) in containers.iter().enumerate() {
            check_container(container).within(&format!("pod.spec.{list}[{i}]"))?;
        }
    }
    Ok(())
}

/// The same of one container.
///
/// # Errors
/// `INVALID_FIELD`, below the container.
pub fn check_container(container: &Container) -> Result<()> {
    if container
        .mounts
        .iter()
        .all(|mount| mount.sub_path_expr.is_empty())
    {
        return Ok(());
    }
    // In the place of a fact, which is known later, and has no slash.
    let told = |_: &From| "x".to_owned();
    let mut left = MAX_PROGRAM_WEIGHT;
    let (env, secret) = env::environment(container, &told, &mut left)?;
    for (i, mount) in container.mounts.iter().enumerate() {
        part(mount, &env, &secret).within(&format!("mounts[{i}]"))?;
    }
    Ok(())
}

/// The mounts of a container that is made now, each with its part.
///
/// # Errors
/// `INVALID_FIELD`: a part isn't one of the volume.
pub fn expanded<'a>(container: &'a Container, facts: &Facts) -> Result<Vec<Cow<'a, VolumeMount>>> {
    let is_plain = |mount: &VolumeMount| mount.sub_path_expr.is_empty();
    if container.mounts.iter().all(is_plain) {
        return Ok(container.mounts.iter().map(Cow::Borrowed).collect());
    }
    let Expanded { env, secret, .. } = env::expand(container, facts)?;
    let mounts = container.mounts.iter().enumerate();
    let mounts = mounts.map(|(i, mount)| {
        let at = format!("pod.spec.containers[{:?}].mounts[{i}]", container.name);
        let part = part(mount, &env, &secret).within(&at)?;
        Ok(match part {
            None => Cow::Borrowed(mount),
            Some(sub_path) => Cow::Owned(VolumeMount {
                sub_path,
                sub_path_expr: String::new(),
                ..mount.clone()
            }),
        })
    });
    mounts.collect()
}

/// `None`: the mount says it without variables.
fn part(
    mount: &VolumeMount,
    env: &BTreeMap<String, String>,
    secret: &BTreeSet<String>,
) -> Result<Option<String>> {
    let expr = mount.sub_path_expr.as_str();
    if expr.is_empty() {
        return Ok(None);
    }
    let mut wrong = None;
    let path = env::filled(expr, env, MAX_PATH_BYTES, &mut |name| {
        if !env.contains_key(name) {
            wrong.get_or_insert_with(|| format!("names {name:?}, which the container hasn't got"));
        } else if secret.contains(name) {
            let why = format!("is made of {name}, a secret: a path is shown to who looks");
            wrong.get_or_insert(why);
        }
    });
    if let Some(problem) = wrong {
        let hint = "name variables of the container's `env`; `$$(NAME)` is the text `$(NAME)`";
        return Err(Error::invalid(FIELD, problem).hint(hint));
    }
    // What the variables say may be longer than a message, and others' to read.
    check_relative_path(FIELD, &path).map_err(|error| {
        let volume = &mount.volume;
        let problem = format!(
            "makes no part of the volume {volume} of {expr}: it {}",
            error.message
        );
        Error::invalid(FIELD, problem)
    })?;
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::env::{EnvVar, Fact};

    fn container(expr: &str) -> Container {
        let value = |name: &str, from| EnvVar {
            name: name.to_owned(),
            from,
        };
        let text = |name: &str, text: &str| value(name, From::Value(text.to_owned()));
        Container {
            name: "app".to_owned(),
            env: vec![
                value("POD", From::Fact(Fact::PodName)),
                value("APP", From::Label("app".to_owned())),
                value("KEY", From::Secret("hush".to_owned())),
                text("UP", ".."),
                text("ROOT", "/etc"),
                text("NONE", ""),
                text("DEEP", "a/$(POD)"),
                text("MADE", "of-$(KEY)"),
                text("LONG", &"x".repeat(300)),
            ],
            mounts: vec![VolumeMount {
                volume: "data".to_owned(),
                path: "/data".to_owned(),
                sub_path_expr: expr.to_owned(),
                ..VolumeMount::default()
            }],
            ..Container::default()
        }
    }

    fn facts() -> Facts {
        Facts {
            pod_name: "web".to_owned(),
            ..Facts::default()
        }
    }

    fn path(expr: &str) -> Result<String> {
        let container = container(expr);
        check(&container.mounts[0])?;
        let mounts = expanded(&container, &facts())?;
        Ok(mounts[0].sub_path.clone())
    }

    #[test]
    fn a_part_is_made_of_variables_as_kubernetes_expands_them() {
        for (expr, expected) in [
            ("$(POD)", "web"),
            ("logs/$(DEEP)/b", "logs/a/web/b"),
            ("$$(POD)", "$(POD)"),
            ("$$$(POD)", "$web"),
            ("$POD", "$POD"),
            ("a..b", "a..b"),
        ] {
            check_container(&container(expr)).unwrap();
            assert_eq!(path(expr).unwrap(), expected, "{expr}");
        }
    }

    #[test]
    fn what_leads_out_of_a_volume_or_to_all_of_it_is_refused_also_before_it_is_made() {
        let refused = [
            "$(UP)",
            "$(UP)/x",
            "x/$(UP)",
            "../x",
            "$(ROOT)",
            "/$(POD)",
            "$(NONE)",
            "$(NONE)/x",
            "x/$(NONE)",
            "a//b",
            "./a",
            "$(GONE)",
            "$(DEEP$(POD))",
            "$(KEY)",
            "$(MADE)",
            "$(LONG)",
        ];
        for expr in refused {
            let error = path(expr).unwrap_err();
            let field = error.field.clone().unwrap();
            assert!(field.ends_with(FIELD), "{expr}: {error}");
            let said = format!("{error} {:?}", error.hint);
            assert!(!said.contains("hush"), "{said}");
            let container = container(expr);
            let early = check(&container.mounts[0]).and_then(|()| check_container(&container));
            early.unwrap_err();
        }
        // Which labels the pod has is known when the container is made.
        check_container(&container("$(APP)")).unwrap();
        path("$(APP)").unwrap_err();
        let mut both = container("a");
        both.mounts[0].sub_path = "b".to_owned();
        check(&both.mounts[0]).unwrap_err();
    }
}
