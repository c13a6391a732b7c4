// SPDX-License-Identifier: Apache-2.0
//! What a caller may ask for, by field. The containers of a pod are made with the node's permit,
//! for which the runtime refuses nothing: so whatever of a spec the runtime keeps for
//! administrators (its `privilege`) is refused here, before an order reaches the pod. A spec asks
//! for no `oom_score_adj` below 0 (`model::pod::qos`); a field that is added to it and reaches that
//! far has its place here. Ports of the node are looked at by the runtime's own rule.

use crate::cell::program;
use identity::Permit;
use model::cell::Namespace;
use model::error::{Error, Reason, Within};
use model::name::ObjectPath;
use model::pod::spec::Container;
use model::pod::volume::{Empty, Medium, Source, Volume};
use model::pod::{PodSpec, sub_path};

/// Whether the caller may run such a pod there; `class`: of the daemon that it runs on, where that
/// isn't this one.
pub(crate) fn check(
    permit: &Permit,
    spec: &PodSpec,
    path: &ObjectPath,
    class: Option<&str>,
) -> Result<(), Error> {
    if let Some((field, what)) = of_node(spec)
        && path.parent().is_some()
    {
        let problem = format!("is for a pod that is in no other cell: that one has {what} of its");
        return Err(Error::invalid(field, format!("{problem} own")));
    }
    sub_path::check_pod(spec)?;
    if !permit.is_administrator() {
        check_pod(spec)?;
    }
    match class {
        None => check_labels(spec),
        // Labels are for that node's kernel to take or refuse.
        Some(class) => check_away(class, spec, path),
    }
}

/// What a pod can't have on another daemon: it is of this node, or of a cell of it.
fn check_away(class: &str, spec: &PodSpec, path: &ObjectPath) -> Result<(), Error> {
    let refused = |what: &str, field: String| {
        let message = format!("{what} is of this node: a pod of the class {class} has none of it");
        let hint = "leave it out, or say the class cell";
        Err(Error::new(Reason::Unsupported, message)
            .field(field)
            .hint(hint))
    };
    if path.parent().is_some() {
        return refused("the cell around the pod", "pod.ref.path".to_owned());
    }
    if let Some((field, what)) = of_node(spec) {
        return refused(&format!("the {what}"), field.to_owned());
    }
    let of_host = |volume: &Volume| matches!(volume.source, Source::Host(_));
    if let Some(i) = spec.volumes.iter().position(of_host) {
        return refused("the folder", format!("pod.spec.volumes[{i}].host"));
    }
    if !spec.network.ports.is_empty() {
        return refused("a port", "pod.spec.network.ports".to_owned());
    }
    Ok(())
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
    fn what_is_of_this_node_isnt_on_another() {
        let checked = |draft: &Draft, path: &str| {
            let spec = draft.clone().try_into().unwrap();
            check_away("vm", &spec, &path.parse().unwrap())
        };
        let refused = |draft: &Draft, path: &str| {
            let error = checked(draft, path).unwrap_err();
            assert_eq!(error.reason, Reason::Unsupported, "{error:?}");
            error.field.clone().unwrap_or_default()
        };
        let plain = Draft {
            containers: vec![container("app")],
            ..Draft::default()
        };
        checked(&plain, "web").unwrap();
        assert_eq!(refused(&plain, "shop/web"), "pod.ref.path");
        let host_network = Draft {
            host_network: true,
            ..plain.clone()
        };
        assert_eq!(refused(&host_network, "web"), "pod.spec.host_network");
        let mut published = plain;
        published.network.ports = vec![model::network::PublishedPort {
            protocol: model::network::Protocol::Tcp,
            address: None,
            host_port: 80,
            port: 80,
        }];
        assert_eq!(refused(&published, "web"), "pod.spec.network.ports");
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
