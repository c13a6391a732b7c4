// SPDX-License-Identifier: Apache-2.0
//! What reaches out of a tenant's own cells is for administrators: parts of the node's file system,
//! the node's own namespaces and devices, protection from its OOM killer, all of its system calls.
//! Policies speak of methods and
//! objects; this is about fields, and without it a user who may run a cell would be the node's
//! root.

use model::cell::{CellSpec, Namespace};
use model::container::Container;
use model::error::{Error, Reason};
use model::executable::ExecutableSpec;
use model::launch::{CpuPolicy, IoClass, Scheduling};
use model::name::{ObjectPath, Tenant};
use model::network::{FIRST_FREE_PORT, Mode, Network, PortRange, PublishedPort};
use model::seccomp::{Profile, Seccomp};
use model::status::Object;

use identity::permit::Permit;

use crate::extras::Extras;
use crate::settings::Settings;

/// Whether the caller may ask for such a cell.
pub(crate) fn check_cell(
    permit: &Permit,
    settings: &Settings,
    path: &ObjectPath,
    spec: &CellSpec,
) -> Result<(), Error> {
    if permit.is_administrator() {
        return Ok(());
    }
    if path.parent().is_none()
        && let Some(shared) = spec.share.iter().next()
    {
        let what = format!("sharing the node's {} namespace", shared.as_str());
        return Err(refused(&what, "cell.spec.share"));
    }
    if let Some(container) = &spec.container {
        check_container(container)?;
    }
    if let Some(network) = &spec.network {
        check_network(settings, network, "cell.spec.network")?;
    }
    match spec.mounts.first() {
        Some(mount) => Err(refused(
            &format!("mounting {} of the node", mount.source),
            "cell.spec.mounts",
        )),
        None => Ok(()),
    }
}

/// Whether the caller may begin, end or change what is in a cell that stands at the top of a
/// tenant (`top`), or that cell itself. In the node's own tenant, one that has the node's
/// namespaces is there for what the node runs (units, `boot.run`): a program in it is one of the
/// node's. In another tenant an administrator has made it for the members.
pub(crate) fn check_place(permit: &Permit, top: Option<&Object>) -> Result<(), Error> {
    match top {
        Some(Object::Cell(cell))
            if cell.meta.tenant == Tenant::system()
                && !permit.is_administrator()
                && is_the_nodes(&cell.spec) =>
        {
            let path = &cell.meta.path;
            let problem = format!(
                "the cell {path} shares the node's namespaces: only administrators may run or \
                 change anything in it"
            );
            Err(Error::new(Reason::PermissionDenied, problem)
                .field("ref.path")
                .hint("use a cell that has its own namespaces"))
        }
        _ => Ok(()),
    }
}

/// Whether what runs in such a cell at the top of a tenant runs as on the node itself.
fn is_the_nodes(spec: &CellSpec) -> bool {
    [Namespace::User, Namespace::Mount, Namespace::Pid]
        .into_iter()
        .all(|namespace| spec.shares(namespace))
}

/// Whether who is no administrator may ask for such a network; `field` is where it stands.
pub(crate) fn check_network(
    settings: &Settings,
    network: &Network,
    field: &str,
) -> Result<(), Error> {
    check_ports(&network.ports, &settings.reserved_ports, field)?;
    for (at, cni) in network.cni.iter().enumerate() {
        // What a plugin's network reaches is no rule's of ours.
        if !settings.open_networks.contains(&cni.name) {
            let what = format!("the network {} of CNI", cni.name);
            return Err(refused(&what, &format!("{field}.cni[{at}]")));
        }
    }
    Ok(())
}

/// Low ports are the machine's services', reserved ones those of this node; and to a loopback
/// address comes what is meant for the node itself.
fn check_ports(ports: &[PublishedPort], reserved: &[PortRange], field: &str) -> Result<(), Error> {
    for (at, port) in ports.iter().enumerate() {
        let is_reserved = reserved.iter().any(|range| range.contains(port));
        let what = if port
            .address
            .is_some_and(|at| at.to_canonical().is_loopback())
        {
            "publishing a port of a loopback address of the node".to_owned()
        } else if port.host_port < FIRST_FREE_PORT || is_reserved {
            let (number, protocol) = (port.host_port, port.protocol.as_str());
            format!("publishing port {number}/{protocol} of the node")
        } else {
            continue;
        };
        return Err(refused(&what, &format!("{field}.ports[{at}]")));
    }
    Ok(())
}

/// What a cell around has denied, no cell below it grants itself.
pub(crate) fn below_none(spec: &CellSpec, around: Option<Mode>) -> Result<(), Error> {
    match (spec.asked_network(), around) {
        (Some(Mode::Bridge | Mode::Cni), Some(Mode::None)) => Err(refused(
            "a network below a cell that is to have none",
            "cell.spec.network.mode",
        )),
        _ => Ok(()),
    }
}

fn check_container(container: &Container) -> Result<(), Error> {
    if let Some(device) = container.devices.first() {
        let what = format!("the device {} of the node", device.path);
        return Err(refused(&what, "cell.spec.container.devices"));
    }
    if !container.hooks.is_empty() {
        let field = "cell.spec.container.hooks";
        return Err(refused("a hook, which is a program of the node", field));
    }
    if container.all_devices {
        let field = "cell.spec.container.all_devices";
        return Err(refused("every device of the node", field));
    }
    if container.unmasked {
        let field = "cell.spec.container.unmasked";
        return Err(refused("all of /proc and /sys", field));
    }
    match container.selinux_file_label.is_empty() {
        true => Ok(()),
        false => Err(refused(
            "a label of SELinux's",
            "cell.spec.container.selinux_file_label",
        )),
    }
}

/// Whether the caller may give such an executable what no message has.
pub(crate) fn check_extras(
    permit: &Permit,
    spec: &ExecutableSpec,
    extras: &Extras,
) -> Result<(), Error> {
    if !extras.are_none() && !permit.is_administrator() {
        return Err(refused("a descriptor of the node", "executable"));
    }
    extras.check(spec)
}

/// What goes before the programs of all others.
fn check_scheduling(scheduling: &Scheduling) -> Result<(), Error> {
    let field = match scheduling {
        it if it.io_class == Some(IoClass::Realtime) => "io_class",
        it if it.policy.is_some_and(CpuPolicy::is_realtime) => "policy",
        _ => return Ok(()),
    };
    Err(refused(
        "real-time scheduling",
        &format!("executable.spec.scheduling.{field}"),
    ))
}

/// Whether the caller may ask for such an executable.
pub(crate) fn check_executable(permit: &Permit, spec: &ExecutableSpec) -> Result<(), Error> {
    if permit.is_administrator() {
        return Ok(());
    }
    check_scheduling(&spec.scheduling)?;
    if spec.oom_score_adj.is_some_and(|adj| adj < 0) {
        return Err(refused(
            "an oom_score_adj below 0",
            "executable.spec.oom_score_adj",
        ));
    }
    // A label gives what the policy gives it; a program can't have every one by itself.
    if !spec.selinux_label.is_empty() {
        return Err(refused(
            "a label of SELinux's",
            "executable.spec.selinux_label",
        ));
    }
    check_filter(&spec.seccomp)
}

/// A filter that lets through what it doesn't name lets through all that the kernel will ever have.
fn check_filter(seccomp: &Seccomp) -> Result<(), Error> {
    if seccomp.profile == Profile::Unconfined {
        return Err(refused(
            "a program without a filter of system calls",
            "executable.spec.seccomp.profile",
        ));
    }
    if seccomp.custom.is_empty() {
        return Ok(());
    }
    match crate::seccomp::privileged(&seccomp.custom)? {
        Some(what) => Err(refused(what, "executable.spec.seccomp.custom")),
        None => Ok(()),
    }
}

fn refused(what: &str, field: &str) -> Error {
    Error::new(
        Reason::PermissionDenied,
        format!("{what} is for administrators of the node"),
    )
    .field(field)
    .hint("leave it out, or have an administrator create the cell in your tenant")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::network::{CniNetwork, Protocol};

    #[test]
    fn a_cell_with_the_nodes_namespaces_is_told_from_others() {
        use Namespace::{Mount, Net, Pid, User};
        for (share, expected) in [
            (Namespace::ALL.to_vec(), true),
            (vec![User, Mount, Pid], true),
            (vec![User, Mount], false),
            (vec![Net], false),
            (vec![], false),
        ] {
            let draft = model::cell::Draft {
                share: share.iter().copied().collect(),
                ..Default::default()
            };
            let spec = CellSpec::try_from(draft).unwrap();
            assert_eq!(is_the_nodes(&spec), expected, "{share:?}");
        }
    }

    #[test]
    fn a_plugins_network_is_a_members_where_the_node_says_so() {
        let mut settings = Settings::new("/cells".into(), "/cgroup".into());
        settings.open_networks = vec!["pods".to_owned()];
        let asked = |name: &str| {
            let cni = CniNetwork {
                name: name.to_owned(),
                ..CniNetwork::default()
            };
            let network = Network {
                cni: vec![cni],
                ..Network::default()
            };
            check_network(&settings, &network, "pod.spec.network")
        };
        asked("pods").unwrap();
        let error = asked("lan").unwrap_err();
        assert_eq!(error.reason, Reason::PermissionDenied);
        assert_eq!(error.field.as_deref(), Some("pod.spec.network.cni[0]"));
    }

    #[test]
    fn ports_of_the_node_itself_are_not_a_members_to_publish() {
        let reserved = ["7443/tcp".parse().unwrap()];
        let asked = |address: Option<&str>, protocol, host_port| {
            let address = address.map(|text| text.parse().unwrap());
            let port = PublishedPort {
                protocol,
                address,
                host_port,
                port: 80,
            };
            check_ports(&[port], &reserved, "network").map_err(|error| error.reason)
        };
        let denied = Err(Reason::PermissionDenied);
        for address in ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(
                asked(Some(address), Protocol::Tcp, 8080),
                denied,
                "{address}"
            );
        }
        assert_eq!(asked(None, Protocol::Tcp, 7443), denied);
        assert_eq!(asked(Some("192.0.2.1"), Protocol::Tcp, 7443), denied);
        assert_eq!(asked(None, Protocol::Udp, 80), denied);
        assert_eq!(asked(None, Protocol::Udp, 7443), Ok(()));
        assert_eq!(asked(Some("192.0.2.1"), Protocol::Tcp, 8080), Ok(()));
    }
}
