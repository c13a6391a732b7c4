// SPDX-License-Identifier: Apache-2.0
//! What a container is given of the node: network devices, memory of some nodes, folders with
//! other owners.
//!
//! Devices are moved from a network namespace of the story's own, never from that of the machine:
//! a device that moves by mistake takes the machine's addresses and routes with it.

use std::process::{Command, Output};

use serde_json::json;

use crate::Story;
use crate::bed::{Bundle, text};

pub(crate) const STORIES: &[Story] = &[
    (
        "a_network_device_moves_in_with_its_name_and_addresses",
        a_network_device_moves_in_with_its_name_and_addresses,
    ),
    (
        "a_network_device_comes_back_when_its_container_can_t_be_made",
        a_network_device_comes_back_when_its_container_can_t_be_made,
    ),
    (
        "memory_comes_from_the_nodes_that_were_named",
        memory_comes_from_the_nodes_that_were_named,
    ),
    (
        "the_callers_processors_are_not_the_containers",
        the_callers_processors_are_not_the_containers,
    ),
    (
        "a_folder_of_the_root_is_mapped_in_a_user_namespace",
        a_folder_of_the_root_is_mapped_in_a_user_namespace,
    ),
];

const SHOW: &str = "busybox ip -o address show dev uplink; busybox ip -o link show dev uplink";

/// The bundle's container, from a network namespace that has the device `aurae-up`; then `after`
/// there.
fn with_device(bundle: &Bundle, after: &str) -> Output {
    let script = format!(
        "ip link add aurae-up type veth peer name aurae-down && ip link set aurae-down up && \
         ip address add 192.0.2.7/24 dev aurae-up && ip address add 2001:db8::7/64 dev aurae-up && \
         \"$@\"; code=$?; {after}; exit $code"
    );
    let folder = bundle.path().to_str().unwrap();
    let run = bundle.command(&["run", "--bundle", folder, &bundle.id]);
    // A link, since a shell starts it: this binary is the runtime by the name alone.
    let link = bundle.path().join("aurae-oci");
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &script, "sh"]).arg(link);
    command.args(run.get_args()).output().unwrap()
}

fn a_network_device_moves_in_with_its_name_and_addresses() {
    let bundle = Bundle::new(SHOW, |config| {
        config["linux"]["netDevices"] = json!({"aurae-up": {"name": "uplink"}});
    });
    let output = with_device(&bundle, "ip link show dev aurae-up && echo it stayed");
    let seen = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(seen.contains("192.0.2.7/24"), "{seen}");
    assert!(seen.contains("2001:db8::7/64"), "{seen}");
    assert!(seen.contains("LOWER_UP"), "it is up: {seen}");
    assert!(!seen.contains("it stayed"), "{seen}");
}

fn a_network_device_comes_back_when_its_container_can_t_be_made() {
    let bundle = Bundle::new("true", |config| {
        config["linux"]["netDevices"] = json!({"aurae-up": {"name": "uplink"}});
        config["process"]["args"] = json!(["no-such-program"]);
    });
    let output = with_device(&bundle, "ip -o address show dev aurae-up");
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("executable file not found"), "{said}");
    let seen = text(&output.stdout);
    assert!(seen.contains("192.0.2.7/24"), "{seen}\n{said}");
    assert!(seen.contains("2001:db8::7/64"), "{seen}\n{said}");
}

fn memory_comes_from_the_nodes_that_were_named() {
    let script = "head -n 1 /proc/self/numa_maps | awk '{print $2}'; sleep 30";
    let bundle = Bundle::new(script, |config| {
        config["linux"]["memoryPolicy"] =
            json!({"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"]});
    });
    bundle.create();
    bundle.succeed(&["start", &bundle.id]);
    let look = "head -n 1 /proc/self/numa_maps | awk '{print $2}'";
    let seen = bundle.succeed(&["exec", &bundle.id, "sh", "-c", look]);
    assert_eq!(seen.trim(), "bind=static:0");
}

fn the_callers_processors_are_not_the_containers() {
    let look = "grep Cpus_allowed_list /proc/self/status";
    let bundle = Bundle::new(&format!("{look}; sleep 30"), |_| {});
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own
        .lines()
        .find(|line| line.starts_with("Cpus_allowed_list"));
    let own = own.unwrap().to_owned();
    let first = own.split(['\t', '-', ',']).nth(1).unwrap().to_owned();
    let link = bundle.path().join("aurae-oci");
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &link).unwrap();
    let bound = |words: &[&str]| {
        let mut command = Command::new("taskset");
        command.args(["-c", &first]).arg(&link);
        command.args(bundle.command(words).get_args());
        command
    };
    let out = bundle.path().join("out");
    let folder = bundle.path().to_str().unwrap();
    let mut run = bound(&["run", "--detach", "--bundle", folder, &bundle.id]);
    run.stdout(std::fs::File::create(&out).unwrap());
    assert!(run.status().unwrap().success());
    let line = || std::fs::read_to_string(&out).unwrap();
    bundle.wait("a line", || line().ends_with('\n'));
    assert_eq!(line().trim(), own);
    let exec = bound(&["exec", &bundle.id, "sh", "-c", look]).output();
    assert_eq!(text(&exec.unwrap().stdout).trim(), own);
}

fn a_folder_of_the_root_is_mapped_in_a_user_namespace() {
    let bundle = Bundle::new("stat -c %u /etc/passwd /seen/passwd", |config| {
        let map = json!([{"containerID": 0, "hostID": 100_000, "size": 65_536}]);
        let linux = &mut config["linux"];
        linux["uidMappings"] = map.clone();
        linux["gidMappings"] = map;
        let namespaces = linux["namespaces"].as_array_mut().unwrap();
        namespaces.push(json!({"type": "user"}));
    });
    let etc = bundle.root().join("etc");
    bundle.edit(|config| {
        let mounts = config["mounts"].as_array_mut().unwrap();
        let map = json!([{"containerID": 0, "hostID": 100_000, "size": 65_536}]);
        mounts.push(json!({
            "destination": "/seen", "type": "bind", "source": etc, "options": ["bind"],
            "uidMappings": map, "gidMappings": map,
        }));
    });
    std::fs::create_dir(bundle.root().join("seen")).unwrap();
    for missing in ["proc", "sys", "dev"] {
        std::fs::create_dir(bundle.root().join(missing)).unwrap();
    }
    assert_eq!(bundle.run_through(), "65534\n0\n");
}
