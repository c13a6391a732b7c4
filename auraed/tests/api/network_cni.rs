// SPDX-License-Identifier: Apache-2.0
//! Networks of CNI on a real node: Debian's plugins give pods interfaces and get them back, and
//! what plugins had begun when the daemon died is taken back by the next one.

use std::path::{Path, PathBuf};
use std::time::Instant;

use api::pod::v0 as wire;
use api::runtime::v0 as runtime;
use api::status::{Reason, from_status};
use serde_json::{Value, json};
use wire::WaitFor;

use crate::caller::Person;
use crate::containers::{WELL, cell_of, container, with_image};
use crate::network::{
    Bed, NODE4, SOON, bed_with, cell_of_name, nothing_is_left, port, remove, run, start, web,
};

const DEBIAN: &str = "/usr/lib/cni";

/// The folders of a node's plugins.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for name in ["net.d", "bin"] {
            std::fs::create_dir(place.path(name)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn configure(&self, file: &str, value: &Value) {
        std::fs::write(self.path("net.d").join(file), value.to_string()).unwrap();
    }

    /// A plugin of ours, which writes its calls down before it goes on as the script says.
    fn plugin(&self, name: &str, script: &str) {
        let text = format!(
            "#!/bin/sh\n\
             if [ $CNI_COMMAND = VERSION ]; then\n\
             echo '{{\"cniVersion\":\"1.0.0\",\"supportedVersions\":[\"1.0.0\"]}}'; exit; fi\n\
             echo $CNI_COMMAND >>{}\n{script}\n",
            self.path("calls").display()
        );
        testkit::program(&self.path("bin").join(name), &text).unwrap();
    }

    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn bed(&self, more: &[&str]) -> Option<Bed> {
        let quoted = |path: PathBuf| format!("\"{}\"", path.display());
        let configurations = quoted(self.path("net.d"));
        let configurations = format!("cell_network.cni_configurations={configurations}");
        let plugins = quoted(self.path("bin"));
        let plugins = format!("cell_network.cni_plugins=[{plugins},\"{DEBIAN}\"]");
        let all = [&[configurations.as_str(), plugins.as_str()], more].concat();
        bed_with(&all).await
    }

    /// Debian's bridge with addresses of its own, and ports of the node by `portmap`.
    fn pods(&self, to: &str) {
        let ipam = json!({"type": "host-local", "dataDir": self.path("leases"),
            "ranges": [[{"subnet": "10.99.0.0/24"}]], "routes": [{"dst": to}]});
        self.configure(
            "10-pods.conflist",
            &json!({"name": "pods", "cniVersion": "1.0.0", "plugins": [
                {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipam": ipam},
                {"type": "portmap", "capabilities": {"portMappings": true}},
            ]}),
        );
    }

    fn leases(&self) -> usize {
        let Ok(folder) = std::fs::read_dir(self.path("leases/pods")) else {
            return 0;
        };
        let names = folder.map(|f| f.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("10.")).count()
    }
}

fn can_run() -> bool {
    let has = Path::new(DEBIAN).join("bridge").exists() && Path::new("/usr/sbin/iptables").exists();
    if !has {
        testkit::skip("CNI needs the packages containernetworking-plugins and iptables");
    }
    has
}

fn on(mode: runtime::network::Mode, names: &[&str]) -> runtime::CellSpec {
    let network = |name: &&str| runtime::CniNetwork {
        name: (*name).to_owned(),
        ..Default::default()
    };
    runtime::CellSpec {
        network: Some(runtime::Network {
            mode: mode.into(),
            cni: names.iter().map(network).collect(),
            ..Default::default()
        }),
        ..cell_of(container())
    }
}

/// Nothing that plugins have made, and nothing that is kept of it.
fn plugins_have_nothing(bed: &Bed, place: &Place) {
    let kept = || {
        let folder = std::fs::read_dir(bed.node.folder().join("run/cni"));
        folder.map_or(0, Iterator::count)
    };
    let begun = Instant::now();
    while place.leases() + kept() > 0 {
        assert!(begun.elapsed() < SOON, "{} {}", place.leases(), kept());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

async fn reason(person: &Person, name: &str, cell: runtime::CellSpec) -> (Reason, String) {
    let refused = start(person, name, cell, web("x")).await.unwrap_err();
    let error = from_status(&refused);
    (error.reason.unwrap(), format!("{error:?}"))
}

#[tokio::test]
async fn a_pod_has_interfaces_of_plugins_beside_the_bridges_and_leaves_none() {
    let place = Place::new();
    place.pods("10.98.0.0/16");
    let lo = json!({"name": "lo", "cniVersion": "1.0.0", "type": "loopback"});
    place.configure("20-lo.conf", &lo);
    let open = "cell_network.cni_networks=[\"pods\"]";
    if !can_run() {
        return;
    }
    let Some(mut bed) = place.bed(&[open]).await else {
        return;
    };
    use runtime::network::Mode;
    // A member has those that the node says are members'.
    let (refused, _) = reason(&bed.ann, "web", on(Mode::Unspecified, &["lo"])).await;
    assert_eq!(refused, Reason::PermissionDenied);
    let network = on(Mode::Unspecified, &["pods"]).network;
    let script = "[ $(grep -c : /proc/net/dev) = 3 ] && exec sleep 900";
    let spec = wire::PodSpec {
        containers: vec![wire::Container {
            entrypoint: ["/bin/busybox", "sh", "-c", script]
                .map(str::to_owned)
                .into(),
            ..crate::pods::container("app", "")
        }],
        network,
        ..crate::pods::spec(Vec::new())
    };
    let pod = crate::pods::run(&bed.ann, "web", spec, WaitFor::Ready)
        .await
        .unwrap();
    let interfaces = pod.network.clone().unwrap().interfaces;
    let names: Vec<_> = interfaces
        .iter()
        .map(|it| (it.name.as_str(), it.cni.as_str()))
        .collect();
    assert_eq!(names, [("eth0", ""), ("net1", "pods")]);
    assert!(
        interfaces[1].addresses[0].starts_with("10.99.0."),
        "{pod:?}"
    );
    assert!(!interfaces[1].mac.is_empty(), "{pod:?}");
    assert_eq!(place.leases(), 1);
    bed.node.kill_daemon();
    bed.administrator = bed.node.administrator().await;
    bed.ann = bed
        .administrator
        .introduce(&bed.node, "acme", "bea", None)
        .await;
    assert_eq!(crate::pods::get(&bed.ann, "web").await.network, pod.network);
    assert_eq!(place.leases(), 1);
    crate::pods::remove(&bed.ann, "web", true).await.unwrap();
    plugins_have_nothing(&bed, &place);
    nothing_is_left(&bed);
    bed.node.stop();
}

#[tokio::test]
async fn a_network_of_plugins_can_be_the_nodes_default() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    place.pods("0.0.0.0/0");
    let Some(bed) = place.bed(&["cell_network.cni=\"pods\""]).await else {
        return;
    };
    with_image(&bed.administrator).await;
    let mut cell = on(runtime::network::Mode::Unspecified, &[]);
    if let Some(network) = &mut cell.network {
        network.ports = vec![port(8080, 80)];
    }
    // Plugins lead the node's own loopback to a port, too: that isn't a member's to have.
    let (refused, _) = reason(&bed.ann, "web", cell.clone()).await;
    assert_eq!(refused, Reason::PermissionDenied);
    start(&bed.administrator, "web", cell.clone(), web("plugged"))
        .await
        .unwrap();
    assert!(bed.world.get(NODE4, 8080).ends_with("plugged\n"));
    let status = cell_of_name(&bed.administrator, "web").await;
    let network = status.effective.unwrap().network.unwrap();
    assert_eq!(network.mode(), runtime::network::Mode::Cni);
    assert_eq!(status.network.unwrap().interfaces[0].name, "eth0");
    let (refused, _) = reason(&bed.administrator, "other", cell).await;
    assert_eq!(refused, Reason::Conflict);
    // The bridge was begun for nobody.
    assert!(!bed.ns.ip("-o link").contains("aurae0"));
    let here = "busybox ls /sys/class/net | busybox grep -q eth0";
    assert_eq!(
        run(&bed.ann, "plain", cell_of(container()), here).await,
        WELL
    );
    remove(&bed.administrator, "web").await;
    plugins_have_nothing(&bed, &place);
    bed.node.stop();
}

#[tokio::test]
async fn what_plugins_had_begun_when_the_daemon_died_is_taken_back() {
    let place = Place::new();
    let reached = place.path("reached");
    let hang = format!(
        "[ $CNI_COMMAND = DEL ] && exit 0; touch {}; sleep 60",
        reached.display()
    );
    place.plugin("slow", &hang);
    place.plugin(
        "wrong",
        "[ $CNI_COMMAND = DEL ] && exit 0; \
         echo '{\"code\":11,\"msg\":\"no lease is left\"}'; exit 1",
    );
    for name in ["slow", "wrong"] {
        let conf = json!({"name": name, "cniVersion": "1.0.0", "type": name});
        place.configure(&format!("{name}.conf"), &conf);
    }
    let open = "cell_network.cni_networks=[\"slow\",\"wrong\",\"none\"]";
    let Some(mut bed) = place.bed(&[open]).await else {
        return;
    };
    use runtime::network::Mode;
    let (refused, words) = reason(&bed.ann, "web", on(Mode::Cni, &["wrong"])).await;
    assert_eq!(refused, Reason::Degraded);
    assert!(words.contains("no lease is left"), "{words}");
    let (refused, _) = reason(&bed.ann, "web", on(Mode::Cni, &["none"])).await;
    assert_eq!(refused, Reason::Unsupported);
    assert_eq!(place.calls(), ["ADD", "DEL"]);
    plugins_have_nothing(&bed, &place);

    let asks = start(&bed.ann, "web", on(Mode::Cni, &["slow"]), web("x"));
    let begun = Instant::now();
    let waits = async {
        while !reached.exists() {
            assert!(begun.elapsed() < SOON);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        asked = asks => panic!("{asked:?}"),
        () = waits => {}
    }
    bed.node.kill_daemon();
    bed.administrator = bed.node.administrator().await;
    plugins_have_nothing(&bed, &place);
    assert_eq!(place.calls(), ["ADD", "DEL", "ADD", "DEL"]);
    bed.node.stop();
}

/// What a plugin leaves in a namespace that it isn't told stays as long as somebody holds that.
#[tokio::test]
async fn a_new_daemon_tells_plugins_the_namespace_of_a_cell_that_lived() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let noted = place.path("calls");
    let ptp = format!(
        "[ -e \"$CNI_NETNS\" ] && echo there >>{}; exec {DEBIAN}/ptp",
        noted.display()
    );
    place.plugin("told", &ptp);
    let ipam = json!({"type": "host-local", "dataDir": place.path("leases"),
        "ranges": [[{"subnet": "10.97.0.0/24"}]]});
    let conf = json!({"name": "told", "cniVersion": "1.0.0", "type": "told", "ipam": ipam});
    place.configure("told.conf", &conf);
    let open = "cell_network.cni_networks=[\"told\"]";
    let Some(mut bed) = place.bed(&[open]).await else {
        return;
    };
    use runtime::network::Mode;
    let cell = on(Mode::Cni, &["told"]);
    start(&bed.ann, "web", cell, web("x")).await.unwrap();
    assert_eq!(place.calls(), ["ADD", "there"]);
    bed.node.kill_daemon();
    bed.administrator = bed.node.administrator().await;
    bed.ann = bed
        .administrator
        .introduce(&bed.node, "acme", "bea", None)
        .await;
    remove(&bed.ann, "web").await;
    assert_eq!(place.calls(), ["ADD", "there", "DEL", "there"]);
    plugins_have_nothing(&bed, &place);
    bed.node.stop();
}
