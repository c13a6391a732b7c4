// SPDX-License-Identifier: Apache-2.0
//! Stories of two machines: pods of one node that run on the other, which has a kernel of its own.

use anyhow::{Result, ensure};
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story, powered_off};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "elsewhere",
    options,
    stories: &[
        Story {
            name: "a pod has another machine's kernel, and its node's commands and policies",
            tell: another_kernel,
        },
        Story {
            name: "a pod of a machine whose power was cut has failed, and runs again on it",
            tell: power_cut,
        },
    ],
    at_the_end: powered_off,
};

/// Where the credentials for the other machine will be: the node needs them when it connects.
const FILES: &str = "/root/vm";

fn options() -> Options {
    let key = |key: &str, value: &str| format!("aurae.sandboxes.vm.{key}={value}");
    let file = |name: &str| format!("{FILES}/{name}");
    let words = [
        key("address", "https://BESIDE"),
        key("ca", &file("ca.pem")),
        key("certificate", &file("node.pem")),
        key("key", &file("node.key")),
    ];
    let other = Options {
        append: "aurae.api.listen=['[::]:7443']".to_owned(),
        reboots: true,
        ..Options::default()
    };
    Options {
        append: words.join(" "),
        beside: Some(Box::new(other)),
        ..Options::default()
    }
}

const MANIFEST: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: far}
spec:
  runtimeClassName: vm
  terminationGracePeriodSeconds: 0
  containers:
  - name: app
    command: [sh, -c, 'cat /proc/sys/kernel/random/boot_id; while :; do sleep 1; done']
    resources: {limits: {memory: 48Mi}}
";

const BOOT: &str = "cat /proc/sys/kernel/random/boot_id";

/// The other machine's administrator gives this node a certificate; the key stays here.
fn introduce(node: &mut Node) -> Result<()> {
    node.sh(&format!(
        "mkdir -p {FILES} && cd {FILES} && aurae identity csr --key node.key > csr"
    ))?;
    let csr = node.sh(&format!("cat {FILES}/csr"))?;
    let other = node.beside()?;
    other.sh(&format!("cat > /root/csr <<'END'\n{csr}END"))?;
    other.sh("aurae identity user create node1 --administrator")?;
    other.sh("aurae identity issue node1 --csr /root/csr > /root/node.pem")?;
    let certificate = other.sh("cat /root/node.pem")?;
    let ca = other.sh("cat /var/lib/aurae/pki/ca.pem")?;
    node.sh(&format!("cat > {FILES}/node.pem <<'END'\n{certificate}END"))?;
    node.sh(&format!("cat > {FILES}/ca.pem <<'END'\n{ca}END"))?;
    node.sh(&format!("cat > {FILES}/pod.yaml <<'END'\n{MANIFEST}END"))?;
    let answers = "until aurae node info | grep -q 'sandboxes.vm *yes'; do sleep 0.2; done";
    node.sh(answers).map(drop)
}

fn another_kernel(node: &mut Node) -> Result<()> {
    // Before that it says why.
    let silent = node.sh("aurae node info | grep sandboxes.vm")?;
    ensure!(silent.contains("no"), "{silent}");
    introduce(node)?;
    let here = node.sh(BOOT)?;
    let there = node.beside()?.sh(BOOT)?;
    ensure!(here != there, "both are {here}");
    node.sh(&format!("aurae pod run --wait ready -f {FILES}/pod.yaml"))?;
    let shown = node.sh("aurae pod describe far")?;
    ensure!(shown.contains("vm"), "{shown}");
    let exec = format!("aurae pod exec far -- {BOOT}");
    ensure!(node.sh(&exec)? == there, "it runs here");
    ensure!(node.sh("aurae pod logs far")?.contains(there.trim()));
    // Its limit is that kernel's, and nothing of it is a process here.
    let groups = "cat $(find /sys/fs/cgroup/aurae -name memory.max -path '*app*')";
    let limits = node.beside()?.sh(groups)?;
    ensure!(limits.lines().any(|line| line == "50331648"), "{limits}");
    node.sh_fails(
        "find /sys/fs/cgroup/aurae -path '*/far/app*' | grep -q .",
        1,
    )?;
    // Both daemons die; it goes on.
    let dies = "pkill -KILL -f '[s]erve --init-fd' && until aurae ps >/dev/null 2>&1; do :; done";
    node.beside()?.sh(dies)?;
    node.sh(dies)?;
    let answers = format!("until {exec} > /dev/null 2>&1; do sleep 0.2; done; {exec}");
    ensure!(node.sh(&answers)? == there, "it is another one");
    let told = "aurae pod logs far | wc -l";
    ensure!(node.sh(told)?.trim() == "1", "it was begun again");
    Ok(())
}

fn power_cut(node: &mut Node) -> Result<()> {
    // The monitor is gone before it could answer.
    drop(node.beside()?.monitor("quit"));
    let describes = |words: &str| {
        format!("until aurae pod describe far | grep -qi \"{words}\"; do sleep 0.5; done")
    };
    node.sh(&describes("doesn't answer"))?;
    node.sh_fails("aurae pod exec far true", 125)?;
    node.beside()?.comes_back()?;
    node.sh(&describes("no more on the daemon"))?;
    let shown = node.sh("aurae pod ls")?.to_lowercase();
    ensure!(shown.contains("failed"), "{shown}");
    node.sh("aurae pod rm far")?;
    node.sh(&format!("aurae pod run --wait ready -f {FILES}/pod.yaml"))?;
    let there = node.beside()?.sh(BOOT)?;
    let exec = node.sh(&format!("aurae pod exec far -- {BOOT}"))?;
    ensure!(exec == there, "it is not on the other machine");
    node.sh("aurae pod rm --force far")?;
    let left = node.beside()?.sh("aurae pod ls -o json")?;
    ensure!(!left.contains("far"), "{left}");
    Ok(())
}
