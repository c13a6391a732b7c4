// SPDX-License-Identifier: Apache-2.0
//! What is answered to a call of `io.systemd.UserDatabase`: the records of dynamic users, as the
//! links beside their locks name them. Reads links and nothing else; how calls come is the
//! module's.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::unit::dynamic::{RANGE, is_name};

const SERVICE: &str = "io.systemd.DynamicUser";
const INTERFACE: &str = "io.systemd.UserDatabase.";

/// A call, as far as it is looked at.
#[derive(Deserialize)]
struct Call {
    method: String,
    #[serde(default)]
    parameters: Parameters,
    /// Several answers may come.
    #[serde(default)]
    more: bool,
    /// None is waited for.
    #[serde(default)]
    oneway: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Parameters {
    uid: Option<u32>,
    gid: Option<u32>,
    user_name: Option<String>,
    group_name: Option<String>,
    service: Option<String>,
}

/// Users or groups: a dynamic user has a group of its name and number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    User,
    Group,
}

/// The answers to a call; `None`: it is no call.
pub(super) fn answer(call: &[u8], folder: &Path) -> Option<Vec<Value>> {
    let call: Call = serde_json::from_slice(call).ok()?;
    let answers = match call.method.strip_prefix(INTERFACE) {
        Some(_) if call.parameters.service.as_deref() != Some(SERVICE) => {
            vec![failed("BadService")]
        }
        Some("GetUserRecord") => records(What::User, &call, folder),
        Some("GetGroupRecord") => records(What::Group, &call, folder),
        // A dynamic user is in no group but its own.
        Some("GetMemberships") => vec![failed("NoRecordFound")],
        _ => vec![json!({
            "error": "org.varlink.service.MethodNotFound",
            "parameters": { "method": call.method },
        })],
    };
    Some(if call.oneway { Vec::new() } else { answers })
}

fn failed(error: &str) -> Value {
    json!({ "error": format!("{INTERFACE}{error}"), "parameters": {} })
}

fn records(what: What, call: &Call, folder: &Path) -> Vec<Value> {
    let asked = &call.parameters;
    let (id, name) = match what {
        What::User => (asked.uid, asked.user_name.as_deref()),
        What::Group => (asked.gid, asked.group_name.as_deref()),
    };
    // (uid_t) -1 is no user.
    let id = id.filter(|it| *it != u32::MAX);
    let found = match (id, name) {
        (Some(id), _) => name_of(folder, id).map(|name| (id, name)),
        (None, Some(name)) => id_of(folder, name).map(|id| (id, name.to_owned())),
        (None, None) => return all(what, call.more, folder),
    };
    let Some((id, found)) = found else {
        return vec![failed("NoRecordFound")];
    };
    if name.is_some_and(|name| name != found) {
        return vec![failed("ConflictingRecordFound")];
    }
    vec![json!({ "parameters": record(what, id, &found) })]
}

/// Each one; all but the last say that more follow.
fn all(what: What, more: bool, folder: &Path) -> Vec<Value> {
    if !more {
        return vec![failed("EnumerationNotSupported")];
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|it| it.file_name().into_string().ok());
    let ids = names.filter_map(|it| it.strip_prefix("direct:")?.parse::<u32>().ok());
    let mut found: Vec<(u32, String)> = ids
        .filter_map(|id| Some((id, name_of(folder, id)?)))
        .collect();
    found.sort_unstable();
    let Some(((last, name), others)) = found.split_last() else {
        return vec![failed("NoRecordFound")];
    };
    let others = others.iter().map(|(id, name)| {
        let parameters = record(what, *id, name);
        json!({ "parameters": parameters, "continues": true })
    });
    let last = json!({ "parameters": record(what, *last, name) });
    others.chain([last]).collect()
}

/// As systemd has them ("JSON User Records").
fn record(what: What, id: u32, name: &str) -> Value {
    let record = match what {
        What::User => json!({
            "userName": name,
            "uid": id,
            "gid": id,
            "realName": "Dynamic User",
            "homeDirectory": "/",
            "shell": "/usr/sbin/nologin",
            "locked": true,
            "service": SERVICE,
            "disposition": "dynamic",
        }),
        What::Group => json!({
            "groupName": name,
            "gid": id,
            "description": "Dynamic Group",
            "service": SERVICE,
            "disposition": "dynamic",
        }),
    };
    json!({ "record": record, "incomplete": false })
}

/// The text of a link beside the locks.
fn link(folder: &Path, name: &str) -> Option<String> {
    let target = std::fs::read_link(folder.join(format!("direct:{name}"))).ok()?;
    target.into_os_string().into_string().ok()
}

fn name_of(folder: &Path, id: u32) -> Option<String> {
    let known = RANGE.contains(&id).then(|| link(folder, &id.to_string()));
    known.flatten().filter(|it| is_name(it))
}

fn id_of(folder: &Path, name: &str) -> Option<u32> {
    // A name is one folder's entry and leads to no other.
    let known = is_name(name).then(|| link(folder, name));
    let id = known.flatten()?.parse().ok()?;
    RANGE.contains(&id).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn users() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, id) in [("web", "61200"), ("mail", "61300")] {
            symlink(id, folder.path().join(format!("direct:{name}"))).unwrap();
            symlink(name, folder.path().join(format!("direct:{id}"))).unwrap();
        }
        // What isn't a dynamic user's number is none, whichever process has made the link.
        symlink("0", folder.path().join("direct:evil")).unwrap();
        symlink("evil", folder.path().join("direct:0")).unwrap();
        folder
    }

    fn ask(method: &str, parameters: Value, more: bool) -> Vec<Value> {
        let folder = users();
        let mut parameters = parameters;
        parameters["service"] = SERVICE.into();
        let call = json!({
            "method": format!("{INTERFACE}{method}"), "parameters": parameters, "more": more,
        });
        answer(call.to_string().as_bytes(), folder.path()).unwrap()
    }

    fn error(answers: &[Value]) -> &str {
        answers[0]["error"].as_str().unwrap_or_default()
    }

    #[test]
    fn a_user_is_found_by_its_name_and_by_its_number() {
        for parameters in [
            json!({ "userName": "web" }),
            json!({ "uid": 61200 }),
            json!({ "uid": 61200, "userName": "web" }),
        ] {
            let answers = ask("GetUserRecord", parameters, false);
            let record = &answers[0]["parameters"]["record"];
            assert_eq!(
                (&record["userName"], &record["uid"], &record["gid"]),
                (&json!("web"), &json!(61200), &json!(61200))
            );
        }
        let group = ask("GetGroupRecord", json!({ "gid": 61300 }), false);
        let record = &group[0]["parameters"]["record"];
        assert_eq!(
            (&record["groupName"], &record["gid"]),
            (&json!("mail"), &json!(61300))
        );
    }

    #[test]
    fn what_is_not_there_is_said_by_its_error() {
        let get = |parameters| ask("GetUserRecord", parameters, false);
        for parameters in [
            json!({ "userName": "ftp" }),
            json!({ "uid": 61201 }),
            json!({ "uid": 0 }),
            json!({ "userName": "evil" }),
            json!({ "userName": "../web" }),
        ] {
            assert_eq!(
                error(&get(parameters.clone())),
                "io.systemd.UserDatabase.NoRecordFound",
                "{parameters}"
            );
        }
        assert!(
            error(&get(json!({ "uid": 61300, "userName": "web" })))
                .ends_with("ConflictingRecordFound")
        );
        assert!(error(&get(json!({}))).ends_with("EnumerationNotSupported"));
        let members = ask("GetMemberships", json!({ "userName": "web" }), true);
        assert!(error(&members).ends_with("NoRecordFound"));
        assert!(error(&ask("Get", json!({}), false)).ends_with("MethodNotFound"));
        let folder = users();
        let other =
            br#"{"method":"io.systemd.UserDatabase.GetUserRecord","parameters":{"uid":61200}}"#;
        assert!(error(&answer(other, folder.path()).unwrap()).ends_with("BadService"));
        assert_eq!(answer(b"[1]", folder.path()), None);
    }

    #[test]
    fn all_are_told_one_after_the_other() {
        let answers = ask("GetUserRecord", json!({}), true);
        let names: Vec<_> = answers
            .iter()
            .map(|it| it["parameters"]["record"]["userName"].clone())
            .collect();
        assert_eq!(names, [json!("web"), json!("mail")]);
        assert_eq!(answers[0]["continues"], json!(true));
        assert_eq!(answers[1].get("continues"), None);
        let empty = tempfile::tempdir().unwrap();
        let call = json!({
            "method": format!("{INTERFACE}GetGroupRecord"),
            "parameters": { "service": SERVICE }, "more": true,
        });
        let none = answer(call.to_string().as_bytes(), empty.path()).unwrap();
        assert!(error(&none).ends_with("NoRecordFound"));
    }
}
