// SPDX-License-Identifier: Apache-2.0
//! Why fields of a Compose file can't be taken, in words.

const OTHER: &str = "a pod has no such thing";

const REASONS: [(&str, &str); 43] = [
    (
        "build",
        "images are built elsewhere: build and push it, and name it by `image`",
    ),
    ("cgroup", "each container has a group of its own"),
    ("cgroup_parent", "the node decides where its groups are"),
    ("configs", "see the notes above"),
    (
        "container_name",
        "a container is called as the service: POD/SERVICE",
    ),
    ("cpu_count", "say deploy.resources.limits.cpus"),
    ("cpu_percent", "say deploy.resources.limits.cpus"),
    (
        "cpu_shares",
        "say deploy.resources.reservations.cpus, in CPUs",
    ),
    ("cpuset", "a pod's containers aren't bound to CPUs"),
    ("credential_spec", "is for Windows"),
    ("develop", "is for building while one edits"),
    (
        "device_cgroup_rules",
        "follow from `devices`: what isn't named can't be used",
    ),
    ("dns", "say network.dnsServers of the pod"),
    ("dns_opt", "say network.dnsOptions of the pod"),
    ("dns_search", "say network.dnsSearches of the pod"),
    ("domainname", "say network.domain of the pod"),
    ("endpoint_mode", "there is no virtual address"),
    (
        "extends",
        "import the file with everything in it: `docker compose config` prints that",
    ),
    (
        "gpus",
        "name the devices, or one of CDI, in `devices` of the container",
    ),
    (
        "include",
        "import the file with everything in it: `docker compose config` prints that",
    ),
    (
        "ipc",
        "the containers of a pod share one; `hostIpc` of the pod is the node's, for all of them",
    ),
    ("isolation", "is for Windows"),
    (
        "logging",
        "the node keeps what a container prints: `aurae logs`",
    ),
    ("mac_address", "a pod's network is the node's affair"),
    (
        "memswap_limit",
        "containers of a pod don't swap by themselves",
    ),
    (
        "mem_swappiness",
        "containers of a pod don't swap by themselves",
    ),
    (
        "mode",
        "there is one of each service: a node runs no replicas",
    ),
    (
        "network_mode",
        "the containers of a pod share a network of their own; hostNetwork is the node's",
    ),
    (
        "oom_kill_disable",
        "a container that exceeds its memory limit is killed",
    ),
    ("oom_score_adj", "it follows from requests and limits"),
    (
        "pid",
        "each container has its own; `hostPid` of the pod are the node's, for all of them",
    ),
    (
        "pids_limit",
        "a pod's containers have no such limit yet: a cell has `resources.pidsMax`",
    ),
    (
        "placement",
        "the context says which node: `aurae --context NAME apply`",
    ),
    ("platform", "a node runs images of its own platform"),
    ("rollback_config", "an apply replaces what differs"),
    ("runtime", "the node is the runtime"),
    (
        "scale",
        "there is one of each service: a node runs no replicas",
    ),
    ("shm_size", "a pod's containers have 64 MiB at /dev/shm"),
    (
        "storage_opt",
        "what a container writes to its root is kept in memory, to 256 MiB",
    ),
    ("sysctls", "a pod's containers have the kernel's settings"),
    ("ulimits", "a pod's containers have the node's limits"),
    ("update_config", "an apply replaces what differs"),
    ("userns_mode", "every pod has user ids of its own"),
];

/// Why a field can't be taken.
pub(super) fn why(field: &str) -> &'static str {
    let found = REASONS.iter().find(|(name, _)| *name == field);
    found.map_or(OTHER, |(_, why)| why)
}
