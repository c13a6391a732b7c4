// SPDX-License-Identifier: Apache-2.0
//! Stories of a kernel that uses SELinux, with a policy of a page: labels of programs and of the
//! files of containers hold, whichever capabilities a program has.

use anyhow::{Context, Result, ensure};
use testkit::disk::Copy;
use testkit::node::{Node, Options};

use crate::image;
use crate::story::{Chapter, Story, powered_off};

const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/labels/policy.cil");

/// The policy is one write of a file.
const LOAD: &str = "mount -t selinuxfs none /sys/fs/selinux \
    && secilc -c 33 -f /dev/null -o /tmp/policy /srv/policy.cil \
    && dd if=/tmp/policy of=/sys/fs/selinux/load bs=1M status=none \
    && echo 1 > /sys/fs/selinux/enforce && cat /sys/fs/selinux/enforce";
const WEB: &str = "u:r:web_t:s0";
const WEB_FILES: &str = "u:object_r:web_file_t:s0";

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "labels",
    options: || Options {
        copies: vec![Copy::new(POLICY, "/srv/policy.cil")],
        append: "security=selinux enforcing=0".into(),
        ..Options::default()
    },
    stories: &[
        Story {
            name: "a label of SELinux's is what a program runs with, and what isn't there is refused",
            tell: programs,
        },
        Story {
            name: "the files of a container have the label that it names",
            tell: containers,
        },
        Story {
            name: "a pod of a manifest has the labels of its seLinuxOptions",
            tell: pods,
        },
    ],
    at_the_end: powered_off,
};

fn programs(node: &mut Node) -> Result<()> {
    let enforced = node.sh(LOAD).context("a policy")?;
    ensure!(enforced == "1", "enforced: {enforced}");
    let run = format!("aurae run --rm --selinux {WEB} --");
    let label = node.sh(&format!("{run} cat /proc/self/attr/current"))?;
    ensure!(
        label.trim_end_matches('\0') == WEB,
        "it runs with {label:?}"
    );
    node.sh("chcon u:object_r:secret_t:s0 /etc/hostname")?;
    node.sh("aurae run --rm -- cat /etc/hostname")?;
    let said = node.sh_fails(&format!("{run} cat /etc/hostname"), 1)?;
    ensure!(said.contains("Permission denied"), "it said {said}");
    let said = node.sh_fails("aurae run --rm --selinux u:r:absent_t:s0 -- true", 125)?;
    ensure!(
        said.contains("no label u:r:absent_t:s0"),
        "it doesn't name the label: {said}"
    );
    // A type of files is none of programs.
    let files = format!("aurae run --rm --selinux {WEB_FILES} -- true");
    node.sh_fails(&files, 126).map(drop)
}

fn containers(node: &mut Node) -> Result<()> {
    node.sh(image::BUSYBOX)?;
    node.sh("aurae image import --name web:1 /root/busybox.tar")?;
    let run = format!("aurae run --rm --selinux {WEB}");
    let labelled = format!("{run} --selinux-files {WEB_FILES} web:1");
    let write = "sh -c 'for at in / /tmp/ /dev/shm/ /dev/; do echo x > ${at}x || exit 3; done'";
    node.sh(&format!("{labelled} {write}"))?;
    // Of node_t, as the policy says of every file system.
    let said = node.sh_fails(&format!("{run} web:1 {write}"), 3)?;
    ensure!(said.contains("Permission denied"), "it said {said}");
    node.sh(&format!(
        "aurae run -d --name w --selinux {WEB} --selinux-files {WEB_FILES} web:1"
    ))?;
    // What is executed beside the main process has its label.
    let beside = node.sh("aurae exec w cat /proc/self/attr/current")?;
    ensure!(
        beside.trim_end_matches('\0') == WEB,
        "beside it: {beside:?}"
    );
    let absent = "u:object_r:absent_t:s0";
    let said = node.sh_fails(
        &format!("aurae run --selinux-files {absent} web:1 true"),
        125,
    )?;
    ensure!(said.contains("no such label"), "it said {said}");
    node.sh("aurae rm -f w").map(drop)
}

/// The policy has the names of the reference policy's types, as far as they are needed here.
const MANIFEST: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: labelled}
spec:
  restartPolicy: Never
  securityContext:
    seLinuxOptions: {user: u, role: r, type: web_t, level: s0}
  volumes:
  - {name: disk, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  containers:
  - name: main
    image: web:1
    imagePullPolicy: Never
    command: [sh, -c, \"cat /proc/self/attr/current && echo x > /d/x && echo x > /m/x && echo x > /x\"]
    volumeMounts:
    - {name: disk, mountPath: /d}
    - {name: memory, mountPath: /m}
";

fn pods(node: &mut Node) -> Result<()> {
    node.sh(&format!("cat > /root/pod.yaml <<'END'\n{MANIFEST}END"))?;
    node.sh("aurae pod run --wait ended -f /root/pod.yaml")?;
    let said = node.sh("aurae pod logs labelled")?;
    ensure!(said.contains(WEB), "it runs with {said}");
    let state = node.sh("aurae pod ls -A -o json")?;
    ensure!(state.contains("SUCCEEDED"), "it ended otherwise: {state}");
    node.sh("aurae pod rm labelled").map(drop)
}
