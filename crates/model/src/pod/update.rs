// SPDX-License-Identifier: Apache-2.0
//! What can be changed of a running pod: the content of files, and what containers may take of CPU
//! and memory, as long as the pod's class stays (Kubernetes' rule for resizing in place).
//! Everything else must be as it is; what differs is refused by its path.

use super::qos;
use super::spec::{Container, Draft, Needs, PodSpec};
use super::volume::{Files, Source, Volume};
use crate::error::{Error, Result};

/// Whether a running pod can become the other one.
///
/// # Errors
/// `INVALID_FIELD`, below `pod.spec`: what can't be changed.
pub fn check(old: &PodSpec, new: &PodSpec) -> Result<()> {
    let lists = [
        (
            "init_containers",
            &old.init_containers,
            &new.init_containers,
        ),
        ("containers", &old.containers, &new.containers),
    ];
    for (field, old, new) in lists {
        check_containers(field, old, new)?;
    }
    check_volumes(&old.volumes, &new.volumes)?;
    if rest(old) != rest(new) {
        let problem = "can't be changed but for resources, and files of volumes";
        return Err(fixed("pod.spec", problem));
    }
    let (before, after) = (qos::class(old), qos::class(new));
    if before != after {
        let problem = format!("would make the pod {after:?}; it stays {before:?}");
        return Err(fixed("pod.spec.containers", problem));
    }
    Ok(())
}

fn fixed(field: impl Into<String>, problem: impl std::fmt::Display) -> Error {
    Error::invalid(field.into(), problem).hint("run the pod anew, under another name or after `rm`")
}

fn check_containers(field: &str, old: &[Container], new: &[Container]) -> Result<()> {
    if old.len() != new.len() {
        let problem = format!("are {}; the pod has {}", new.len(), old.len());
        return Err(fixed(format!("pod.spec.{field}"), problem));
    }
    for (i, (old, new)) in old.iter().zip(new).enumerate() {
        let without = |container: &Container| Container {
            needs: Needs::default(),
            ..container.clone()
        };
        if without(old) != without(new) {
            let problem = format!("differs from {} in more than its resources", old.name);
            return Err(fixed(format!("pod.spec.{field}[{i}]"), problem));
        }
    }
    Ok(())
}

fn check_volumes(old: &[Volume], new: &[Volume]) -> Result<()> {
    if old.len() != new.len() {
        let problem = format!("are {}; the pod has {}", new.len(), old.len());
        return Err(fixed("pod.spec.volumes", problem));
    }
    for (i, (old, new)) in old.iter().zip(new).enumerate() {
        let without = |volume: &Volume| match &volume.source {
            Source::Files(files) => Source::Files(Files {
                mode: files.mode,
                secret: files.secret,
                ..Files::default()
            }),
            other => other.clone(),
        };
        if old.name != new.name || without(old) != without(new) {
            let problem = format!("differs from {} in more than its files", old.name);
            return Err(fixed(format!("pod.spec.volumes[{i}]"), problem));
        }
    }
    Ok(())
}

/// What has neither containers nor volumes.
fn rest(spec: &PodSpec) -> Draft {
    Draft {
        containers: Vec::new(),
        init_containers: Vec::new(),
        volumes: Vec::new(),
        ..Draft::from(spec.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::volume::Empty;

    fn pod() -> Draft {
        let needs = Needs {
            memory_limit_bytes: Some(64 << 20),
            ..Needs::default()
        };
        let files = [("a".to_owned(), "1".to_owned())].into();
        let volume = |name: &str, source| Volume {
            name: name.to_owned(),
            source,
        };
        Draft {
            containers: vec![Container {
                name: "app".to_owned(),
                entrypoint: vec!["true".to_owned()],
                needs,
                ..Container::default()
            }],
            volumes: vec![
                volume(
                    "conf",
                    Source::Files(Files {
                        files,
                        ..Files::default()
                    }),
                ),
                volume("data", Source::Empty(Empty::default())),
            ],
            ..Draft::default()
        }
    }

    type Change = fn(&mut Draft);

    #[test]
    fn files_and_resources_of_the_same_class_change_and_nothing_else() {
        let old = PodSpec::try_from(pod()).unwrap();
        let changed = |change: Change| {
            let mut draft = pod();
            change(&mut draft);
            check(&old, &draft.try_into().unwrap())
        };
        let fine: [Change; 3] = [
            |_| {},
            |pod| pod.containers[0].needs.memory_limit_bytes = Some(32 << 20),
            |pod| {
                let files = [("b".to_owned(), "2".to_owned())].into();
                pod.volumes[0].source = Source::Files(Files {
                    files,
                    ..Files::default()
                });
            },
        ];
        fine.into_iter().for_each(|change| changed(change).unwrap());
        let refused: [(&str, Change); 6] = [
            ("pod.spec.containers", |pod| {
                pod.containers[0].needs = Needs::default()
            }),
            ("pod.spec.containers[0]", |pod| {
                pod.containers[0].stdin = true
            }),
            ("pod.spec.containers", |pod| {
                let mut another = pod.containers[0].clone();
                another.name = "b".to_owned();
                pod.containers.push(another);
            }),
            ("pod.spec.volumes[1]", |pod| {
                pod.volumes[1].name = "other".to_owned()
            }),
            ("pod.spec.volumes", |pod| drop(pod.volumes.pop())),
            ("pod.spec", |pod| pod.hostname = "b".to_owned()),
        ];
        for (field, change) in refused {
            let error = changed(change).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
    }
}
