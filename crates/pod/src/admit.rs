// SPDX-License-Identifier: Apache-2.0
//! What a caller may ask for, by field. The containers of a pod are made with the node's permit,
//! for which the runtime refuses nothing: so whatever of a spec the runtime keeps for
//! administrators (its `privilege`) is refused here, before an order reaches the pod. A spec asks
//! for no `oom_score_adj` below 0 (`model::pod::qos`); a field that is added to it and reaches that
//! far has its place here. Ports of the node are looked at by the runtime's own rule.

use crate::cell::program;
use crate::sandbox::CLASSES;
use identity::Permit;
use model::cell::Namespace;
use model::error::{Error, Reason, Within};
use model::name::ObjectPath;
use model::pod::spec::Container;
use model::pod::volume::{Empty, Medium, Source, Volume};
use model::pod::{PodSpec, sub_path};

/// Whether the caller may run such a pod there.
pub(crate) fn check(permit: &Permit, spec: &PodSpec, path: &ObjectPath) -> Result<(), Error> {
    if let Some((field, what)) = of_node(spec)
        && path.parent().is_some()
    {
        let problem = format!("is for a pod that is in no other cell: that one has {what} of its");
        return Err(Error::invalid(field, format!("{problem} own")));
    }
    check_class(spec)?;
    sub_path::check_pod(spec)?;
    if !permit.is_administrator() {
        check_pod(spec)?;
    }
    check_labels(spec)
}

/// A pod is never kept apart by less than it asks for, nor by something else.
fn check_class(spec: &PodSpec) -> Result<(), Error> {
    let Some(class) = &spec.sandbox_class else {
        return Ok(());
    };
    if CLASSES.contains(&class.as_str()) {
        return Ok(());
    }
    let offers = CLASSES.join(", ");
    let message = format!("this node has no sandboxes of the class {class}; it offers: {offers}");
    Err(Error::new(Reason::Unsupported, message).field("pod.spec.sandbox_class"))
}

/// A pod with labels isn't begun where its containers couldn't have them.
fn check_labels(spec: &PodSpec) -> Result<(), Error> {
    check_label(&spec.selinux_file_label, "pod.spec.selinux_file_label")?;
    let lists = [
        ("init_containers", &spec.init_containers),
        ("containers", &spec.containers),
    ];
    for (list, containers) in lists {
        for (i, container) in containers.iter().enumerate() {
            let field = format!("pod.spec.{list}[{i}].selinux_label");
            check_label(&container.selinux_label, &field)?;
        }
    }
    Ok(())
}

fn check_label(label: &str, field: &str) -> Result<(), Error> {
    match label {
        "" => Ok(()),
        label => runtime::check_label(label, field),
    }
}

/// Whether the caller may add such a container to a pod of that spec. Mounts of its own are another
/// part of a volume, or may write where the containers of the spec can only read: a volume that is
/// for administrators is theirs to mount, too, whichever user has run the pod.
pub(crate) fn check_debug(
    permit: &Permit,
    spec: &PodSpec,
    container: &Container,
) -> Result<(), Error> {
    sub_path::check_container(container).within("container")?;
    match permit.is_administrator() {
        true => Ok(()),
        false => check_added(spec, container),
    }
}

/// Whether the caller may connect to ports of a pod of that spec: those of one on the node's
/// network are the node's own, those of its loopback address among them.
pub(crate) fn check_dial(permit: &Permit, spec: &PodSpec) -> Result<(), Error> {
    match permit.is_administrator() {
        true => Ok(()),
        false => dialled(spec),
    }
}

fn dialled(spec: &PodSpec) -> Result<(), Error> {
    match spec.host_network {
        true => Err(refused(
            "a port of a pod on the node's own network",
            "pod.spec.host_network".to_owned(),
        )),
        false => Ok(()),
    }
}

fn check_pod(spec: &PodSpec) -> Result<(), Error> {
    if !spec.selinux_file_label.is_empty() {
        let field = "pod.spec.selinux_file_label".to_owned();
        return Err(refused("a label of SELinux's", field));
    }
    if let Some((field, what)) = of_node(spec) {
        return Err(refused(&format!("the node's own {what}"), field.to_owned()));
    }
    for (i, volume) in spec.volumes.iter().enumerate() {
        if let Some((what, field)) = reaches_out(volume) {
            return Err(refused(&what, format!("pod.spec.volumes[{i}].{field}")));
        }
    }
    let lists = [
        ("init_containers", &spec.init_containers),
        ("containers", &spec.containers),
    ];
    for (list, containers) in lists {
        for (i, container) in containers.iter().enumerate() {
            check_container(container, &format!("pod.spec.{list}[{i}]"))?;
        }
    }
    Ok(())
}

/// The first of the node's namespaces that such a pod has instead of its own: the field that asks
/// for it, and what it is.
fn of_node(spec: &PodSpec) -> Option<(&'static str, &'static str)> {
    program::of_node(spec).next().map(|shared| match shared {
        Namespace::Pid => ("pod.spec.host_pid", "processes"),
        Namespace::Ipc => ("pod.spec.host_ipc", "IPC"),
        // Nothing else of the node's can be asked for.
        _ => ("pod.spec.host_network", "network"),
    })
}

fn check_added(spec: &PodSpec, container: &Container) -> Result<(), Error> {
    check_container(container, "container")?;
    for (i, mount) in container.mounts.iter().enumerate() {
        let volume = spec.volumes.iter().find(|it| it.name == mount.volume);
        if let Some((what, _)) = volume.and_then(reaches_out) {
            return Err(refused(&what, format!("container.mounts[{i}].volume")));
        }
    }
    Ok(())
}

fn check_container(container: &Container, field: &str) -> Result<(), Error> {
    if !container.selinux_label.is_empty() {
        let field = format!("{field}.selinux_label");
        return Err(refused("a label of SELinux's", field));
    }
    if !container.seccomp_profile.is_empty() {
        let field = format!("{field}.seccomp_profile");
        return Err(refused("a filter of system calls of the node's", field));
    }
    if let Some(device) = container.devices.first() {
        let what = format!("the device {} of the node", device.path);
        return Err(refused(&what, format!("{field}.devices")));
    }
    if container.all_devices {
        let field = format!("{field}.all_devices");
        return Err(refused("every device of the node", field));
    }
    if container.unmasked {
        let field = format!("{field}.unmasked");
        return Err(refused("all of /proc and /sys", field));
    }
    match container.unconfined {
        true => Err(refused(
            "a program without a filter of system calls",
            format!("{field}.unconfined"),
        )),
        false => Ok(()),
    }
}

/// What of the node a volume is, and the field that says so; `None`: it is the tenant's own.
fn reaches_out(volume: &Volume) -> Option<(String, &'static str)> {
    match &volume.source {
        Source::Host(host) => Some((format!("mounting {} of the node", host.path), "host")),
        // Nothing bounds it there.
        Source::Empty(Empty {
            medium: Medium::Disk,
            size_bytes: None,
        }) => {
            let what = format!(
                "the empty volume {} on the disk without a size",
                volume.name
            );
            Some((what, "empty.medium"))
        }
        Source::Empty(_) | Source::Files(_) => None,
    }
}

fn refused(what: &str, field: String) -> Error {
    let message = format!("{what} is for administrators");
    let error = Error::new(Reason::PermissionDenied, message).field(field);
    error.hint("leave it out, or have an administrator do it in your tenant")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::pod::spec::Draft;
    use model::pod::volume::{Host, VolumeMount};

    fn container(name: &str) -> Container {
        Container {
            name: name.to_owned(),
            entrypoint: vec!["true".to_owned()],
            ..Container::default()
        }
    }

    fn volume(name: &str, source: Source) -> Volume {
        Volume {
            name: name.to_owned(),
            source,
        }
    }

    fn mounting(volume: &str) -> Container {
        let mount = VolumeMount {
            volume: volume.to_owned(),
            path: "/mnt".to_owned(),
            ..VolumeMount::default()
        };
        Container {
            mounts: vec![mount],
            ..container("look")
        }
    }

    fn field(checked: Result<(), Error>) -> Option<String> {
        let error = checked.unwrap_err();
        assert_eq!(error.reason, Reason::PermissionDenied, "{error:?}");
        error.field.clone()
    }

    #[test]
    fn what_reaches_out_of_a_pod_is_refused_in_each_container_and_in_one_that_is_added() {
        let host = Host {
            path: "/srv".to_owned(),
            ..Host::default()
        };
        let disk = Empty {
            medium: Medium::Disk,
            size_bytes: None,
        };
        let own = volume("own", Source::Empty(Empty::default()));
        let mut draft = Draft {
            containers: vec![container("app")],
            init_containers: vec![container("init")],
            volumes: vec![own.clone()],
            ..Draft::default()
        };
        let spec = |draft: &Draft| PodSpec::try_from(draft.clone()).unwrap();
        check_pod(&spec(&draft)).unwrap();
        for (source, name) in [
            (Source::Host(host), "host"),
            (Source::Empty(disk), "empty.medium"),
        ] {
            draft.volumes = vec![own.clone(), volume("theirs", source)];
            let theirs = spec(&draft);
            let expected = format!("pod.spec.volumes[1].{name}");
            assert_eq!(field(check_pod(&theirs)), Some(expected));
            check_added(&theirs, &container("look")).unwrap();
            check_added(&theirs, &mounting("own")).unwrap();
            let refused = field(check_added(&theirs, &mounting("theirs")));
            assert_eq!(refused.as_deref(), Some("container.mounts[0].volume"));
        }
        draft.volumes.clear();
        draft.host_network = true;
        let refused = field(check_pod(&spec(&draft)));
        assert_eq!(refused.as_deref(), Some("pod.spec.host_network"));
        let refused = field(dialled(&spec(&draft)));
        assert_eq!(refused.as_deref(), Some("pod.spec.host_network"));
        draft.host_network = false;
        draft.host_pid = true;
        let refused = field(check_pod(&spec(&draft)));
        assert_eq!(refused.as_deref(), Some("pod.spec.host_pid"));
        draft.host_pid = false;
        draft.host_ipc = true;
        let refused = field(check_pod(&spec(&draft)));
        assert_eq!(refused.as_deref(), Some("pod.spec.host_ipc"));
        draft.host_ipc = false;
        draft.sandbox_class = Some("cell".parse().unwrap());
        check_class(&spec(&draft)).unwrap();
        draft.sandbox_class = Some("microvm".parse().unwrap());
        let refused = check_class(&spec(&draft)).unwrap_err();
        assert_eq!(refused.reason, Reason::Unsupported, "{refused:?}");
        assert_eq!(refused.field.as_deref(), Some("pod.spec.sandbox_class"));
        dialled(&spec(&draft)).unwrap();
        draft.init_containers[0].seccomp_profile = "a.json".to_owned();
        let refused = field(check_pod(&spec(&draft)));
        let expected = "pod.spec.init_containers[0].seccomp_profile";
        assert_eq!(refused.as_deref(), Some(expected));
        draft.init_containers[0].seccomp_profile.clear();
        draft.init_containers[0].unconfined = true;
        let refused = field(check_pod(&spec(&draft)));
        let expected = "pod.spec.init_containers[0].unconfined";
        assert_eq!(refused.as_deref(), Some(expected));
        draft.init_containers.clear();
        draft.containers[0].unconfined = true;
        let refused = field(check_pod(&spec(&draft)));
        assert_eq!(
            refused.as_deref(),
            Some("pod.spec.containers[0].unconfined")
        );
        let refused = field(check_added(&spec(&draft), &draft.containers[0]));
        assert_eq!(refused.as_deref(), Some("container.unconfined"));
    }

    #[test]
    fn devices_and_all_of_proc_are_refused_in_a_pod_and_in_what_is_added() {
        let device = model::device::Device {
            path: "/dev/fuse".to_owned(),
            ..Default::default()
        };
        let plain = Container {
            image: "x".to_owned(),
            ..container("app")
        };
        let cases = [
            (
                "devices",
                Container {
                    devices: vec![device],
                    ..plain.clone()
                },
            ),
            (
                "all_devices",
                Container {
                    all_devices: true,
                    ..plain.clone()
                },
            ),
            (
                "unmasked",
                Container {
                    unmasked: true,
                    ..plain.clone()
                },
            ),
        ];
        for (name, asking) in cases {
            let draft = Draft {
                containers: vec![asking.clone()],
                ..Draft::default()
            };
            let refused = field(check_pod(&PodSpec::try_from(draft).unwrap()));
            assert_eq!(refused, Some(format!("pod.spec.containers[0].{name}")));
            let draft = Draft {
                containers: vec![plain.clone()],
                ..Draft::default()
            };
            let refused = field(check_added(&PodSpec::try_from(draft).unwrap(), &asking));
            assert_eq!(refused, Some(format!("container.{name}")));
        }
    }
}
