// SPDX-License-Identifier: Apache-2.0
//! The specs of what runs: of a Pod, a Deployment, a DaemonSet, a Job, a CronJob.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::label::Labels;
use crate::pod::manifest::reader::Fields;
use crate::pod::manifest::{Beside, Metadata, metadata};
use crate::pod::spec::{self as pod, PodSpec};
use crate::schedule::many::{Amount, Job, Replicas};
use crate::schedule::spec::{Backoff, Draft, Missed, Overlap, Restart, When, Work};

/// The waits of Kubernetes between the runs of a job that fail.
const JOB_BACKOFF: (u64, u64) = (10, 360);
/// Lines of a history beside those of the runs that are kept.
const MORE_HISTORY: u32 = 10;

type Texts = BTreeMap<String, String>;

/// A pod as it was read, with what it says of nodes.
struct Template {
    labels: Texts,
    pod: pod::Draft,
    node: String,
    node_labels: Texts,
}

/// The draft of a kind's spec; `None`: something was refused that nothing can be made without.
pub(super) fn of(
    kind: &str,
    mut fields: Fields<'_>,
    meta: Metadata,
    beside: &Beside,
) -> Option<Draft> {
    let draft = match kind {
        "Pod" => return pod_draft(fields, meta, beside),
        "Deployment" => deployment(&mut fields, beside),
        "DaemonSet" => daemon_set(&mut fields, beside),
        "Job" => job(&mut fields, beside),
        _ => cron_job(&mut fields, beside),
    };
    fields.end();
    draft
}

fn pod_draft(fields: Fields<'_>, meta: Metadata, beside: &Beside) -> Option<Draft> {
    let template = pod_spec(fields, meta, beside)?;
    let restart = match template.pod.restart {
        pod::Restart::Always => Restart::Always,
        pod::Restart::OnFailure => Restart::OnFailure,
        pod::Restart::Never => Restart::No,
    };
    let mut draft = made(template, beside)?;
    draft.restart = restart;
    Some(draft)
}

/// `template`, of which the pod must be restarted so.
fn template(
    fields: &mut Fields<'_>,
    restarts: &[pod::Restart],
    beside: &Beside,
) -> Option<Template> {
    let Some(mut template) = fields.object("template") else {
        fields.refuse("template", "Required value");
        return None;
    };
    let meta = match template.take("metadata") {
        None => Metadata::default(),
        // A template needs no name.
        Some(Value::Object(mut map)) => {
            map.insert("name".to_owned(), Value::String("template".to_owned()));
            let mut with = template.within(
                "",
                Value::Object(
                    [("metadata".to_owned(), Value::Object(map))]
                        .into_iter()
                        .collect(),
                ),
            );
            let meta = metadata(&mut with);
            with.end();
            meta
        }
        Some(_) => {
            template.refuse("metadata", "must be an object");
            Metadata::default()
        }
    };
    let read = match template.object("spec") {
        Some(spec) => pod_spec(spec, meta, beside),
        None => {
            template.refuse("spec", "Required value");
            None
        }
    };
    if let Some(read) = &read
        && !restarts.contains(&read.pod.restart)
    {
        let names: Vec<_> = restarts.iter().map(|it| format!("\"{it:?}\"")).collect();
        let words = format!(
            "Unsupported value: \"{:?}\": supported values: {}",
            read.pod.restart,
            names.join(", ")
        );
        template.refuse("spec.restartPolicy", words);
    }
    template.end();
    read
}

fn pod_spec(mut fields: Fields<'_>, meta: Metadata, beside: &Beside) -> Option<Template> {
    let (node, node_labels) = (fields.text("nodeName"), fields.texts("nodeSelector"));
    required(&mut fields);
    let pod = crate::pod::manifest::spec(fields, beside, &meta.annotations);
    Some(Template {
        labels: meta.labels,
        pod,
        node,
        node_labels,
    })
}

/// What Kubernetes requires and a pod of ours does not.
fn required(fields: &mut Fields<'_>) {
    for list in ["initContainers", "containers"] {
        let Some(Value::Array(all)) = fields.take(list) else {
            if list == "containers" {
                fields.refuse(list, "Required value");
            }
            continue;
        };
        for (i, container) in all.iter().enumerate() {
            for field in ["name", "image"] {
                let given = container.get(field).and_then(Value::as_str);
                if given.unwrap_or_default().is_empty() {
                    fields.refuse(&format!("{list}[{i}].{field}"), "Required value");
                }
            }
        }
        fields.put(list, Value::Array(all));
    }
}

fn made(template: Template, beside: &Beside) -> Option<Draft> {
    let given = beside.given.as_ref().map(|it| it.take());
    let work = Work::Pod {
        labels: Labels::new(template.labels).ok()?,
        spec: Box::new(PodSpec::try_from(template.pod).ok()?),
        given: given.unwrap_or_default(),
    };
    let mut draft = Draft::new(work, When::Now);
    draft.node = template.node;
    draft.node_labels = template.node_labels;
    Some(draft)
}

/// The draft, or why our pods can't be so, by its path.
fn draft(
    fields: &mut Fields<'_>,
    path: &str,
    template: Option<Template>,
    beside: &Beside,
) -> Option<Draft> {
    let template = template?;
    if let Err(error) = Labels::new(template.labels.clone()) {
        fields.refuse(
            &format!("{path}metadata.labels"),
            format!("Invalid value: {error}"),
        );
    }
    if let Err(error) = PodSpec::try_from(template.pod.clone()) {
        let field = error.field.clone().unwrap_or_default();
        let words = format!("Invalid value: {error}");
        fields.refuse(&format!("{path}spec.{field}"), words);
    }
    made(template, beside)
}

/// A selector must be one of the template's labels.
fn selector(fields: &mut Fields<'_>, template: Option<&Template>) {
    let Some(mut selector) = fields.object("selector") else {
        return fields.refuse("selector", "Required value");
    };
    let wanted = selector.texts("matchLabels");
    // `matchExpressions` select among pods of others: a schedule knows its own.
    selector.end();
    let Some(template) = template else { return };
    let matches = |(key, value): (&String, &String)| template.labels.get(key) == Some(value);
    if wanted.is_empty() {
        fields.refuse("selector", "Invalid value: empty selector is invalid");
    } else if !wanted.iter().all(matches) {
        let labels = serde_json::to_string(&template.labels).unwrap_or_default();
        let words = format!("Invalid value: {labels}: `selector` does not match template `labels`");
        fields.refuse("template.metadata.labels", words);
    }
}

fn amount(fields: &mut Fields<'_>, field: &str) -> Option<Amount> {
    let text = match fields.take(field)? {
        Value::String(text) => text,
        other => other.to_string(),
    };
    match text.parse() {
        Ok(amount) => Some(amount),
        Err(words) => {
            fields.refuse(field, format!("Invalid value: {words}"));
            None
        }
    }
}

fn deployment(fields: &mut Fields<'_>, beside: &Beside) -> Option<Draft> {
    let mut replicas = Replicas {
        count: fields.number("replicas").unwrap_or(1),
        min_ready: fields.seconds("minReadySeconds"),
        progress: fields.seconds("progressDeadlineSeconds"),
        revisions: fields.number("revisionHistoryLimit"),
        hold: fields.flag("paused").unwrap_or(false),
        ..Replicas::default()
    };
    if let Some(mut strategy) = fields.object("strategy") {
        let kind = strategy.text("type");
        let rolling = strategy.object("rollingUpdate");
        let given = rolling.is_some();
        if let Some(mut rolling) = rolling {
            replicas.max_unavailable = amount(&mut rolling, "maxUnavailable");
            replicas.max_surge = amount(&mut rolling, "maxSurge");
            rolling.end();
        }
        match kind.as_str() {
            "" | "RollingUpdate" => {}
            "Recreate" if given => strategy.refuse(
                "rollingUpdate",
                "Forbidden: may not be specified when strategy `type` is 'Recreate'",
            ),
            "Recreate" => replicas.recreate = true,
            other => {
                let words = format!(
                    "Unsupported value: {other:?}: supported values: \"Recreate\", \
                     \"RollingUpdate\""
                );
                strategy.refuse("type", words);
            }
        }
        strategy.end();
    }
    let template = template(fields, &[pod::Restart::Always], beside);
    selector(fields, template.as_ref());
    let mut draft = draft(fields, "template.", template, beside)?;
    draft.replicas = Some(replicas);
    Some(draft)
}

fn daemon_set(fields: &mut Fields<'_>, beside: &Beside) -> Option<Draft> {
    let mut replicas = Replicas {
        count: 1,
        min_ready: fields.seconds("minReadySeconds"),
        revisions: fields.number("revisionHistoryLimit"),
        max_unavailable: Some(Amount::Number(1)),
        max_surge: Some(Amount::Number(0)),
        ..Replicas::default()
    };
    if let Some(mut strategy) = fields.object("updateStrategy") {
        strategy.only("type", &["RollingUpdate"]);
        if let Some(mut rolling) = strategy.object("rollingUpdate") {
            if let Some(surge) = amount(&mut rolling, "maxSurge") {
                replicas.max_surge = Some(surge);
            }
            if let Some(missing) = amount(&mut rolling, "maxUnavailable") {
                replicas.max_unavailable = Some(missing);
            }
            rolling.end();
        }
        strategy.end();
    }
    let template = template(fields, &[pod::Restart::Always], beside);
    selector(fields, template.as_ref());
    let mut draft = draft(fields, "template.", template, beside)?;
    draft.replicas = Some(replicas);
    Some(draft)
}

/// Fields of a job, beside its template.
fn job_fields(fields: &mut Fields<'_>) -> (Job, bool) {
    let completions: Option<u32> = fields.number("completions");
    let parallelism: Option<u32> = fields.number("parallelism");
    let mode = fields.text("completionMode");
    if !matches!(mode.as_str(), "" | "NonIndexed" | "Indexed") {
        let words =
            format!("Unsupported value: {mode:?}: supported values: \"Indexed\", \"NonIndexed\"");
        fields.refuse("completionMode", words);
    }
    let indexed = mode == "Indexed";
    if indexed && completions.is_none() {
        let words = "Required value: when completion mode is Indexed";
        fields.refuse("completions", words);
    }
    // What an API server writes.
    fields.known(&["selector"]);
    fields.only("manualSelector", &["false"]);
    let job = Job {
        // Without both, one run.
        completions: completions.or(parallelism.is_none().then_some(1)),
        parallelism,
        failures: fields.number("backoffLimit"),
        deadline: fields.seconds("activeDeadlineSeconds"),
        indexed,
        remove_after: fields.seconds("ttlSecondsAfterFinished"),
    };
    (job, fields.flag("suspend").unwrap_or(false))
}

fn job_draft(fields: &mut Fields<'_>, beside: &Beside) -> Option<Draft> {
    let (job, suspended) = job_fields(fields);
    let restarts = [pod::Restart::OnFailure, pod::Restart::Never];
    let mut template = template(fields, &restarts, beside);
    // A pod that begins its programs anew for ever never fails. Each failure ends the run, and
    // another run follows: all of them are counted by `backoffLimit`, as Kubernetes counts both.
    if let Some(template) = &mut template {
        template.pod.restart = pod::Restart::Never;
    }
    let mut draft = draft(fields, "template.", template, beside)?;
    let (first, most) = JOB_BACKOFF;
    draft.backoff = Backoff {
        first: Some(Duration::from_secs(first)),
        most: Some(Duration::from_secs(most)),
        stable: None,
    };
    draft.job = Some(job);
    draft.suspended = suspended;
    Some(draft)
}

fn job(fields: &mut Fields<'_>, beside: &Beside) -> Option<Draft> {
    job_draft(fields, beside)
}

fn cron_job(fields: &mut Fields<'_>, beside: &Beside) -> Option<Draft> {
    let pattern = fields.text("schedule");
    if pattern.is_empty() {
        fields.refuse("schedule", "Required value");
    }
    let zone = fields.text("timeZone");
    let overlap = match fields.text("concurrencyPolicy").as_str() {
        "" | "Allow" => Overlap::Allow,
        "Forbid" => Overlap::Forbid,
        "Replace" => Overlap::Replace,
        other => {
            let words = format!(
                "Unsupported value: {other:?}: supported values: \"Allow\", \"Forbid\", \"Replace\""
            );
            fields.refuse("concurrencyPolicy", words);
            Overlap::Forbid
        }
    };
    let start_within = fields.seconds("startingDeadlineSeconds");
    let suspended = fields.flag("suspend").unwrap_or(false);
    let kept = (
        fields.number("successfulJobsHistoryLimit").unwrap_or(3),
        fields.number("failedJobsHistoryLimit").unwrap_or(1),
    );
    let Some(mut template) = fields.object("jobTemplate") else {
        fields.refuse("jobTemplate", "Required value");
        return None;
    };
    // Labels of jobs, which are none of ours.
    template.known(&["metadata"]);
    let read = match template.object("spec") {
        Some(mut spec) => {
            let draft = job_draft(&mut spec, beside);
            spec.end();
            draft
        }
        None => {
            template.refuse("spec", "Required value");
            None
        }
    };
    template.end();
    let mut draft = read?;
    if let Some(job) = &mut draft.job
        && job.remove_after.take().is_some()
    {
        let words = "can't be taken: the history limits say how long runs stay";
        fields.refuse("jobTemplate.spec.ttlSecondsAfterFinished", words);
    }
    draft.when = When::Cron { pattern, zone };
    draft.overlap = overlap;
    draft.missed = Some(Missed::RunOnce);
    draft.start_within = start_within;
    draft.suspended = suspended;
    (draft.keep_succeeded, draft.keep_failed) = (Some(kept.0), Some(kept.1));
    let lines: u32 = kept.0.saturating_add(kept.1).saturating_add(MORE_HISTORY);
    draft.history = Some(lines.min(crate::schedule::spec::MAX_HISTORY));
    Some(draft)
}
