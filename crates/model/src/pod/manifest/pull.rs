// SPDX-License-Identifier: Apache-2.0
//! `imagePullSecrets`: Secrets beside the pod that hold what `docker login` has kept. They go with
//! the request that runs the pod, and the node keeps none of them.

use base64::Engine;
use serde_json::Value;

use super::Beside;
use super::reader::Fields;

/// The key of such a Secret.
const KEY: &str = ".dockerconfigjson";

/// Credentials for one registry.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct PullSecret {
    /// As in the full names of images.
    pub registry: String,
    /// With `password`.
    pub username: String,
    /// With `username`.
    pub password: String,
    /// In place of both.
    pub identity_token: String,
}

impl std::fmt::Debug for PullSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PullSecret({})", self.registry)
    }
}

/// Reads those that a pod names.
pub(super) fn secrets(fields: &mut Fields<'_>, beside: &Beside) {
    let given = beside.given.is_some();
    fields.each("imagePullSecrets", |mut named| {
        let name = named.text("name");
        if given {
            let words = format!(
                "is {name}: a node keeps no credentials of registries with what it is to run; \
                 configure the registry's on the node"
            );
            named.refuse("name", words);
        } else if let Err(words) = one(&name, beside) {
            named.refuse("name", words);
        }
        named.end();
    });
}

fn one(name: &str, beside: &Beside) -> Result<(), String> {
    let missing = || format!("is {name}, which the file doesn't have: put it beside the pod");
    let secret = beside.secret.get(name).ok_or_else(missing)?;
    let wrong = || format!("is {name}, which has no {KEY} with credentials by registry");
    let document: Value = secret
        .get(KEY)
        .and_then(|text| serde_json::from_str(text).ok())
        .ok_or_else(wrong)?;
    let all = document.get("auths").and_then(Value::as_object);
    for (key, entry) in all.ok_or_else(wrong)? {
        let secret = read(key, entry).ok_or_else(wrong)?;
        let mut pulls = beside.pulls.borrow_mut();
        pulls.retain(|it| it.registry != secret.registry);
        pulls.push(secret);
    }
    Ok(())
}

fn read(key: &str, entry: &Value) -> Option<PullSecret> {
    let text = |field: &str| {
        let text = entry.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let mut secret = PullSecret {
        registry: registry(key),
        username: text("username"),
        password: text("password"),
        identity_token: text("identitytoken"),
    };
    let auth = text("auth");
    if !auth.is_empty() {
        let bytes = base64::engine::general_purpose::STANDARD.decode(auth.trim());
        let pair = String::from_utf8(bytes.ok()?).ok()?;
        let (username, password) = pair.split_once(':')?;
        secret.username = username.to_owned();
        secret.password = password.to_owned();
    }
    // The registry takes one or the other; a name beside a token says nothing.
    if !secret.identity_token.is_empty() {
        secret.username.clear();
        secret.password.clear();
    }
    Some(secret)
}

/// Docker's keys are addresses as well as names.
fn registry(key: &str) -> String {
    let bare = key.trim_start_matches("https://");
    let bare = bare.trim_start_matches("http://");
    match bare.split('/').next().unwrap_or_default() {
        "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
        name => name.to_owned(),
    }
}
