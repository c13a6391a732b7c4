// SPDX-License-Identifier: Apache-2.0
//! What node-init is told of a cell that is to be made.

use ::init::protocol::{CellLaunch, Namespaces, Record, Root, Sysctl, Volume};
use model::cell::{CellSpec, Draft, Namespace};

use crate::ids::IdRange;
use crate::record::{self, CellRecord};

pub(super) fn launch(
    record: &CellRecord,
    effective: &Draft,
    nested: bool,
    carried: Record,
) -> CellLaunch {
    let map = record.ids.map(IdRange::extents).unwrap_or_default();
    CellLaunch {
        uid: record::wire(record.meta.uid),
        unshare: unshare(&record.spec, nested),
        root: Root::Node,
        parent: nested,
        joins: Vec::new(),
        gid_map: map.clone(),
        uid_map: map,
        init_id: 0,
        title: String::new(),
        hostname: effective.hostname.clone(),
        volumes: effective
            .volumes
            .iter()
            .map(|volume| Volume {
                target: volume.path.clone().into_bytes(),
                size_bytes: volume.effective_size(),
                mode: volume.effective_mode(),
                uid: volume.uid.unwrap_or_default(),
                gid: volume.gid.unwrap_or_default(),
                no_exec: volume.no_exec,
            })
            .collect(),
        sysctls: record.spec.sysctls.iter().map(parameter).collect(),
        record: carried,
    }
}

fn parameter((name, value): (&String, &String)) -> Sysctl {
    Sysctl {
        path: kernel::sysctl::path(name),
        value: value.clone(),
    }
}

/// The protocol's bit of a namespace.
pub(super) fn bit(namespace: Namespace) -> u8 {
    match namespace {
        Namespace::User => Namespaces::USER,
        Namespace::Mount => Namespaces::MOUNT,
        Namespace::Pid => Namespaces::PID,
        Namespace::Net => Namespaces::NET,
        Namespace::Ipc => Namespaces::IPC,
        Namespace::Uts => Namespaces::UTS,
        Namespace::Cgroup => Namespaces::CGROUP,
    }
}

fn unshare(spec: &CellSpec, nested: bool) -> Namespaces {
    let shared = |namespace| spec.shares(namespace) && !(nested && namespace == Namespace::Cgroup);
    let own = Namespace::ALL.into_iter().filter(|ns| !shared(*ns));
    Namespaces(own.fold(0, |set, namespace| set | bit(namespace)))
}
