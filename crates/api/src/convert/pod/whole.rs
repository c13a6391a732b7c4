// SPDX-License-Identifier: Apache-2.0
//! Specs of pods with their secrets: for the node alone that is to run them.

use model::pod::env::{EnvVar, From};
use model::pod::spec::{Container, Draft};
use model::pod::volume::{Source, Volume};

use super::container::to_container;
use super::spec::to_spec;
use crate::pod::v0 as wire;

/// The message of a pod's spec, with the texts of its secrets.
pub fn to_whole_spec(draft: &Draft) -> wire::PodSpec {
    let mut message = to_spec(draft);
    let inits = draft
        .init_containers
        .iter()
        .zip(&mut message.init_containers);
    let apps = draft.containers.iter().zip(&mut message.containers);
    inits
        .chain(apps)
        .for_each(|(own, shown)| reveal(own, shown));
    let volumes = draft.volumes.iter().zip(&mut message.volumes);
    volumes.for_each(|(own, shown)| reveal_files(own, shown));
    message
}

/// The message of a container's spec, with the texts of its secrets.
pub fn to_whole_container(container: &Container) -> wire::Container {
    let mut message = to_container(container);
    reveal(container, &mut message);
    message
}

fn reveal(container: &Container, message: &mut wire::Container) {
    for (EnvVar { from, .. }, shown) in container.env.iter().zip(&mut message.env) {
        if let From::Secret(text) = from {
            shown.from = Some(wire::env_var::From::Secret(text.clone()));
        }
    }
}

fn reveal_files(volume: &Volume, message: &mut wire::Volume) {
    if let (Source::Files(files), Some(wire::volume::Source::Files(shown))) =
        (&volume.source, &mut message.source)
    {
        shown.files.clone_from(&files.files);
    }
}

#[cfg(test)]
mod tests {
    use model::pod::volume::Files;

    use super::*;
    use crate::convert::pod::spec;

    #[test]
    fn secrets_go_whole_and_are_shown_to_no_caller() {
        let container = Container {
            name: "app".to_owned(),
            entrypoint: vec!["true".to_owned()],
            env: vec![EnvVar {
                name: "KEY".to_owned(),
                from: From::Secret("hush".to_owned()),
            }],
            ..Container::default()
        };
        let files = Files {
            files: [("key".to_owned(), "hush".to_owned())].into(),
            secret: true,
            ..Files::default()
        };
        let draft = Draft {
            containers: vec![container],
            volumes: vec![Volume {
                name: "keys".to_owned(),
                source: Source::Files(files),
            }],
            ..Draft::default()
        };
        assert_eq!(*spec(to_whole_spec(&draft)).unwrap(), draft);
        let shown = to_spec(&draft);
        assert!(!format!("{shown:?}").contains("hush"));
        let container = &draft.containers[0];
        assert_ne!(to_whole_container(container), to_container(container));
        let reads = super::super::container::container(to_whole_container(container));
        assert_eq!(reads.unwrap(), *container);
    }
}
