// SPDX-License-Identifier: Apache-2.0
//! Containers of a manifest.

use serde_json::Value;

use super::network::ports;
use super::probe::{hook, probe};
use super::reader::Fields;
use super::{Beside, Security, device, quantity, selinux};
use crate::cell::Propagation;
use crate::network::PublishedPort;
use crate::pod::env::{EnvVar, Fact, From};
use crate::pod::spec::{Container, Needs, Pull};
use crate::pod::volume::VolumeMount;
use crate::schedule::given::{Kind, Place};

pub(super) fn container(
    mut fields: Fields<'_>,
    beside: &Beside,
    pods: &Security,
    is_init: bool,
    published: &mut Vec<PublishedPort>,
) -> Container {
    let name = fields.text("name");
    let ports = ports(&mut fields, published);
    let pull = match fields.text("imagePullPolicy").as_str() {
        "" => Pull::Usual,
        "Always" => Pull::Always,
        "IfNotPresent" => Pull::IfNotPresent,
        "Never" => Pull::Never,
        _ => {
            fields.refuse("imagePullPolicy", "must be Always, IfNotPresent or Never");
            Pull::Usual
        }
    };
    let mut env = env_from(&mut fields, &name, beside);
    for variable in fields
        .each("env", |it| variable(it, &name, beside, pods))
        .into_iter()
        .flatten()
    {
        env.retain(|it| it.name != variable.name);
        env.push(variable);
    }
    let sidecar = match fields.text("restartPolicy").as_str() {
        "" => false,
        "Always" if is_init => true,
        _ => {
            fields.refuse(
                "restartPolicy",
                "can be taken as Always, of an init container, alone",
            );
            false
        }
    };
    let (needs, root_bytes) = needs(&mut fields);
    let mut container = Container {
        name,
        image: fields.text("image"),
        pull,
        entrypoint: fields.list("command"),
        args: fields.list("args"),
        cwd: fields.text("workingDir"),
        mounts: fields.each("volumeMounts", mount),
        needs,
        startup: probe(&mut fields, "startupProbe", &ports),
        liveness: probe(&mut fields, "livenessProbe", &ports),
        readiness: probe(&mut fields, "readinessProbe", &ports),
        stdin: fields.flag("stdin").unwrap_or(false),
        terminal: fields.flag("tty").unwrap_or(false),
        env,
        sidecar,
        ..Container::default()
    };
    if let Some(mut lifecycle) = fields.object("lifecycle") {
        container.pre_stop = hook(&mut lifecycle, "preStop", &ports);
        container.post_start = hook(&mut lifecycle, "postStart", &ports);
        container.stop_signal = lifecycle.text("stopSignal");
        lifecycle.end();
    }
    // What changes of a container's resources holds at once, and for what runs.
    fields.each("resizePolicy", |mut policy| {
        policy.only("resourceName", &["cpu", "memory"]);
        policy.only("restartPolicy", &["NotRequired"]);
        policy.end();
    });
    security(&mut fields, pods, &mut container);
    // A root that can't be written holds nothing.
    container.root_bytes = root_bytes.filter(|_| !container.read_only);
    message(&mut fields, &mut container);
    fields.only("stdinOnce", &["false"]);
    fields.end();
    container
}

fn message(fields: &mut Fields<'_>, container: &mut Container) {
    container.termination_message_path = fields.text("terminationMessagePath");
    container.termination_message_from_log = match fields.text("terminationMessagePolicy").as_str()
    {
        "" | "File" => false,
        "FallbackToLogsOnError" => true,
        _ => {
            let words = "must be File or FallbackToLogsOnError";
            fields.refuse("terminationMessagePolicy", words);
            false
        }
    };
}

fn security(fields: &mut Fields<'_>, pods: &Security, container: &mut Container) {
    let given = fields.take("securityContext").unwrap_or_default();
    let mut given = fields.within("securityContext", given);
    container.user = given.number_text("runAsUser");
    container.group = given.number_text("runAsGroup");
    container.read_only = given.flag("readOnlyRootFilesystem").unwrap_or(false);
    let escalates = given.flag("allowPrivilegeEscalation");
    container.no_new_privileges = escalates.map(|escalates| !escalates);
    if let Some(mut capabilities) = given.object("capabilities") {
        container.add_capabilities = capabilities.list("add");
        container.drop_capabilities = capabilities.list("drop");
        capabilities.end();
    }
    let filter = seccomp(&mut given).unwrap_or_else(|| pods.filter.clone());
    (container.unconfined, container.seccomp_profile) = filter;
    container.apparmor_profile = apparmor(&mut given).unwrap_or_else(|| pods.apparmor.clone());
    let own = selinux::labels(&mut given).map(|labels| labels.program);
    container.selinux_label = own.or_else(|| pods.selinux.clone()).unwrap_or_default();
    let user = match container.user.as_str() {
        "" => &pods.user,
        own => own,
    };
    // What user an image names is known when the container starts.
    container.non_root = given.flag("runAsNonRoot").unwrap_or(pods.non_root);
    if container.non_root && user == "0" {
        given.refuse("runAsNonRoot", "is said of a container whose user is 0");
    }
    container.unmasked = match given.text("procMount").as_str() {
        "" | "Default" => false,
        "Unmasked" => true,
        _ => {
            given.refuse("procMount", "must be Default or Unmasked");
            false
        }
    };
    if given.flag("privileged").unwrap_or(false) {
        if escalates == Some(false) {
            let words = "must not be false for a privileged container";
            given.refuse("allowPrivilegeEscalation", words);
        }
        device::unwall(container);
    }
    given.end();
}

/// Whether a profile leaves every system call, and the file of the node that says it; `None`: there
/// is none.
pub(super) fn seccomp(fields: &mut Fields<'_>) -> Option<(bool, String)> {
    let mut profile = fields.object("seccompProfile")?;
    let (kind, name) = (profile.text("type"), profile.text("localhostProfile"));
    match (kind.as_str(), name.is_empty()) {
        ("Localhost", false) | ("RuntimeDefault" | "Unconfined", true) => {}
        ("Localhost", true) => profile.refuse("localhostProfile", "must name the profile"),
        ("RuntimeDefault" | "Unconfined", false) => {
            profile.refuse("localhostProfile", "has a meaning with Localhost alone");
        }
        _ => {
            let words = format!("is {kind}: it must be RuntimeDefault, Unconfined or Localhost");
            profile.refuse("type", words);
        }
    }
    profile.end();
    Some((kind == "Unconfined", name))
}

/// The profile of AppArmor's by its name, empty for none at all; `None`: nothing is said. A node
/// has no profile of its own that `RuntimeDefault` could mean.
pub(super) fn apparmor(fields: &mut Fields<'_>) -> Option<String> {
    let mut profile = fields.object("appArmorProfile")?;
    let (kind, name) = (profile.text("type"), profile.text("localhostProfile"));
    match (kind.as_str(), name.is_empty()) {
        ("Localhost", false) | ("Unconfined", true) => {}
        ("Localhost", true) => profile.refuse("localhostProfile", "must name the profile"),
        ("Unconfined", false) => {
            profile.refuse("localhostProfile", "has a meaning with Localhost alone");
        }
        _ => {
            let words = format!("is {kind}: Localhost and Unconfined can be taken");
            profile.refuse("type", words);
        }
    }
    profile.end();
    Some(name)
}

fn mount(mut fields: Fields<'_>) -> VolumeMount {
    let mount = VolumeMount {
        volume: fields.text("name"),
        path: fields.text("mountPath"),
        sub_path: fields.text("subPath"),
        sub_path_expr: fields.text("subPathExpr"),
        read_only: fields.flag("readOnly").unwrap_or(false),
        propagation: propagation(&mut fields),
    };
    recursion(&mut fields, &mount);
    fields.end();
    mount
}

/// Also what is mounted below a volume of the node is seen, unless said otherwise
/// ([`super::volume::below`]).
fn propagation(fields: &mut Fields<'_>) -> Propagation {
    match fields.text("mountPropagation").as_str() {
        "HostToContainer" => return Propagation::Rslave,
        "" | "None" => {}
        "Bidirectional" => {
            let words = "is Bidirectional: a pod has a user namespace of its own here, and the \
                         kernel lets no mount out of one";
            fields.refuse("mountPropagation", words);
        }
        other => {
            let words = format!("is {other}: it must be None or HostToContainer");
            fields.refuse("mountPropagation", words);
        }
    }
    Propagation::None
}

/// What is read-only here is so with all that is mounted below it.
fn recursion(fields: &mut Fields<'_>, mount: &VolumeMount) {
    let asked = fields.text("recursiveReadOnly");
    match asked.as_str() {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" if !mount.read_only => {
            fields.refuse("recursiveReadOnly", "has a meaning with readOnly alone");
        }
        // What is mounted later comes as it is on the node.
        "Enabled" if mount.propagation == Propagation::Rslave => {
            fields.refuse("recursiveReadOnly", "can't be had with HostToContainer");
        }
        "Enabled" | "IfPossible" => {}
        other => {
            let words = format!("is {other}: it must be Disabled, IfPossible or Enabled");
            fields.refuse("recursiveReadOnly", words);
        }
    }
}

/// What it asks of the node, and what its root may hold.
fn needs(fields: &mut Fields<'_>) -> (Needs, Option<u64>) {
    let Some(mut given) = fields.object("resources") else {
        return Default::default();
    };
    let mut pair = |field: &str| {
        let Some(mut fields) = given.object(field) else {
            return (None, None, None);
        };
        let found = (
            quantity(&mut fields, "cpu", quantity::thousandths),
            quantity(&mut fields, "memory", quantity::whole),
            quantity(&mut fields, "ephemeral-storage", quantity::whole),
        );
        fields.end();
        found
    };
    // A request of storage is for a cluster's scheduler.
    let (cpu_request_millis, memory_request_bytes, _) = pair("requests");
    let (cpu_limit_millis, memory_limit_bytes, root_bytes) = pair("limits");
    given.end();
    let needs = Needs {
        cpu_request_millis,
        cpu_limit_millis,
        memory_request_bytes,
        memory_limit_bytes,
    };
    (needs, root_bytes)
}

pub(super) fn quantity(
    fields: &mut Fields<'_>,
    field: &str,
    parse: fn(&str) -> Option<u64>,
) -> Option<u64> {
    let text = match fields.take(field)? {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let parsed = parse(&text);
    if parsed.is_none() {
        fields.refuse(
            field,
            format!("is {text}, not a quantity such as 500m or 64Mi"),
        );
    }
    parsed
}

/// A text of another document, which is not expanded.
fn fixed(name: String, text: &str) -> EnvVar {
    EnvVar {
        name,
        from: From::Value(text.replace('$', "$$")),
    }
}

fn env_from(fields: &mut Fields<'_>, container: &str, beside: &Beside) -> Vec<EnvVar> {
    let all = |mut fields: Fields<'_>| {
        let prefix = fields.text("prefix");
        let place = Place::EnvAll {
            container: container.to_owned(),
            prefix: prefix.clone(),
        };
        let config = named(&mut fields, Kind::ConfigMap, beside, &place);
        let secret = named(&mut fields, Kind::Secret, beside, &place);
        fields.end();
        let texts = config.or(secret).unwrap_or_default().into_iter();
        let texts = texts.map(|(key, text)| fixed(format!("{prefix}{key}"), &text));
        texts.collect::<Vec<_>>()
    };
    let mut env: Vec<EnvVar> = Vec::new();
    for variable in fields.each("envFrom", all).into_iter().flatten() {
        env.retain(|it| it.name != variable.name);
        env.push(variable);
    }
    env
}

/// What the document of that name holds.
fn named(
    fields: &mut Fields<'_>,
    kind: Kind,
    beside: &Beside,
    place: &Place,
) -> Option<std::collections::BTreeMap<String, String>> {
    let (field, maps) = match kind {
        Kind::ConfigMap => ("configMapRef", &beside.config),
        Kind::Secret => ("secretRef", &beside.secret),
    };
    let mut fields = fields.object(field)?;
    let name = fields.text("name");
    let optional = fields.flag("optional").unwrap_or(false);
    let of = ("name", kind, name.as_str());
    if beside.gives(&mut fields, of, optional, place.clone()) {
        fields.end();
        return None;
    }
    let found = maps.get(&name).cloned();
    if found.is_none() && !optional {
        let words = format!("is {name}, which the file doesn't have: put it beside the pod");
        fields.refuse("name", words);
    }
    fields.end();
    found
}

fn variable(
    mut fields: Fields<'_>,
    container: &str,
    beside: &Beside,
    pods: &Security,
) -> Option<EnvVar> {
    let name = fields.text("name");
    let value = fields.text("value");
    let Some(mut from) = fields.object("valueFrom") else {
        fields.end();
        let from = From::Value(value);
        return Some(EnvVar { name, from });
    };
    let fact = fact(&mut from, pods);
    let of = (container, name.as_str());
    let config = key(&mut from, Kind::ConfigMap, beside, of);
    let secret = key(&mut from, Kind::Secret, beside, of);
    from.end();
    fields.end();
    match (fact, config.or(secret)) {
        (Some(from), _) => Some(EnvVar { name, from }),
        (None, Some(text)) => Some(fixed(name, &text)),
        (None, None) => None,
    }
}

/// The text of a key; an empty one where it is given later.
fn key(
    fields: &mut Fields<'_>,
    kind: Kind,
    beside: &Beside,
    (container, variable): (&str, &str),
) -> Option<String> {
    let (field, maps) = match kind {
        Kind::ConfigMap => ("configMapKeyRef", &beside.config),
        Kind::Secret => ("secretKeyRef", &beside.secret),
    };
    let mut fields = fields.object(field)?;
    let (name, key) = (fields.text("name"), fields.text("key"));
    let optional = fields.flag("optional").unwrap_or(false);
    let place = Place::Env {
        container: container.to_owned(),
        name: variable.to_owned(),
        key: key.clone(),
    };
    let of = ("name", kind, name.as_str());
    if beside.gives(&mut fields, of, optional, place) {
        fields.end();
        return Some(String::new());
    }
    let found = maps.get(&name).and_then(|map| map.get(&key)).cloned();
    if found.is_none() && !optional {
        let words = format!("is {key} of {name}, which the file doesn't have");
        fields.refuse("key", words);
    }
    fields.end();
    found
}

const FACTS: [(&str, Fact); 8] = [
    ("metadata.name", Fact::PodName),
    ("metadata.namespace", Fact::Tenant),
    ("metadata.uid", Fact::PodUid),
    ("spec.nodeName", Fact::NodeName),
    ("status.podIP", Fact::PodIp),
    ("status.podIPs", Fact::PodIps),
    ("status.hostIP", Fact::HostIp),
    ("status.hostIPs", Fact::HostIps),
];

fn fact(from: &mut Fields<'_>, pods: &Security) -> Option<From> {
    let Some(mut fields) = from.object("fieldRef") else {
        return resource(from).map(From::Fact);
    };
    fields.only("apiVersion", &["v1"]);
    let path = fields.text("fieldPath");
    let found = match (key_of(&path, "labels"), key_of(&path, "annotations")) {
        (Some(key), _) => Some(From::Label(key.to_owned())),
        // A pod of ours has none: what the manifest says is what it is told.
        (None, Some(key)) => {
            let text = pods.annotations.get(key).map_or("", String::as_str);
            Some(From::Value(text.replace('$', "$$")))
        }
        (None, None) => None,
    };
    if found.is_none() {
        fields.put("fieldPath", Value::String(path));
        return one_of(fields, "fieldPath", &FACTS).map(From::Fact);
    }
    fields.end();
    found
}

/// The key in `metadata.WHAT['KEY']`.
pub(super) fn key_of<'a>(path: &'a str, what: &str) -> Option<&'a str> {
    let rest = path.strip_prefix("metadata.")?.strip_prefix(what)?;
    let key = rest.strip_prefix("['")?.strip_suffix("']")?;
    (!key.is_empty()).then_some(key)
}

fn resource(from: &mut Fields<'_>) -> Option<Fact> {
    let mut fields = from.object("resourceFieldRef")?;
    fields.only("divisor", &["0", "1"]);
    let facts = [
        ("limits.cpu", Fact::CpuLimit),
        ("requests.cpu", Fact::CpuRequest),
        ("limits.memory", Fact::MemoryLimit),
        ("requests.memory", Fact::MemoryRequest),
        ("limits.ephemeral-storage", Fact::StorageLimit),
    ];
    one_of(fields, "resource", &facts)
}

fn one_of(mut fields: Fields<'_>, field: &str, facts: &[(&str, Fact)]) -> Option<Fact> {
    let text = fields.text(field);
    let fact = facts.iter().find(|(name, _)| *name == text);
    if fact.is_none() {
        let names: Vec<_> = facts.iter().map(|(name, _)| *name).collect();
        let more = match field {
            "fieldPath" => ", metadata.labels['KEY'], metadata.annotations['KEY']",
            _ => "",
        };
        let words = format!("is {text}; {}{more} can be taken", names.join(", "));
        fields.refuse(field, words);
    }
    fields.end();
    fact.map(|(_, fact)| *fact)
}
