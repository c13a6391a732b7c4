// SPDX-License-Identifier: Apache-2.0
//! Stories of who calls and with what: two tenants that use the same names on one node, and input
//! that no client should send.

use anyhow::{Context, Result, ensure};
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story, inspect, powered_off};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "callers",
    options: Options::default,
    stories: &[
        Story {
            name: "two tenants use the same names and see nothing of each other",
            tell: two_tenants,
        },
        Story {
            name: "bad input is a plain error, and leaves nothing behind",
            tell: bad_input,
        },
    ],
    at_the_end: powered_off,
};

/// A user of each tenant, with a context of the tenant's name.
pub(crate) const PEOPLE: &str = "pki=/var/lib/aurae/pki; for who in red blue; do \
    aurae identity user create ann --tenant $who && \
    aurae identity issue ann --tenant $who --out /tmp/$who && \
    AURAE_CONFIG=/tmp/$who.toml aurae config set-context $who --current \
        --address unix:///run/aurae/aurae.sock --ca $pki/ca.pem \
        --certificate /tmp/$who/ann.pem --key /tmp/$who/ann.key || exit 1; done";

/// Runs a script as one of them.
pub(crate) fn of(node: &Node, tenant: &str, script: &str) -> Result<String> {
    node.sh(&format!("export AURAE_CONFIG=/tmp/{tenant}.toml; {script}"))
}

fn two_tenants(node: &mut Node) -> Result<()> {
    node.sh(PEOPLE)?;
    for tenant in ["red", "blue"] {
        let start = format!(
            "aurae cell run web && aurae run --cell web --name app -d -- \
             sh -c 'echo I am {tenant}; exec sleep 1000'"
        );
        of(node, tenant, &start)?;
    }
    for (tenant, other) in [("red", "blue"), ("blue", "red")] {
        let shown = of(node, tenant, "aurae ps -o json; aurae logs web/app")?;
        let apps = shown.matches("\"web/app\"").count();
        ensure!(apps == 1, "{tenant} sees {apps} of web/app: {shown}");
        ensure!(shown.contains(&format!("I am {tenant}\n")), "{shown}");
        ensure!(!shown.contains(other), "{tenant} sees {other}: {shown}");
        let script = format!("aurae --tenant {other} inspect web/app");
        let refused = node.try_sh(&format!("AURAE_CONFIG=/tmp/{tenant}.toml {script}"))?;
        let said = String::from_utf8_lossy(&refused.err).into_owned();
        ensure!(
            refused.status == 1 && said.contains("there is no object"),
            "`{script}` of {tenant}: {} {said}",
            refused.status
        );
        // Nor does the one's workload see the other's.
        let inside = "aurae run --cell web --name look --rm -- \
            sh -c 'grep -la \"[s]leep\" /proc/[0-9]*/cmdline | wc -l; hostname'";
        let inside = of(node, tenant, inside)?;
        ensure!(inside.starts_with("1\n"), "{tenant}'s cell shows: {inside}");
    }
    let blue = |what: &str| -> Result<u64> {
        let shown = of(node, "blue", "aurae inspect -o json web/app")?;
        let shown: serde_json::Value = serde_json::from_str(&shown)?;
        let pid = shown.pointer("/executable/pid");
        let pid = pid.and_then(serde_json::Value::as_u64);
        pid.with_context(|| format!("{what}: no pid in {shown}"))
    };
    let before = blue("before")?;
    of(node, "red", "aurae stop web/app && aurae rm -rf web")?;
    ensure!(blue("after")? == before, "blue's was stopped by red");
    let admin = node.sh("aurae ps -A")?;
    ensure!(admin.contains("blue") && !admin.contains("red"), "{admin}");
    of(node, "blue", "aurae rm -rf web").map(drop)
}

/// What is sent, and a word of what is said about it. NUL can't be in a program's arguments: it
/// comes from a program of ours.
const BAD: &[(&str, &str)] = &[
    ("aurae cell run \"$(printf 'a\\nb')\"", "path"),
    ("aurae cell run \"$(printf 'a\\033[2Jb')\"", "path"),
    ("aurae cell run \"$(printf 'a\\377b')\"", "UTF-8"),
    ("aurae cell run ../up", "path"),
    ("aurae cell run \"$(printf '%0300d' 0)\"", "path"),
    ("aurae cell run bad --memory -1", "-1"),
    (
        "aurae cell run bad --memory 99999999999999999999G",
        "memory",
    ),
    ("aurae cell run bad --cpus 1e400", "cpus"),
    ("aurae cell run bad --cpus=-0.5", "cpus"),
    ("aurae cell run bad --pids-limit=-7", "pids"),
    ("aurae run --name bad --nice 4000 -- true", "nice"),
    (
        "aurae run --name bad -- true $(seq -f %01000g 1700)",
        "argv",
    ),
    (
        "aurae -e 'await runtime.RunExecutable({executable: {ref: {path: \"boot/bad\"}, \
         spec: {argv: [\"a\\0b\"]}}})'",
        "NUL",
    ),
];

fn bad_input(node: &mut Node) -> Result<()> {
    let mut wrong = Vec::new();
    for (script, word) in BAD {
        let came = node.try_sh(script)?;
        let said = String::from_utf8_lossy(&came.err).into_owned();
        let raw = said.chars().any(|c| c.is_control() && c != '\n');
        let plain = [1, 2, 3, 125].contains(&came.status) && said.len() < 4096 && !raw;
        if !plain || !said.contains(word) {
            let bytes = said.len();
            let said: String = said.escape_debug().take(400).collect();
            let status = came.status;
            wrong.push(format!(
                "`{script}`: {status}, {bytes} bytes, no {word:?}: {said}"
            ));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let left = node.sh("aurae ps -A -o json | grep -c '\"bad' || true")?;
    ensure!(left.trim() == "0", "{left} of them are there");
    node.sh("aurae run --rm -- true")?;
    inspect(node, "boot/run").map(drop)
}
