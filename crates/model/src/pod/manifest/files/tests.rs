// SPDX-License-Identifier: Apache-2.0
//! Volumes of files as people write them in manifests: several sources in one folder, and what a
//! pod is told of itself.

use serde_json::{Value, json};

use crate::pod::PodSpec;
use crate::pod::env::Fact;
use crate::pod::manifest::{Problem, read};
use crate::pod::told::{AmountOf, FileFact, Said};
use crate::pod::volume::{Files, Source};

fn documents(volume: Value) -> Vec<Value> {
    let mut volume = volume;
    volume["name"] = json!("v");
    let meta = json!({"name": "web", "labels": {"app": "shop"},
        "annotations": {"b": "x \"y\"", "a": "1\n2"}});
    let limits = json!({"cpu": "1", "ephemeral-storage": "8Mi"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {
        "containers": [{"name": "app", "image": "x", "resources":
            {"limits": limits, "requests": {"ephemeral-storage": "4Mi"}}}],
        "volumes": [volume]}});
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "conf"}, "data": {"a": "1", "b": "2"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "keys"}, "stringData": {"key": "hush"}});
    vec![config, secret, pod]
}

fn taken(volume: Value) -> Result<Files, Vec<Problem>> {
    let read = read(documents(volume))?;
    let spec = PodSpec::try_from(read[0].draft.clone()).unwrap();
    match &spec.volumes[0].source {
        Source::Files(files) => Ok(files.clone()),
        other => panic!("{other:?}"),
    }
}

fn texts(files: &Files) -> Vec<(&str, &str)> {
    let texts = files.files.iter();
    texts
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect()
}

fn from(path: &str, field: &str) -> Value {
    json!({"path": path, "fieldRef": {"apiVersion": "v1", "fieldPath": field}})
}

fn share(path: &str, resource: &str, divisor: Value) -> Value {
    json!({"path": path, "resourceFieldRef":
        {"containerName": "app", "resource": resource, "divisor": divisor}})
}

#[test]
fn several_sources_become_one_volume_with_the_modes_of_their_files() {
    let files = taken(json!({"projected": {"defaultMode": 288, "sources": [
        {"configMap": {"name": "conf", "items": [{"key": "a", "path": "in/a", "mode": 256}]}},
        {"secret": {"name": "keys"}},
        {"secret": {"name": "none", "optional": true}},
        {"configMap": {"name": "conf", "optional": true,
            "items": [{"key": "none", "path": "none"}]}},
        {"downwardAPI": {"items": [from("name", "metadata.name")]}}]}}))
    .unwrap();
    assert_eq!(texts(&files), [("in/a", "1"), ("key", "hush")]);
    assert_eq!((files.mode, files.mode_of("in/a")), (Some(0o440), 0o400));
    let name = FileFact {
        path: "name".to_owned(),
        from: Said::Fact(Fact::PodName),
    };
    assert_eq!(files.facts, [name]);
    let plain = json!({"configMap": {"name": "conf", "items":
        [{"key": "b", "path": "b", "mode": 384}]}});
    assert_eq!(taken(plain).unwrap().mode_of("b"), 0o600);
}

#[test]
fn a_pod_is_told_of_itself_in_files() {
    let files = taken(json!({"downwardAPI": {"defaultMode": 256, "items": [
        from("namespace", "metadata.namespace"), from("uid", "metadata.uid"),
        from("labels", "metadata.labels"), from("app", "metadata.labels['app']"),
        from("all", "metadata.annotations"), from("one", "metadata.annotations['a']"),
        from("none", "metadata.annotations['none']"),
        share("cpu", "limits.cpu", json!("1m")), share("memory", "requests.memory", json!("1Mi")),
        share("root", "limits.ephemeral-storage", json!("0")),
        share("asked", "requests.ephemeral-storage", json!("1Mi"))]}}))
    .unwrap();
    let all = "a=\"1\\n2\"\nb=\"x \\\"y\\\"\"";
    let expected = [("all", all), ("asked", "4"), ("none", ""), ("one", "1\n2")];
    assert_eq!(texts(&files), expected);
    let amount = |fact, divisor| {
        let container = "app".to_owned();
        Said::Amount(AmountOf {
            container,
            fact,
            divisor,
        })
    };
    let facts: Vec<_> = files
        .facts
        .iter()
        .map(|it| (it.path.as_str(), it.from.clone()))
        .collect();
    let expected = [
        ("namespace", Said::Fact(Fact::Tenant)),
        ("uid", Said::Fact(Fact::PodUid)),
        ("labels", Said::Labels),
        ("app", Said::Label("app".to_owned())),
        ("cpu", amount(Fact::CpuLimit, Some(1))),
        ("memory", amount(Fact::MemoryRequest, Some(1 << 20))),
        ("root", amount(Fact::StorageLimit, None)),
    ];
    assert_eq!(facts, expected);
}

/// Each problem by its path, below the volume.
fn refused(volume: Value) -> Vec<String> {
    let problems = taken(volume).unwrap_err();
    let paths = problems
        .iter()
        .map(|it| it.path.strip_prefix("spec.volumes[0].").unwrap());
    paths.map(str::to_owned).collect()
}

#[test]
fn paths_that_clash_and_what_a_node_hasnt_got_are_named() {
    let sources = |list: Value| json!({"projected": {"sources": list}});
    let (conf, keys) = (
        json!({"configMap": {"name": "conf"}}),
        json!({"secret": {"name": "keys"}}),
    );
    let item = |key: &str, path: &str| json!({"key": key, "path": path});
    for (volume, field) in [
        (
            sources(json!([keys, keys])),
            "projected.sources[1].secret.name",
        ),
        (
            sources(json!([conf, {"downwardAPI": {"items": [from("a", "metadata.uid")]}}])),
            "projected.sources[1].downwardAPI.items[0].path",
        ),
        (
            json!({"secret": {"secretName": "keys", "items":
                [item("key", "a"), item("key", "a")]}}),
            "secret.items[1].path",
        ),
        (
            sources(json!([{"serviceAccountToken": {"path": "token"}}])),
            "projected.sources[0].serviceAccountToken",
        ),
        (
            sources(json!([{"configMap": {"name": "no"}}])),
            "projected.sources[0].configMap.name",
        ),
        (sources(json!([])), "projected.sources"),
        (
            json!({"downwardAPI": {"items": [from("ip", "status.podIP")]}}),
            "downwardAPI.items[0].fieldRef.fieldPath",
        ),
        (
            json!({"downwardAPI": {"items": [share("a", "limits.gpu", json!("1"))]}}),
            "downwardAPI.items[0].resourceFieldRef.resource",
        ),
        (
            json!({"downwardAPI": {"items": [share("a", "limits.memory", json!("1m"))]}}),
            "downwardAPI.items[0].resourceFieldRef.divisor",
        ),
    ] {
        assert_eq!(refused(volume.clone()), [field], "{volume}");
    }
    let two = sources(json!([{"clusterTrustBundle": {"path": "ca"}}]));
    let expected = [
        "projected.sources[0]",
        "projected.sources[0].clusterTrustBundle",
    ];
    assert_eq!(refused(two), expected);
    let problems = taken(sources(json!([{"serviceAccountToken": {"path": "t"}}]))).unwrap_err();
    assert!(problems[0].words.contains("Secret"), "{problems:?}");
}

#[test]
fn a_part_of_a_volume_is_taken_with_its_variables() {
    let mut documents = documents(json!({"emptyDir": {}}));
    documents[2]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/a", "subPathExpr": "logs/$(POD)"}]);
    let read = read(documents).unwrap();
    let mount = &read[0].draft.containers[0].mounts[0];
    assert_eq!(mount.sub_path_expr, "logs/$(POD)");
}
