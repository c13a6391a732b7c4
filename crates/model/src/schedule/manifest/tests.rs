// SPDX-License-Identifier: Apache-2.0
//! Manifests as people write them, and the words that bad ones get.

use serde_json::json;

use super::super::given::Place;
use super::super::many::Amount;
use super::super::spec::{Overlap, When, Work};
use super::*;

fn pod() -> Value {
    json!({"containers": [{"name": "app", "image": "nginx:1.27"}]})
}

fn template(spec: Value) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
}

fn deployment(change: impl FnOnce(&mut Value)) -> Value {
    let mut document = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template(pod()),
        },
    });
    change(&mut document["spec"]);
    document
}

fn refused(document: Value) -> Vec<String> {
    let problems = read(vec![document]).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

fn only(document: Value) -> Read {
    let all = read(vec![document]).unwrap_or_else(|problems| panic!("{problems:#?}"));
    all.schedules.into_iter().next().unwrap()
}

#[test]
fn a_deployment_is_replicas() {
    let web = only(deployment(|spec| {
        spec["strategy"] = json!({"rollingUpdate": {"maxUnavailable": 1, "maxSurge": "50%"}});
        spec["paused"] = json!(true);
        spec["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    }));
    let replicas = web.spec.replicas.unwrap();
    assert_eq!((replicas.count, replicas.hold), (3, true));
    assert_eq!(replicas.max_unavailable, Some(Amount::Number(1)));
    assert_eq!(replicas.max_surge, Some(Amount::Percent(50)));
    assert_eq!(web.spec.kind, "Deployment");
    assert_eq!(web.spec.node_labels["disk"], "ssd");
}

#[test]
fn bad_fields_are_refused_in_kubernetes_words() {
    for (change, wanted) in [
        (
            (|it: &mut Value| {
                drop(
                    it["template"]["spec"]["containers"][0]
                        .as_object_mut()
                        .unwrap()
                        .remove("image"),
                )
            }) as fn(&mut Value),
            "spec.template.spec.containers[0].image: Required value",
        ),
        (
            |it| it["replicas"] = json!(10_000),
            "spec.replicas: Invalid value: 10000: ",
        ),
        (
            |it| drop(it.as_object_mut().unwrap().remove("selector")),
            "spec.selector: Required value",
        ),
        (
            |it| it["selector"]["matchLabels"]["app"] = json!("db"),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not \
             match template `labels`",
        ),
        (
            |it| drop(it.as_object_mut().unwrap().remove("template")),
            "spec.template: Required value",
        ),
        (
            |it| it["template"]["spec"]["restartPolicy"] = json!("Never"),
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \
             \"Always\"",
        ),
        (
            |it| it["strategy"] = json!({"type": "Blue"}),
            "spec.strategy.type: Unsupported value: \"Blue\"",
        ),
        (|it| it["replica"] = json!(3), "spec.replica: "),
    ] {
        let problems = refused(deployment(change));
        assert!(
            problems.iter().any(|it| it.starts_with(wanted)),
            "{wanted}: {problems:#?}"
        );
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}});
    assert!(refused(service)[0].contains("a Service is not taken"));
    let old = json!({"apiVersion": "extensions/v1beta1", "kind": "Deployment"});
    assert_eq!(
        refused(old),
        ["apiVersion: Invalid value: \"extensions/v1beta1\": of a Deployment it is apps/v1"]
    );
    let twice = read(vec![deployment(|_| {}), deployment(|_| {})]).unwrap_err();
    assert!(
        twice[0]
            .to_string()
            .starts_with("metadata.name: Duplicate value: \"web\"")
    );
}

#[test]
fn jobs_and_cron_jobs() {
    let spec = json!({
        "completions": 5, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 1,
        "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 5,
        "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}],
        }},
    });
    let document = |kind: &str, spec: &Value| {
        let meta = json!({"name": "j"});
        json!({"apiVersion": "batch/v1", "kind": kind, "metadata": meta, "spec": spec})
    };
    let job = only(document("Job", &spec)).spec.job.unwrap();
    assert_eq!(
        (job.completions, job.parallelism, job.failures),
        (Some(5), Some(2), Some(1))
    );
    assert!(job.indexed && job.deadline.is_some() && job.remove_after.is_some());
    let mut wrong = spec.clone();
    wrong["template"]["spec"]["restartPolicy"] = json!("Always");
    let words = "spec.template.spec.restartPolicy: Unsupported value: \"Always\": supported \
                 values: \"OnFailure\", \"Never\"";
    assert_eq!(refused(document("Job", &wrong)), [words]);

    let mut one = spec;
    one.as_object_mut()
        .unwrap()
        .retain(|key, _| key == "template");
    let cron = json!({
        "schedule": "*/5 * * * *", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Replace",
        "startingDeadlineSeconds": 100, "suspend": true, "successfulJobsHistoryLimit": 2,
        "failedJobsHistoryLimit": 0, "jobTemplate": {"spec": one},
    });
    let read = only(document("CronJob", &cron)).spec;
    assert!(matches!(&read.when, When::Cron { zone, .. } if zone == "Europe/Berlin"));
    assert_eq!((read.overlap, read.suspended), (Overlap::Replace, true));
    assert_eq!((read.keep_succeeded, read.keep_failed), (Some(2), Some(0)));
    assert_eq!(read.job.unwrap().completions, Some(1));
    let mut bad = cron;
    bad["schedule"] = json!("* * *");
    assert!(refused(document("CronJob", &bad))[0].starts_with("spec.schedule: Invalid value"));
}

#[test]
fn what_pods_are_given_is_named_and_no_secret_is_in_a_spec() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"},
        "stringData": {"k": "hush"},
    });
    let web = deployment(|spec| {
        spec["template"]["spec"] = json!({
            "containers": [{
                "name": "app", "image": "nginx",
                "env": [
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}},
                ],
                "envFrom": [{"prefix": "C_", "configMapRef": {"name": "conf", "optional": true}}],
                "volumeMounts": [{"name": "files", "mountPath": "/etc/app"}],
            }],
            "volumes": [{"name": "files", "configMap": {"name": "conf"}}],
        });
    });
    let all = read(vec![secret, web]).unwrap();
    assert_eq!(all.configs[0].data["k"], "hush");
    let spec = &all.schedules[0].spec;
    assert!(!serde_json::to_string(&**spec).unwrap().contains("hush"));
    let Work::Pod { given, spec, .. } = &spec.work else {
        panic!("no pod");
    };
    assert_eq!(given.len(), 3);
    let texts = |config: &Config| {
        let text = |key: &str, text: &str| [(key.to_owned(), text.to_owned())].into();
        Some(match config.kind {
            Kind::Secret => text("k", "hu$h"),
            Kind::ConfigMap => text("a.conf", "x"),
        })
    };
    let filled = crate::schedule::given::filled(spec, given, texts).unwrap();
    let env = &filled.containers[0].env;
    assert_eq!(env[0].name, "C_a.conf");
    assert_eq!(
        env[1].from,
        crate::pod::env::From::Secret("hu$$h".to_owned())
    );
    assert!(matches!(&filled.volumes[0].source,
        crate::pod::volume::Source::Files(files) if files.files["a.conf"] == "x"));
    let without = |config: &Config| texts(config).filter(|_| config.kind == Kind::ConfigMap);
    let error = crate::schedule::given::filled(spec, given, without).unwrap_err();
    assert!(error.to_string().contains("Secret key"), "{error}");
    assert!(
        given
            .iter()
            .any(|it| matches!(&it.place, Place::EnvAll { .. }) && it.optional)
    );
}

#[test]
fn the_pods_of_a_job_fail_so_that_their_failures_are_counted() {
    for policy in ["OnFailure", "Never"] {
        let read = only(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"backoffLimit": 2, "template": {"spec": {
                "restartPolicy": policy, "containers": [{"name": "a", "image": "b"}],
            }}},
        }));
        let Work::Pod { spec, .. } = &read.spec.work else {
            panic!("{:?}", read.spec.work);
        };
        assert_eq!(spec.restart, crate::pod::spec::Restart::Never, "{policy}");
    }
}

#[test]
fn a_foreign_namespace_is_refused_by_its_path() {
    for (namespace, right) in [
        ("", true),
        ("default", true),
        ("system", true),
        ("shop", false),
    ] {
        let all = read(vec![json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": namespace}, "data": {"a": "b"},
        })]);
        let only = all.unwrap().only_in(&Tenant::system());
        assert_eq!(only.is_ok(), right, "{namespace}");
        if let Err(problems) = only {
            assert!(
                problems[0]
                    .to_string()
                    .starts_with("metadata.namespace: Invalid value")
            );
        }
    }
}

/// Several configs in one volume, which are put in when a run begins.
#[test]
fn configs_of_one_volume_are_given_together_and_none_takes_anothers_file() {
    let pod = |first: Value, second: Value| {
        let volume = json!({"name": "all", "projected": {"sources": [
            {"configMap": first}, {"secret": second}]}});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec":
            {"containers": [{"name": "a", "image": "x"}], "volumes": [volume]}})
    };
    let items = json!([{"key": "k", "path": "in/k", "mode": 0o400}]);
    let named = json!({"name": "conf"});
    let all = read(vec![pod(
        named.clone(),
        json!({"name": "key", "items": items}),
    )])
    .unwrap();
    let Work::Pod { given, spec, .. } = &all.schedules[0].spec.work else {
        panic!("no pod");
    };
    let texts = |config: &Config| {
        let text = |key: &str, text: &str| [(key.to_owned(), text.to_owned())].into();
        Some(match config.kind {
            Kind::Secret => text("k", "hush"),
            Kind::ConfigMap => text("a", "x"),
        })
    };
    let filled = crate::schedule::given::filled(spec, given, texts).unwrap();
    let crate::pod::volume::Source::Files(files) = &filled.volumes[0].source else {
        panic!("{filled:?}");
    };
    assert_eq!(
        (files.files["a"].as_str(), files.files["in/k"].as_str()),
        ("x", "hush")
    );
    assert!(files.secret && files.mode_of("in/k") == 0o400);
    // Of keys that aren't known before, the run is refused.
    let same = |_: &Config| Some([("k".to_owned(), "x".to_owned())].into());
    let all = read(vec![pod(named.clone(), json!({"name": "key"}))]).unwrap();
    let Work::Pod { given, spec, .. } = &all.schedules[0].spec.work else {
        panic!("no pod");
    };
    let error = crate::schedule::given::filled(spec, given, same).unwrap_err();
    assert!(error.to_string().contains("Secret key"), "{error}");
    let twice = json!([{"key": "k", "path": "a"}, {"key": "k", "path": "b"}]);
    let problems = read(vec![pod(named, json!({"name": "key", "items": twice}))]).unwrap_err();
    let path = "spec.volumes[0].projected.sources[1].secret.items";
    assert_eq!(problems[0].path, path, "{problems:?}");
}
