// SPDX-License-Identifier: Apache-2.0
//! Manifests as people write them, and what can't be taken of others.

use serde_json::json;

use super::*;
use crate::cell::Propagation;
use crate::device::Device;
use crate::pod::PodSpec;
use crate::pod::env::{Fact, From};
use crate::pod::probe::Ask;
use crate::pod::volume::Source;

fn paths(documents: Vec<Value>) -> Vec<String> {
    let problems = read(documents).unwrap_err();
    problems.into_iter().map(|problem| problem.path).collect()
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
}

#[test]
fn a_pod_with_what_it_names_becomes_one_of_ours() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings"}, "data": {"a.conf": "x=$(HOME)", "LEVEL": "3"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": "keys"}, "data": {"token": "c2VjcmV0"}});
    let spec = json!({
        "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 5,
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db"]}],
        "initContainers": [{"name": "proxy", "image": "proxy", "restartPolicy": "Always"}],
        "containers": [{
            "name": "app", "image": "nginx:1.25", "imagePullPolicy": "Never",
            "command": ["nginx"], "args": ["-g", "daemon off;"],
            "ports": [{"name": "http", "containerPort": 80}],
            "env": [
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "LEVEL", "valueFrom":
                    {"configMapKeyRef": {"name": "settings", "key": "LEVEL"}}},
                {"name": "A", "valueFrom":
                    {"configMapKeyRef": {"name": "settings", "key": "a.conf"}}}],
            "envFrom": [{"secretRef": {"name": "keys"}, "prefix": "K_"}],
            "resources": {"requests": {"cpu": "250m"}, "limits": {"cpu": 1, "memory": "64Mi", "ephemeral-storage": "8Mi"}},
            "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}, "periodSeconds": 3},
            "securityContext": {"runAsUser": 33, "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}},
            "volumeMounts": [{"name": "conf", "mountPath": "/etc/app", "readOnly": true}]}],
        "volumes": [{"name": "conf", "configMap": {"name": "settings",
            "items": [{"key": "a.conf", "path": "a.conf"}]}}]});
    let read = read(vec![config, secret, pod(spec)]).unwrap();
    let [Manifest { name, draft, .. }] = &read[..] else {
        panic!("{read:?}");
    };
    assert_eq!(name, "web");
    let app = &draft.containers[0];
    assert_eq!(app.needs.cpu_request_millis, Some(250));
    assert_eq!(app.needs.cpu_limit_millis, Some(1000));
    assert_eq!(app.needs.memory_limit_bytes, Some(64 << 20));
    assert_eq!(app.root_bytes, Some(8 << 20));
    let Some(Ask::Http(http)) = app.liveness.as_ref().map(|it| it.ask.clone()) else {
        panic!("{app:?}");
    };
    assert_eq!((http.port, http.path.as_str()), (80, "/live"));
    let env = |name: &str| {
        app.env
            .iter()
            .find(|it| it.name == name)
            .unwrap()
            .from
            .clone()
    };
    assert_eq!(env("POD"), From::Fact(Fact::PodName));
    assert_eq!(env("K_token"), From::Value("secret".to_owned()));
    assert_eq!(env("A"), From::Value("x=$$(HOME)".to_owned()));
    let Source::Files(files) = &draft.volumes[0].source else {
        panic!("{draft:?}");
    };
    assert_eq!(files.files.len(), 1);
    assert!(draft.init_containers[0].sidecar);
    PodSpec::try_from(draft.clone()).unwrap();
}

#[test]
fn what_cant_be_taken_is_named_by_its_path_all_at_once() {
    let spec = json!({
        "dnsPolicy": "None",
        "nodeSelector": {"disk": "ssd"},
        "containers": [
            {"name": "a", "image": "x", "ports": [{"containerPort": 80, "hostIP": "node"}]},
            {"name": "b", "image": "x",
             "securityContext": {"privileged": true, "allowPrivilegeEscalation": false},
             "resources": {"limits": {"cpu": "much", "nvidia.com/gpu": 1}},
             "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.qosClass"}}}],
             "livenessProbe": {"httpGet": {"port": "none", "scheme": "GOPHER"}}}],
        "volumes": [{"name": "v", "emptyDir": {"medium": "HugePages"}},
            {"name": "w", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "c", "configMap": {"name": "none"}}]});
    let mut found = paths(vec![pod(spec), json!({"kind": "Service"})]);
    found.sort();
    let mut expected = [
        "document 2",
        "spec.containers[0].ports[0].hostIP",
        "spec.containers[1].env[0].valueFrom.fieldRef.fieldPath",
        "spec.containers[1].livenessProbe.httpGet.port",
        "spec.containers[1].livenessProbe.httpGet.scheme",
        "spec.containers[1].resources.limits.cpu",
        "spec.containers[1].resources.limits.nvidia.com/gpu",
        "spec.containers[1].securityContext.allowPrivilegeEscalation",
        "spec.dnsPolicy",
        "spec.nodeSelector",
        "spec.volumes[0].emptyDir.medium",
        "spec.volumes[1]",
        "spec.volumes[1].persistentVolumeClaim",
        "spec.volumes[2].configMap.name",
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(
        paths(vec![
            json!({"kind": "ConfigMap", "metadata": {"name": "a"}})
        ]),
        ["kind"]
    );
}

/// Labels of a program and of files are what container runtimes make of the same options.
#[test]
fn a_label_of_selinuxs_is_the_pods_unless_a_container_has_its_own() {
    let of = |options: Value| json!({"seLinuxOptions": options});
    let containers = json!([
        {"name": "a", "image": "x"},
        {"name": "b", "image": "x", "securityContext": of(json!({"type": "spc_t"}))}]);
    let labels = |spec: Value| {
        let read = read(vec![pod(spec)]).unwrap();
        let draft = &read[0].draft;
        let programs = draft.containers.iter().map(|it| it.selinux_label.clone());
        (
            programs.collect::<Vec<_>>(),
            draft.selinux_file_label.clone(),
        )
    };
    let owned = |label: &str| label.to_owned();
    let spc = owned("system_u:system_r:spc_t:s0");
    let options = of(json!({"level": "s0:c1,c2"}));
    let spec = json!({"securityContext": options, "containers": containers});
    let pods = owned("system_u:system_r:container_t:s0:c1,c2");
    let files = owned("system_u:object_r:container_file_t:s0:c1,c2");
    assert_eq!(labels(spec), (vec![pods, spc.clone()], files));
    let spec = json!({"containers": containers});
    let files = owned("system_u:object_r:container_file_t:s0");
    assert_eq!(labels(spec), (vec![String::new(), spc], files));
    let none = json!({"containers": [{"name": "a", "image": "x"}]});
    assert_eq!(labels(none), (vec![String::new()], String::new()));
}

#[test]
fn a_profile_of_apparmors_is_the_pods_unless_a_container_has_its_own() {
    let of = |profile: Value| json!({"appArmorProfile": profile});
    let named = |name: &str| of(json!({"type": "Localhost", "localhostProfile": name}));
    let spec = json!({
        "securityContext": named("pods"),
        "containers": [
            {"name": "a", "image": "x"},
            {"name": "b", "image": "x", "securityContext": named("own")},
            {"name": "c", "image": "x", "securityContext": of(json!({"type": "Unconfined"}))}]});
    let read = read(vec![pod(spec)]).unwrap();
    let containers = read[0].draft.containers.iter();
    let profiles: Vec<_> = containers.map(|it| it.apparmor_profile.as_str()).collect();
    assert_eq!(profiles, ["pods", "own", ""]);
    let spec = json!({
        "securityContext": of(json!({"type": "RuntimeDefault"})),
        "containers": [
            {"name": "a", "image": "x", "securityContext": of(json!({"type": "Localhost"}))}]});
    let mut found = paths(vec![pod(spec)]);
    found.sort();
    let expected = [
        "spec.containers[0].securityContext.appArmorProfile.localhostProfile",
        "spec.securityContext.appArmorProfile.type",
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_an_api_server_adds_changes_nothing() {
    let spec = json!({
        "containers": [{"name": "a", "image": "x", "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
        "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
        "securityContext": {}, "hostUsers": null, "tolerations": [{"key": "k"}]});
    let mut document = pod(spec);
    document["status"] = json!({"phase": "Running"});
    document["metadata"]["uid"] = json!("1");
    read(vec![document]).unwrap();
}

#[test]
fn a_network_is_taken_with_its_names_and_ports() {
    let spec = json!({
        "hostname": "web", "subdomain": "shop.example",
        "dnsConfig": {"nameservers": ["192.0.2.53"], "searches": ["example.org"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]},
        "initContainers": [{"name": "proxy", "image": "p", "restartPolicy": "Always",
            "ports": [{"containerPort": 53, "hostPort": 5353, "protocol": "UDP"}]}],
        "containers": [{"name": "a", "image": "x",
            "ports": [{"name": "http", "containerPort": 80, "hostPort": 8080,
                "hostIP": "192.0.2.2"}, {"containerPort": 81}],
            "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "livenessProbe": {"tcpSocket": {"port": "http"}}}]});
    let mut document = pod(spec);
    let taken = read(vec![document.clone()]).unwrap();
    let draft = &taken[0].draft;
    let network = &draft.network;
    let ports: Vec<_> = network.ports.iter().map(ToString::to_string).collect();
    assert_eq!(ports, ["5353:53/udp", "192.0.2.2:8080:80/tcp"]);
    assert_eq!(network.domain, "shop.example");
    assert_eq!(network.dns.options, ["ndots:2", "edns0"]);
    assert!(network.dns.add);
    assert_eq!(draft.containers[0].env[0].from, From::Fact(Fact::PodIp));
    PodSpec::try_from(draft.clone()).unwrap();
    document["spec"]["runtimeClassName"] = json!("microvm");
    let classed = read(vec![document.clone()]).unwrap();
    let class = classed[0].draft.sandbox_class.as_ref();
    assert_eq!(class.map(crate::name::Label::as_str), Some("microvm"));
    document["spec"]["dnsPolicy"] = json!("None");
    let alone = read(vec![document.clone()]).unwrap();
    assert!(!alone[0].draft.network.dns.add);
    // In the node's network ports say what the program does by itself.
    document["spec"]["hostNetwork"] = json!(true);
    let host = read(vec![document]).unwrap();
    assert!(host[0].draft.host_network && host[0].draft.network.ports.is_empty());
    PodSpec::try_from(host[0].draft.clone()).unwrap();
}

#[test]
fn a_last_word_is_taken_with_its_path_and_where_else_it_is_looked_for() {
    let of = |policy: &str| {
        json!({"containers": [{"name": "a", "image": "x",
            "terminationMessagePath": "/run/word", "terminationMessagePolicy": policy}]})
    };
    let taken = read(vec![pod(of("FallbackToLogsOnError"))]).unwrap();
    let mut app = taken[0].draft.containers[0].clone();
    assert_eq!(app.message_path(), Some("/run/word"));
    assert!(app.termination_message_from_log);
    assert_eq!(
        paths(vec![pod(of("Always"))]),
        ["spec.containers[0].terminationMessagePolicy"]
    );
    app.termination_message_path.clear();
    assert_eq!(app.message_path(), Some("/dev/termination-log"));
    app.image.clear();
    assert_eq!(app.message_path(), None);
}

#[test]
fn a_folder_of_the_node_is_read_only_in_words_or_has_an_owner() {
    let mount = |name: &str, read_only: bool| {
        let path = format!("/{name}");
        json!({"name": name, "mountPath": path, "readOnly": read_only})
    };
    let mut document = pod(json!({
        "containers": [{"name": "a", "image": "x",
            "volumeMounts": [mount("own", false), mount("read", true), mount("host", false)]}],
        "volumes": [{"name": "own", "emptyDir": {}},
            {"name": "read", "hostPath": {"path": "/srv/read"}},
            {"name": "host", "hostPath": {"path": "/srv/host"}}]}));
    let silent = "spec.containers[0].volumeMounts[2].readOnly";
    assert_eq!(paths(vec![document.clone()]), [silent]);
    let mut with = |annotations: Value| {
        document["metadata"]["annotations"] = annotations;
        read(vec![document.clone()])
    };
    let owner = with(json!({"pod.aurae/owner.host": "1000:33", "other": "x"})).unwrap();
    let Source::Host(host) = &owner[0].draft.volumes[2].source else {
        panic!("{owner:?}");
    };
    assert_eq!((host.owner_uid, host.owner_gid), (Some(1000), Some(33)));
    PodSpec::try_from(owner[0].draft.clone()).unwrap();
    for annotation in ["pod.aurae/owner.own", "pod.aurae/owner.none"] {
        let problems = with(json!({annotation: "1"})).unwrap_err();
        assert_eq!(problems[0].path, "spec.volumes", "{problems:?}");
    }
    let problems = with(json!({"pod.aurae/owner.host": "root"})).unwrap_err();
    assert!(problems[0].words.contains("UID:GID"), "{problems:?}");
}

#[test]
fn what_a_pod_writes_is_on_the_disk_where_an_annotation_says_so() {
    let mut document = pod(json!({
        "containers": [
            {"name": "a", "image": "x", "volumeMounts": [
                {"name": "sized", "mountPath": "/a"}, {"name": "plain", "mountPath": "/b"},
                {"name": "fast", "mountPath": "/c"}]},
            {"name": "b", "image": "x", "securityContext": {"readOnlyRootFilesystem": true}}],
        "volumes": [{"name": "sized", "emptyDir": {"sizeLimit": "2Gi"}},
            {"name": "plain", "emptyDir": {}},
            {"name": "fast", "emptyDir": {"medium": "Memory"}}]}));
    let mut with = |storage: &str| {
        document["metadata"]["annotations"] = json!({"pod.aurae/storage": storage});
        read(vec![document.clone()])
    };
    let on_disk = |draft: &Draft| {
        let roots = draft.containers.iter().map(|it| it.root_on_disk).collect();
        let sizes = draft.volumes.iter().map(|volume| match &volume.source {
            Source::Empty(empty) => empty.storage().unwrap().disk,
            other => panic!("{other:?}"),
        });
        (roots, sizes.collect())
    };
    let taken = with("disk").unwrap();
    let draft = &taken[0].draft;
    let (roots, sizes): (Vec<bool>, Vec<u64>) = on_disk(draft);
    assert_eq!(roots, [true, false], "one is read-only");
    assert_eq!(sizes, [2 << 30, 64 << 20, 0]);
    PodSpec::try_from(draft.clone()).unwrap();
    let memory = with("memory").unwrap();
    let (roots, sizes): (Vec<bool>, Vec<u64>) = on_disk(&memory[0].draft);
    assert_eq!((roots, sizes), (vec![false, false], vec![0, 0, 0]));
    let problems = with("ssd").unwrap_err();
    assert!(problems[0].words.contains("disk or memory"), "{problems:?}");
}

#[test]
fn how_long_a_pod_may_be_there_and_how_it_is_asked_to_end() {
    let mut document = pod(json!({
        "activeDeadlineSeconds": 90, "os": {"name": "linux"}, "priorityClassName": "low",
        "affinity": {"nodeAffinity": {}}, "topologySpreadConstraints": [{"maxSkew": 1}],
        "containers": [{"name": "a", "image": "x", "lifecycle": {"stopSignal": "SIGUSR1"},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}]}));
    let taken = read(vec![document.clone()]).unwrap();
    let draft = &taken[0].draft;
    assert_eq!(
        draft.active_deadline,
        Some(std::time::Duration::from_secs(90))
    );
    assert_eq!(draft.containers[0].stop_signal, "SIGUSR1");
    PodSpec::try_from(draft.clone()).unwrap();
    let spec = &mut document["spec"];
    spec["os"]["name"] = json!("windows");
    spec["containers"][0]["resizePolicy"][0]["restartPolicy"] = json!("RestartContainer");
    let expected = [
        "spec.os.name",
        "spec.containers[0].resizePolicy[0].restartPolicy",
    ];
    assert_eq!(paths(vec![document.clone()]), expected);
    document["spec"] = json!({"activeDeadlineSeconds": 0,
        "containers": [{"name": "a", "image": "x"}]});
    let none = read(vec![document]).unwrap().remove(0).draft;
    let refused = PodSpec::try_from(none).unwrap_err();
    assert_eq!(
        refused.field.as_deref(),
        Some("active_deadline"),
        "{refused}"
    );
}

#[test]
fn what_is_mounted_below_a_folder_of_the_node_is_seen_as_kubernetes_has_it() {
    let mount = |name: &str, more: Value| {
        let mut mount = json!({"name": name, "mountPath": format!("/{name}"), "readOnly": true});
        mount
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        mount
    };
    let with = |mounts: Value| {
        pod(
            json!({"containers": [{"name": "a", "image": "x", "volumeMounts": mounts}],
            "volumes": [{"name": "own", "emptyDir": {}},
                {"name": "plain", "hostPath": {"path": "/srv"}},
                {"name": "follows", "hostPath": {"path": "/media"}}]}),
        )
    };
    let taken = read(vec![with(json!([
        mount("own", json!({"mountPropagation": "HostToContainer"})),
        mount(
            "plain",
            json!({"mountPropagation": "None", "recursiveReadOnly": "Enabled"})
        ),
        mount("follows", json!({"mountPropagation": "HostToContainer"}))
    ]))]);
    let draft = &taken.unwrap()[0].draft;
    let below: Vec<_> = draft.containers[0]
        .mounts
        .iter()
        .map(|it| it.propagation)
        .collect();
    let expected = [
        Propagation::None,
        Propagation::Rprivate,
        Propagation::Rslave,
    ];
    assert_eq!(below, expected);
    PodSpec::try_from(draft.clone()).unwrap();

    let field = |name: &str| format!("spec.containers[0].volumeMounts[0].{name}");
    for (more, refused) in [
        (
            json!({"mountPropagation": "Bidirectional"}),
            "mountPropagation",
        ),
        (json!({"mountPropagation": "rslave"}), "mountPropagation"),
        (json!({"recursiveReadOnly": "Yes"}), "recursiveReadOnly"),
        (
            json!({"recursiveReadOnly": "Enabled", "readOnly": false}),
            "recursiveReadOnly",
        ),
        (
            json!({"recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer"}),
            "recursiveReadOnly",
        ),
    ] {
        let document = with(json!([mount("own", more.clone())]));
        assert_eq!(paths(vec![document]), [field(refused)], "{more}");
    }
}

#[test]
fn the_nodes_namespaces_and_devices_are_taken_as_kubernetes_has_them() {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let mut document = pod(json!({
        "hostPID": true, "hostIPC": true,
        "containers": [
            {"name": "a", "image": "x", "volumeMounts": [
                mount("data", "/data"), mount("fuse", "/dev/fuse"),
                {"name": "disk", "mountPath": "/dev/own", "readOnly": true}]},
            {"name": "b", "image": "x", "securityContext": {"privileged": true,
                "capabilities": {"drop": ["ALL"]}}},
            {"name": "c", "image": "x", "securityContext": {"procMount": "Unmasked"}}],
        "volumes": [{"name": "data", "emptyDir": {}},
            {"name": "fuse", "hostPath": {"path": "/dev/fuse", "type": "CharDevice"}},
            {"name": "disk", "hostPath": {"path": "/dev/vdb", "type": "BlockDevice"}}]}));
    let taken = read(vec![document.clone()]).unwrap();
    let draft = &taken[0].draft;
    assert!(draft.host_pid && draft.host_ipc);
    let volumes: Vec<_> = draft.volumes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(volumes, ["data"]);
    let [a, b, c] = &draft.containers[..] else {
        panic!("{draft:?}");
    };
    let device = |path: &str, target: &str, access: &str| Device {
        path: path.to_owned(),
        target: target.to_owned(),
        access: access.to_owned(),
    };
    let expected = [
        device("/dev/fuse", "/dev/fuse", ""),
        device("/dev/vdb", "/dev/own", "r"),
    ];
    assert_eq!(a.devices, expected);
    assert_eq!(a.mounts.len(), 1);
    assert!(!a.unconfined && !a.unmasked && !a.all_devices);
    assert_eq!(b.add_capabilities, ["ALL"]);
    assert!(b.drop_capabilities.is_empty() && b.unconfined && b.unmasked && b.all_devices);
    assert!(c.unmasked && !c.all_devices && c.add_capabilities.is_empty());
    PodSpec::try_from(draft.clone()).unwrap();

    let spec = &mut document["spec"];
    spec["containers"][0]["volumeMounts"][1]["subPath"] = json!("part");
    spec["containers"][2]["securityContext"]["procMount"] = json!("None");
    let wrong = [
        "spec.containers[0].volumeMounts[1].subPath",
        "spec.containers[2].securityContext.procMount",
    ];
    let mut found = paths(vec![document.clone()]);
    found.sort();
    assert_eq!(found, wrong);
    document["metadata"]["annotations"] = json!({"pod.aurae/owner.fuse": "0"});
    assert!(paths(vec![document]).contains(&"spec.volumes".to_owned()));
}

#[test]
fn variables_are_told_labels_and_annotations() {
    let of = |path: &str| json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let taken = |path: &str| {
        let mut document = pod(json!({"containers":
            [{"name": "a", "image": "x", "env": [of(path)]}]}));
        document["metadata"]["annotations"] = json!({"example.org/note": "cost $5"});
        let read = read(vec![document])?;
        PodSpec::try_from(read[0].draft.clone()).unwrap();
        Ok::<_, Vec<Problem>>(read[0].draft.containers[0].env[0].from.clone())
    };
    let label = From::Label("app.kubernetes.io/name".to_owned());
    assert_eq!(
        taken("metadata.labels['app.kubernetes.io/name']"),
        Ok(label)
    );
    let value = |text: &str| Ok(From::Value(text.to_owned()));
    assert_eq!(
        taken("metadata.annotations['example.org/note']"),
        value("cost $$5")
    );
    assert_eq!(taken("metadata.annotations['none']"), value(""));
    for path in [
        "metadata.labels",
        "metadata.labels['']",
        "metadata.labels[a]",
    ] {
        let problems = taken(path).unwrap_err();
        let field = "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath";
        assert_eq!(problems[0].path, field, "{path}");
    }
}

#[test]
fn probes_are_taken_with_their_scheme_host_and_grace() {
    let of = |get: Value| {
        json!({"containers": [{"name": "a", "image": "x", "livenessProbe":
            {"httpGet": get, "terminationGracePeriodSeconds": 7}}]})
    };
    let get = json!({"port": 443, "scheme": "HTTPS", "host": "192.0.2.7"});
    let taken = read(vec![pod(of(get))]).unwrap();
    PodSpec::try_from(taken[0].draft.clone()).unwrap();
    let probe = taken[0].draft.containers[0].liveness.clone().unwrap();
    assert_eq!(probe.grace, Some(std::time::Duration::from_secs(7)));
    let Ask::Http(http) = probe.ask else {
        panic!("{probe:?}");
    };
    assert!(http.tls);
    assert_eq!(http.host, "192.0.2.7".parse().ok());
    let named = json!({"port": 443, "host": "example.org"});
    assert_eq!(
        paths(vec![pod(of(named))]),
        ["spec.containers[0].livenessProbe.httpGet.host"]
    );
}

#[test]
fn parameters_of_the_kernel_are_taken_by_name() {
    let sysctl = |name: &str| json!({"name": name, "value": "1"});
    let spec = json!({"containers": [{"name": "a", "image": "x"}], "securityContext": {"sysctls":
        [sysctl("net.ipv4.ip_forward"), sysctl("net/ipv4/conf/eth0/forwarding")]}});
    let taken = read(vec![pod(spec)]).unwrap();
    let names: Vec<_> = taken[0].draft.sysctls.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["net.ipv4.conf.eth0.forwarding", "net.ipv4.ip_forward"]
    );
    PodSpec::try_from(taken[0].draft.clone()).unwrap();
}

#[test]
fn secrets_for_pulling_are_read_by_registry_and_never_shown() {
    // `ann:word` in base64.
    let auths = json!({"auths": {
        "https://index.docker.io/v1/": {"auth": "YW5uOndvcmQ="},
        "registry.test:5000": {"username": "bob", "password": "other"},
        "token.test": {"auth": "YW5uOndvcmQ=", "identitytoken": "long"}}});
    let secret = |text: String| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": "regcred"}, "stringData": {".dockerconfigjson": text}})
    };
    let document = pod(json!({"containers": [{"name": "a", "image": "x"}],
        "imagePullSecrets": [{"name": "regcred"}]}));
    let taken = read(vec![secret(auths.to_string()), document.clone()]).unwrap();
    let mut found = taken[0].pull_secrets.clone();
    found.sort_by(|a, b| a.registry.cmp(&b.registry));
    let of = |it: &PullSecret| {
        let texts = [&it.registry, &it.username, &it.password, &it.identity_token];
        texts.map(String::clone)
    };
    let found: Vec<_> = found.iter().map(of).collect();
    let expected = [
        ["docker.io", "ann", "word", ""],
        ["registry.test:5000", "bob", "other", ""],
        ["token.test", "", "", "long"],
    ];
    assert_eq!(found, expected);
    assert!(!format!("{taken:?}").contains("word"));
    let field = "spec.imagePullSecrets[0].name";
    assert_eq!(paths(vec![document.clone()]), [field]);
    let broken = secret("{}".to_owned());
    assert_eq!(paths(vec![broken, document]), [field]);
}

#[test]
fn a_filter_is_the_pods_unless_a_container_has_its_own() {
    let of = |profile: Value| json!({"seccompProfile": profile});
    let local = |name: &str| of(json!({"type": "Localhost", "localhostProfile": name}));
    let default = of(json!({"type": "RuntimeDefault"}));
    let spec = json!({
        "securityContext": local("pods.json"),
        "containers": [
            {"name": "a", "image": "x"},
            {"name": "b", "image": "x", "securityContext": local("own.json")},
            {"name": "c", "image": "x", "securityContext": default}]});
    let taken = read(vec![pod(spec)]).unwrap();
    let containers = taken[0].draft.containers.iter();
    let profiles: Vec<_> = containers.map(|it| it.seccomp_profile.as_str()).collect();
    assert_eq!(profiles, ["pods.json", "own.json", ""]);
    let spec = json!({"containers": [
        {"name": "a", "image": "x", "securityContext": of(json!({"type": "Localhost"}))}]});
    let field = "spec.containers[0].securityContext.seccompProfile.localhostProfile";
    assert_eq!(paths(vec![pod(spec)]), [field]);
}
