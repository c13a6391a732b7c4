// SPDX-License-Identifier: Apache-2.0
//! Containers of an ordinary user: the runtime isn't root, and what it makes is in a user
//! namespace with that user's one id.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::Story;
use crate::bed::{Bundle, text};

pub(crate) const STORIES: &[Story] = &[
    (
        "a_user_enters_a_container_that_was_not_started",
        a_user_enters_a_container_that_was_not_started,
    ),
    (
        "a_container_that_can_not_be_ended_whole_is_warned_of",
        a_container_that_can_not_be_ended_whole_is_warned_of,
    ),
    (
        "a_user_sets_the_clocks_of_a_time_namespace",
        a_user_sets_the_clocks_of_a_time_namespace,
    ),
    (
        "a_ptmx_that_is_named_is_that_of_the_containers_terminals",
        a_ptmx_that_is_named_is_that_of_the_containers_terminals,
    ),
];

/// No user of the machine's.
const USER: u32 = 61_234;

/// A bundle that belongs to the user, with the configuration that `spec --rootless` makes.
fn bundle(edit: impl FnOnce(&mut Value)) -> Bundle {
    let bundle = Bundle::new("true", |_| {});
    fs::copy(
        std::env::current_exe().unwrap(),
        bundle.path().join("aurae-oci"),
    )
    .unwrap();
    fs::remove_file(bundle.path().join("config.json")).unwrap();
    give(bundle.path());
    let folder = bundle.path().to_str().unwrap();
    let made = run(&bundle, &["spec", "--rootless", "--bundle", folder]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    bundle.edit(|config| {
        config["process"]["terminal"] = false.into();
        config["process"]["args"] = json!(["sleep", "1000"]);
        edit(config);
    });
    bundle
}

/// All below a folder, and itself.
fn give(path: &Path) {
    if path.is_symlink() {
        return;
    }
    chown(path, Some(USER), Some(USER)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

/// The runtime as the user. Its output goes to a file, which a container may hold open.
fn run(bundle: &Bundle, words: &[&str]) -> Output {
    let id = USER.to_string();
    let runtime = bundle.path().join("aurae-oci");
    let said = bundle.path().join("said");
    let _ = fs::remove_file(&said);
    let to = fs::File::create(&said).unwrap();
    let status = Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .arg(runtime)
        .args(bundle.command(words).get_args())
        .stdin(Stdio::null())
        .stdout(to.try_clone().unwrap())
        .stderr(to)
        .status()
        .unwrap();
    let stderr = fs::read(&said).unwrap();
    Output {
        status,
        stdout: stderr.clone(),
        stderr,
    }
}

fn succeed(bundle: &Bundle, words: &[&str]) -> String {
    let output = run(bundle, words);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{words:?}: {said}");
    said
}

fn a_user_enters_a_container_that_was_not_started() {
    let bundle = bundle(|_| {});
    let folder = bundle.path().to_str().unwrap();
    succeed(&bundle, &["create", "--bundle", folder, &bundle.id]);
    let said = succeed(&bundle, &["exec", &bundle.id, "echo", "entered"]);
    assert_eq!(said, "entered\n");
    succeed(&bundle, &["start", &bundle.id]);
    succeed(&bundle, &["delete", "--force", &bundle.id]);
}

fn a_container_that_can_not_be_ended_whole_is_warned_of() {
    let warned = |shared: bool| {
        let bundle = bundle(|config| {
            if !shared {
                return;
            }
            let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
            namespaces.retain(|namespace| namespace["type"] != "pid");
            // A proc of its own can't be mounted then.
            for mount in config["mounts"].as_array_mut().unwrap() {
                if mount["destination"] == "/proc" {
                    mount["type"] = "none".into();
                    mount["source"] = "/proc".into();
                    mount["options"] = json!(["rbind", "nosuid", "nodev", "noexec"]);
                }
            }
        });
        let folder = bundle.path().to_str().unwrap();
        let said = succeed(&bundle, &["create", "--bundle", folder, &bundle.id]);
        succeed(&bundle, &["delete", "--force", &bundle.id]);
        said.contains("strongly discouraged")
    };
    assert!(warned(true));
    assert!(!warned(false));
}

fn a_ptmx_that_is_named_is_that_of_the_containers_terminals() {
    let bundle = bundle(|config| {
        let device = json!({"path": "/dev/ptmx", "type": "c", "major": 5, "minor": 2});
        config["linux"]["devices"] = json!([device]);
        config["process"]["args"] = json!(["stat", "-Lc", "%t:%T", "/dev/ptmx"]);
    });
    let folder = bundle.path().to_str().unwrap();
    let said = succeed(&bundle, &["run", "--bundle", folder, &bundle.id]);
    assert_eq!(said, "5:2\n");
}

fn a_user_sets_the_clocks_of_a_time_namespace() {
    let bundle = bundle(|config| {
        let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
        namespaces.push(json!({"type": "time"}));
        config["linux"]["timeOffsets"] = json!({"boottime": {"secs": 1_000_000_000}});
        config["process"]["args"] = json!(["cat", "/proc/uptime"]);
    });
    let folder = bundle.path().to_str().unwrap();
    let said = succeed(&bundle, &["run", "--bundle", folder, &bundle.id]);
    let up: f64 = said.split_whitespace().next().unwrap().parse().unwrap();
    assert!(up > 1e9, "{said}");
}
