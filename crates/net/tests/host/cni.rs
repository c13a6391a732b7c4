// SPDX-License-Identifier: Apache-2.0
//! Plugins of CNI: Debian's own (`containernetworking-plugins`), and small ones that write down
//! what they are told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use net::cni::{Attachment, Cni, Error, Namespace, Settings};
use net::{HostPort, Protocol};
use serde_json::{Map, Value, json};

use crate::bed::{Ns, can_run};

const DEBIAN: &str = "/usr/lib/cni";

/// Folders of one test.
struct Place {
    folder: tempfile::TempDir,
    timeout: Duration,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            timeout: Duration::from_secs(20),
        };
        for name in ["net.d", "bin", "cache"] {
            std::fs::create_dir(place.path(name)).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, file: &str, value: &Value) {
        std::fs::write(self.path("net.d").join(file), value.to_string()).unwrap();
    }

    /// A plugin of ours: each call's command and configuration are a line each in `told`; then the
    /// script goes on.
    fn plugin(&self, name: &str, versions: &str, script: &str) {
        let told = self.path("told");
        let text = format!(
            "#!/bin/sh\n\
             if [ $CNI_COMMAND = VERSION ]; then\n\
             echo '{{\"cniVersion\":\"1.0.0\",\"supportedVersions\":[{versions}]}}'; exit; fi\n\
             printf '%s %s ' {name} $CNI_COMMAND >>{told}; cat >>{told}; echo >>{told}\n{script}\n",
            told = told.display()
        );
        testkit::program(&self.path("bin").join(name), &text).unwrap();
    }

    fn told(&self) -> Vec<(String, Value)> {
        let text = std::fs::read_to_string(self.path("told")).unwrap_or_default();
        text.lines()
            .map(|line| {
                let (call, config) = line.split_at(line.find('{').unwrap());
                (
                    call.trim().to_owned(),
                    serde_json::from_str(config).unwrap(),
                )
            })
            .collect()
    }

    async fn load(&self) -> net::cni::Result<Option<Cni>> {
        Cni::load(Settings {
            configurations: self.path("net.d"),
            plugins: vec![self.path("bin"), PathBuf::from(DEBIAN)],
            cache: self.path("cache"),
            timeout: self.timeout,
            apart: None,
        })
        .await
    }

    fn cached(&self) -> usize {
        std::fs::read_dir(self.path("cache")).unwrap().count()
    }
}

fn attachment(cell: &Ns, interface: &str) -> Attachment {
    Attachment {
        container: "00000000000000000000000000000001".to_owned(),
        interface: interface.to_owned(),
        netns: Namespace::Fd(cell.fd()),
        host_ports: Vec::new(),
        arguments: vec![("IgnoreUnknown".to_owned(), "1".to_owned())],
        capabilities: Map::new(),
    }
}

/// Runs on a thread in the node's namespace: plugins are its children, so they are there too.
fn on<T: Send>(node: &Ns, body: impl AsyncFnOnce() -> T + Send) -> T {
    node.run(|| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(body())
    })
}

fn debian() -> bool {
    if !Path::new(DEBIAN).join("bridge").exists() {
        testkit::skip("CNI needs the package containernetworking-plugins");
        return false;
    }
    can_run()
}

fn ipam(place: &Place) -> Value {
    json!({"type": "host-local", "dataDir": place.path("leases"),
        "ranges": [[{"subnet": "10.99.0.0/24"}], [{"subnet": "fd99::/64"}]],
        "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]})
}

fn leases(place: &Place) -> usize {
    let folder = std::fs::read_dir(place.path("leases").join("pods")).unwrap();
    let names = folder.map(|f| f.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with("10.") || name.starts_with("fd99"))
        .count()
}

#[test]
fn debian_s_bridge_and_tuning_connect_two_cells() {
    if !debian() {
        return;
    }
    let (place, node) = (Place::new(), Ns::new());
    place.configure(
        "10-broken.conflist",
        &json!({"name": "broken", "cniVersion": "1.0.0"}),
    );
    place.configure(
        "20-pods.conflist",
        &json!({"name": "pods", "cniVersion": "1.0.0", "plugins": [
            {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipam": ipam(&place)},
            {"type": "tuning", "sysctl": {"net.core.somaxconn": "77"}},
        ]}),
    );
    let (one, two) = (Ns::new(), Ns::new());
    on(&node, async || {
        let cni = place.load().await.unwrap().unwrap();
        assert_eq!(
            (cni.rejected().len(), cni.network().name.as_str()),
            (1, "pods")
        );
        let first = attachment(&one, "eth0");
        let mut second = attachment(&two, "eth0");
        second.container = "00000000000000000000000000000002".to_owned();
        let made = cni.add(&first).await.unwrap();
        assert_eq!(made.addresses.len(), 2);
        assert!(
            made.interfaces
                .iter()
                .any(|i| i.name == "eth0" && !i.sandbox.is_empty())
        );
        let his = cni.add(&second).await.unwrap().addresses[0]
            .address
            .addr()
            .to_string();
        two.serve(&format!("[{his}]:80"));
        one.who(&his, 80);
        let value = one.run(|| std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap());
        assert_eq!(value.trim(), "77");
        cni.check(&first).await.unwrap();
        assert_eq!(leases(&place), 4);
        // A cell whose interface its root has removed isn't as it was made.
        one.ip("link del eth0");
        assert!(matches!(cni.check(&first).await, Err(Error::Plugin { .. })));
        cni.del(&first).await.unwrap();
        cni.del(&first).await.unwrap();
        assert_eq!((leases(&place), place.cached()), (2, 1));
        // The next daemon, another configuration, and the cell gone: `gc` removes it as it was.
        std::fs::remove_file(place.path("net.d/20-pods.conflist")).unwrap();
        let lo = json!({"name": "lo", "cniVersion": "1.0.0", "type": "loopback"});
        place.configure("20-lo.conf", &lo);
        let cni = place.load().await.unwrap().unwrap();
        let lives = vec![(second.container.clone(), "eth0".to_owned())];
        cni.gc(&lives).await.unwrap();
        assert_eq!(leases(&place), 2);
        cni.gc(&[]).await.unwrap();
        assert_eq!((leases(&place), place.cached()), (0, 0));
    });
}

#[test]
fn debian_s_ptp_and_loopback_are_two_interfaces() {
    if !debian() {
        return;
    }
    let (place, node, cell) = (Place::new(), Ns::new(), Ns::new());
    place.configure(
        "1.conflist",
        &json!({"name": "pods", "cniVersion": "0.4.0", "plugins": [
        {"type": "ptp", "ipam": ipam(&place)}]}),
    );
    on(&node, async || {
        let cni = place.load().await.unwrap().unwrap();
        assert_eq!(cni.network().version, "0.4.0");
        for name in ["eth0", "eth1"] {
            let made = cni.add(&attachment(&cell, name)).await;
            // Both bring a default route in the same table: the second plugin says so.
            if name == "eth1" {
                let error = made.unwrap_err();
                assert!(error.to_string().starts_with("plugin ptp, ADD:"), "{error}");
            } else {
                let address = made.unwrap().addresses[0].address.addr().to_string();
                cell.serve(&format!("[{address}]:80"));
                node.who(&address, 80);
            }
        }
        // What the failed one had was taken back.
        assert_eq!((leases(&place), place.cached()), (2, 1));
        cni.del(&attachment(&cell, "eth0")).await.unwrap();
        assert_eq!((leases(&place), place.cached()), (0, 0));
    });
}

#[test]
fn plugins_are_told_what_they_ask_for() {
    if !can_run() {
        return;
    }
    let (place, node, cell) = (Place::new(), Ns::new(), Ns::new());
    let versions = r#""1.0.0","1.1.0""#;
    place.plugin(
        "one",
        versions,
        r#"echo '{"cniVersion":"1.1.0","ips":[{"address":"10.9.0.2/24"}]}'"#,
    );
    place.plugin(
        "two",
        versions,
        r#"echo '{"cniVersion":"1.1.0","ips":[{"address":"10.9.0.3/24"}]}'"#,
    );
    place.configure(
        "1.conflist",
        &json!({"name": "pods", "cniVersion": "1.0.0",
        "cniVersions": ["1.0.0", "1.1.0"], "plugins": [
        {"type": "one", "own": 1},
        {"type": "two", "capabilities": {"portMappings": true, "mac": false}}]}),
    );
    on(&node, async || {
        let cni = place.load().await.unwrap().unwrap();
        let mut asked = attachment(&cell, "eth0");
        asked.host_ports = vec![HostPort {
            protocol: Protocol::Tcp,
            address: None,
            host_port: 8080,
            port: 80,
            on_loopback: false,
        }];
        asked
            .capabilities
            .insert("mac".to_owned(), json!("02:00:00:00:00:01"));
        let made = cni.add(&asked).await.unwrap();
        assert_eq!(made.addresses[0].address.to_string(), "10.9.0.3/24");
        cni.status().await.unwrap();
        cni.gc(&[(asked.container.clone(), "eth0".to_owned())])
            .await
            .unwrap();
        // A later request need not know the ports: what was added is in the cache.
        cni.del(&Attachment {
            netns: Namespace::Gone,
            ..attachment(&cell, "eth0")
        })
        .await
        .unwrap();
    });
    they_were_told(&place.told());
}

fn they_were_told(told: &[(String, Value)]) {
    let calls: Vec<&str> = told.iter().map(|(call, _)| call.as_str()).collect();
    assert_eq!(
        calls,
        [
            "one ADD",
            "two ADD",
            "one STATUS",
            "two STATUS",
            "one GC",
            "two GC",
            "two DEL",
            "one DEL",
        ]
    );
    let (first, second) = (&told[0].1, &told[1].1);
    assert_eq!(
        (&first["own"], &first["name"], &first["cniVersion"]),
        (&json!(1), &json!("pods"), &json!("1.1.0"))
    );
    assert_eq!(first.get("prevResult").or(first.get("runtimeConfig")), None);
    assert_eq!(second["prevResult"]["ips"][0]["address"], "10.9.0.2/24");
    let mapping = json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}]);
    assert_eq!(second["runtimeConfig"], json!({"portMappings": mapping}));
    assert_eq!(second.get("capabilities"), None);
    assert_eq!(told[5].1["cni.dev/valid-attachments"][0]["ifname"], "eth0");
    for (_, removed) in &told[6..] {
        assert_eq!(removed["prevResult"]["ips"][0]["address"], "10.9.0.3/24");
    }
    assert_eq!(told[6].1["runtimeConfig"]["portMappings"], mapping);
}

#[test]
fn a_plugin_that_fails_is_named_and_what_was_before_it_is_taken_back() {
    if !can_run() {
        return;
    }
    let (place, node, cell) = (Place::new(), Ns::new(), Ns::new());
    place.plugin("one", r#""1.0.0""#, "echo '{}'");
    place.plugin(
        "two",
        r#""1.0.0""#,
        "[ $CNI_COMMAND = DEL ] && exit 0\n\
        echo '{\"code\":11,\"msg\":\"try again\",\"details\":\"no lease\"}'; exit 1",
    );
    place.configure(
        "1.conflist",
        &json!({"name": "pods", "cniVersion": "1.0.0",
        "plugins": [{"type": "one"}, {"type": "two"}]}),
    );
    let failed = on(&node, async || {
        let cni = place.load().await.unwrap().unwrap();
        cni.add(&attachment(&cell, "eth0"))
            .await
            .unwrap_err()
            .to_string()
    });
    assert_eq!(failed, "plugin two, ADD: try again (code 11): no lease");
    let told = place.told();
    let calls: Vec<&str> = told.iter().map(|(call, _)| call.as_str()).collect();
    assert_eq!(calls, ["one ADD", "two ADD", "two DEL", "one DEL"]);
    assert_eq!(place.cached(), 0);
    place.plugin("two", r#""1.0.0""#, "echo panic >&2; exit 2");
    let failed = on(&node, async || {
        let cni = place.load().await.unwrap().unwrap();
        cni.add(&attachment(&cell, "eth0")).await.unwrap_err()
    });
    assert!(
        matches!(failed, Error::Unreadable { ref said, .. } if said == "panic"),
        "{failed}"
    );
    // It could not be removed either: it is kept in mind until it can be.
    assert_eq!(place.cached(), 1);
}

/// What a plugin leaves in the background may hold its output open.
#[test]
fn a_plugin_that_leaves_a_child_is_not_waited_for_longer_than_itself() {
    if !can_run() {
        return;
    }
    let (place, node, cell) = (Place::new(), Ns::new(), Ns::new());
    let pid = place.path("pid");
    let script = format!(
        "sleep 600 & echo $! >{}\n\
        echo '{{\"cniVersion\":\"1.0.0\",\"ips\":[{{\"address\":\"10.9.0.2/24\"}}]}}'",
        pid.display()
    );
    place.plugin("leaves", r#""1.0.0""#, &script);
    place.configure(
        "1.conf",
        &json!({"name": "pods", "cniVersion": "1.0.0", "type": "leaves"}),
    );
    let begun = std::time::Instant::now();
    let added = on(&node, async || {
        let cni = place.load().await.unwrap().unwrap();
        cni.add(&attachment(&cell, "eth0")).await
    });
    let child: i32 = std::fs::read_to_string(&pid)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    kill(child);
    assert_eq!(added.unwrap().addresses.len(), 1);
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    // Where the plugin's end took it along, it is gone.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// What it added is known to it by its result alone: it is told that when it is to take it back.
#[test]
fn a_result_that_can_t_be_read_is_taken_back_with_it() {
    if !can_run() {
        return;
    }
    let (place, node, cell) = (Place::new(), Ns::new(), Ns::new());
    let script = r#"echo '{"cniVersion":"1.0.0","ips":[{"address":"nonsense"}]}'"#;
    place.plugin("odd", r#""1.0.0""#, script);
    place.configure(
        "1.conf",
        &json!({"name": "pods", "cniVersion": "1.0.0", "type": "odd"}),
    );
    on(&node, async || {
        let cni = place.load().await.unwrap().unwrap();
        cni.add(&attachment(&cell, "eth0")).await.unwrap_err();
    });
    let told = place.told();
    let calls: Vec<&str> = told.iter().map(|(call, _)| call.as_str()).collect();
    assert_eq!(calls, ["odd ADD", "odd DEL"]);
    assert_eq!(told[1].1["prevResult"]["ips"][0]["address"], "nonsense");
    assert_eq!(place.cached(), 0);
}

#[test]
fn a_plugin_that_hangs_is_killed_with_its_children() {
    if !can_run() {
        return;
    }
    let (mut place, node, cell) = (Place::new(), Ns::new(), Ns::new());
    // Time enough for it to begin.
    place.timeout = Duration::from_secs(10);
    let pid = place.path("pid");
    place.plugin(
        "slow",
        r#""1.0.0""#,
        &format!(
            "[ $CNI_COMMAND = DEL ] && exit 0\nsleep 600 & echo $! >{}; wait",
            pid.display()
        ),
    );
    place.configure(
        "1.conf",
        &json!({"name": "pods", "cniVersion": "1.0.0", "type": "slow"}),
    );
    let failed = on(&node, async || {
        let cni = place.load().await.unwrap().unwrap();
        cni.add(&attachment(&cell, "eth0")).await.unwrap_err()
    });
    assert!(
        matches!(failed, Error::Timeout { seconds: 10, .. }),
        "{failed}"
    );
    let child = std::fs::read_to_string(&pid).unwrap();
    let stat = format!("/proc/{}/stat", child.trim());
    let gone = || std::fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z"));
    let until = std::time::Instant::now() + crate::bed::PATIENCE;
    while !gone() {
        assert!(
            std::time::Instant::now() < until,
            "the plugin's child lives"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The daemon's end in the middle of an addition: the next one finds it, and the plugin ended too.
#[test]
fn what_a_dead_daemon_had_begun_is_collected() {
    if !can_run() {
        return;
    }
    let (place, node, cell) = (Place::new(), Ns::new(), Ns::new());
    let reached = place.path("reached");
    place.plugin("one", r#""1.0.0""#, "echo '{}'");
    place.plugin(
        "two",
        r#""1.0.0""#,
        &format!(
            "[ $CNI_COMMAND = DEL ] && exit 0\nmkfifo {0}.wait; touch {0}; read x <{0}.wait",
            reached.display()
        ),
    );
    let plugins = json!([{"type": "one"}, {"type": "two"}]);
    let list = json!({"name": "pods", "cniVersion": "1.0.0", "plugins": plugins});
    place.configure("1.conflist", &list);
    on(&node, async || {
        let cni = place.load().await.unwrap().unwrap();
        let asked = attachment(&cell, "eth0");
        let until = std::time::Instant::now() + crate::bed::PATIENCE;
        let seen = async {
            while !reached.exists() {
                assert!(std::time::Instant::now() < until);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            added = cni.add(&asked) => panic!("{added:?}"),
            () = seen => {}
        }
        drop(cni);
        assert_eq!(place.cached(), 1);
        let cni = place.load().await.unwrap().unwrap();
        cni.gc(&[]).await.unwrap();
        assert_eq!(place.cached(), 0);
    });
    let told = place.told();
    let calls: Vec<&str> = told.iter().map(|(call, _)| call.as_str()).collect();
    assert_eq!(calls, ["one ADD", "two ADD", "two DEL", "one DEL"]);
}

#[test]
fn a_folder_without_a_valid_file_says_why() {
    if !can_run() {
        return;
    }
    let (place, node) = (Place::new(), Ns::new());
    assert!(on(&node, async || place.load().await.unwrap().is_none()));
    let missing = json!({"name": "pods", "cniVersion": "1.0.0", "type": "nowhere"});
    place.configure("1.conf", &missing);
    let said = on(&node, async || place.load().await.unwrap_err().to_string());
    assert!(said.starts_with("plugin nowhere: not found in"), "{said}");
    place.plugin("old", r#""0.4.0""#, "true");
    place.configure(
        "0.conf",
        &json!({"name": "pods", "cniVersion": "1.0.0", "type": "old"}),
    );
    let said = on(&node, async || place.load().await.unwrap_err().to_string());
    assert!(
        said.contains("not all of its plugins speak version 1.0.0"),
        "{said}"
    );
}
