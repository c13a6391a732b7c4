// SPDX-License-Identifier: Apache-2.0
//! What the runtime is asked for, of a pod's spec: the cell of a container, its main program, and
//! the programs of probes and hooks.

use std::time::Duration;

use model::capability::{Capabilities, CapabilitySet};
use model::cell::{self, CellSpec, Mount, Namespace};
use model::error::Error;
use model::executable::{self, ExecutableSpec};
use model::network::Network;
use model::pod::env::{Facts, expand};
use model::pod::qos;
use model::pod::spec::{Container, Needs, PodSpec};
use model::resources::{Cpu, Memory, Resources};
use model::seccomp::{Profile, Seccomp};

/// What programs are made with, beside the spec.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    pub(crate) facts: Facts,
    /// The node's memory, in bytes.
    pub(crate) node_bytes: u64,
    /// The container's own filter of system calls, in Docker's JSON form; empty: it names none.
    pub(crate) filter: String,
}

/// The period of CPU limits.
const PERIOD: Duration = Duration::from_millis(100);

/// The cell of a pod: its containers share what it has.
pub(crate) fn pod_cell(spec: &PodSpec) -> Result<CellSpec, Error> {
    let network = spec.cell_network();
    let draft = cell::Draft {
        hostname: spec.hostname.clone(),
        network: (network != Network::default()).then_some(network),
        sysctls: spec.sysctls.clone(),
        share: of_node(spec).collect(),
        ..cell::Draft::default()
    };
    draft.try_into()
}

/// What of the node's the pod has instead of its own.
pub(crate) fn of_node(spec: &PodSpec) -> impl Iterator<Item = Namespace> {
    let asked = [
        (spec.host_network, Namespace::Net),
        (spec.host_pid, Namespace::Pid),
        (spec.host_ipc, Namespace::Ipc),
    ];
    let asked = asked.into_iter().filter(|(asked, _)| *asked);
    asked.map(|(_, namespace)| namespace)
}

/// The cell of a container in the pod's, or in that of another container whose processes it sees.
pub(crate) fn container_cell(
    pod: &PodSpec,
    container: &Container,
    mounts: Vec<Mount>,
    sees_processes: bool,
) -> Result<CellSpec, Error> {
    use Namespace::{Ipc, Net, Pid, User, Uts};
    let shares = sees_processes || pod.share_processes || pod.host_pid;
    let pid = shares.then_some(Pid);
    let root = container.root().map(|root| model::container::Container {
        selinux_file_label: pod.selinux_file_label.clone(),
        ..root
    });
    let draft = cell::Draft {
        share: [User, Net, Ipc, Uts].into_iter().chain(pid).collect(),
        resources: resources(&container.needs),
        mounts,
        container: root,
        ..cell::Draft::default()
    };
    draft.try_into()
}

pub(super) fn resources(needs: &Needs) -> Resources {
    let quota = needs.cpu_limit_millis.map(|millis| {
        let micros = millis.saturating_mul(100);
        Duration::from_micros(micros)
    });
    Resources {
        cpu: Cpu {
            quota,
            period: quota.map(|_| PERIOD),
            weight: needs.cpu_request().map(qos::cpu_weight),
            ..Cpu::default()
        },
        memory: Memory {
            max: needs.memory_limit_bytes,
            ..Memory::default()
        },
        ..Resources::default()
    }
}

/// A container's own program.
pub(crate) fn main_program(
    pod: &PodSpec,
    container: &Container,
    around: &Around,
) -> Result<ExecutableSpec, Error> {
    let expanded = expand(container, &around.facts)?;
    let of_image = !container.image.is_empty();
    let (entrypoint, argv) = match of_image {
        true => (expanded.entrypoint, expanded.args),
        false => (Vec::new(), [expanded.entrypoint, expanded.args].concat()),
    };
    let draft = executable::Draft {
        argv,
        entrypoint,
        main: of_image,
        stdin: container.stdin,
        terminal: container.terminal.then(executable::Terminal::default),
        stop_signal: container.stop_signal.clone(),
        stop_grace: Some(pod.grace()),
        ..within(pod, container, around)?
    };
    draft.try_into()
}

/// The program of a container that was added. One that sees processes of another container isn't
/// PID 1 of its own: then it would see none of them.
pub(crate) fn debug_program(
    pod: &PodSpec,
    container: &Container,
    around: &Around,
    sees_processes: bool,
) -> Result<ExecutableSpec, Error> {
    let draft = executable::Draft::from(main_program(pod, container, around)?);
    let draft = match sees_processes {
        true => executable::Draft {
            argv: [draft.entrypoint, draft.argv].concat(),
            entrypoint: Vec::new(),
            main: false,
            ..draft
        },
        false => draft,
    };
    draft.try_into()
}

/// A program of a probe or a hook. The daemon doesn't read what it prints.
pub(crate) fn beside(
    pod: &PodSpec,
    container: &Container,
    around: &Around,
    argv: &[String],
) -> Result<ExecutableSpec, Error> {
    let draft = executable::Draft {
        argv: argv.to_vec(),
        auto_remove: true,
        stop_grace: Some(Duration::ZERO),
        ..within(pod, container, around)?
    };
    draft.try_into()
}

/// What all programs of a container have.
fn within(
    pod: &PodSpec,
    container: &Container,
    around: &Around,
) -> Result<executable::Draft, Error> {
    let or_pods = |own: &String, pods: &String| match own.is_empty() {
        true => pods.clone(),
        false => own.clone(),
    };
    // A container that names a user has that user's group, not the pod's.
    let group = match container.user.is_empty() {
        true => or_pods(&container.group, &pod.group),
        false => container.group.clone(),
    };
    let oom = qos::oom_score_adj(qos::class(pod), &container.needs, around.node_bytes);
    let expanded = expand(container, &around.facts)?;
    Ok(executable::Draft {
        env: expanded.env,
        secret_env: expanded.secret,
        cwd: container.cwd.clone(),
        user: or_pods(&container.user, &pod.user),
        group,
        groups: groups(pod),
        capabilities: capabilities(container)?,
        no_new_privileges: container.no_new_privileges,
        seccomp: Seccomp {
            profile: match container.unconfined {
                true => Profile::Unconfined,
                false => Profile::Default,
            },
            custom: around.filter.clone(),
            ..Seccomp::default()
        },
        apparmor_profile: container.apparmor_profile.clone(),
        selinux_label: container.selinux_label.clone(),
        oom_score_adj: Some(oom),
        ..executable::Draft::default()
    })
}

/// With the one that may have the volumes.
fn groups(pod: &PodSpec) -> Vec<String> {
    let of_volumes = pod.fs_group.map(|group| group.to_string());
    let of_volumes = of_volumes.filter(|group| !pod.groups.contains(group));
    pod.groups.iter().cloned().chain(of_volumes).collect()
}

fn capabilities(container: &Container) -> Result<Option<Capabilities>, Error> {
    if container.add_capabilities.is_empty() && container.drop_capabilities.is_empty() {
        return Ok(None);
    }
    let names = |names: &[String]| {
        let sets = names.iter().map(|name| name.parse::<CapabilitySet>());
        let sets = sets.collect::<Result<Vec<_>, _>>();
        sets.map(|sets| {
            sets.into_iter()
                .flat_map(CapabilitySet::names)
                .collect::<Vec<_>>()
        })
    };
    let drop = names(&container.drop_capabilities)?;
    let mut bounding = CapabilitySet::container_default().names();
    bounding.retain(|name| !drop.contains(name));
    for name in names(&container.add_capabilities)? {
        if !bounding.contains(&name) {
            bounding.push(name);
        }
    }
    Ok(Some(Capabilities {
        bounding,
        ambient: Vec::new(),
    }))
}
