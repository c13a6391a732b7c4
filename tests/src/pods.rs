// SPDX-License-Identifier: Apache-2.0
//! Stories of pods that need what only a whole kernel has: limits of memory, and the node's disk
//! under the logs.

use anyhow::{Result, ensure};
use testkit::node::{Node, Options};

use crate::image;
use crate::story::{Chapter, Story, powered_off};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "pods",
    options: Options::default,
    stories: &[
        Story {
            name: "files tell what a container may take, also after an update",
            tell: files_tell,
        },
        Story {
            name: "what is copied out of a pod is whole, and on no disk of the node's",
            tell: copied,
        },
    ],
    at_the_end: powered_off,
};

const MANIFEST: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  volumes:
  - name: about
    downwardAPI:
      items:
      - path: memory
        resourceFieldRef: {containerName: app, resource: limits.memory, divisor: 1Mi}
  containers:
  - name: app
    image: web:1
    imagePullPolicy: Never
    command: [busybox, sleep, '100000']
    resources: {limits: {memory: LIMIT}}
    volumeMounts: [{name: about, mountPath: /mnt}]
";

fn files_tell(node: &mut Node) -> Result<()> {
    node.sh(image::BUSYBOX)?;
    node.sh("aurae image import --name web:1 /root/busybox.tar")?;
    for (verb, limit, bytes) in [
        ("run --wait ready", "64", "67108864"),
        ("update", "48", "50331648"),
    ] {
        let manifest = MANIFEST.replace("LIMIT", &format!("{limit}Mi"));
        node.sh(&format!("cat > /root/pod.yaml <<'END'\n{manifest}END"))?;
        node.sh(&format!("aurae pod {verb} -f /root/pod.yaml"))?;
        let told = node.sh("aurae pod exec web cat /mnt/memory")?;
        ensure!(told.trim() == limit, "after {verb} it is told {told}");
        let groups = "find /sys/fs/cgroup/aurae -name memory.max -path '*app*'";
        let holds = node.sh(&format!("cat $({groups})"))?;
        let holds_it = holds.lines().any(|line| line == bytes);
        ensure!(holds_it, "after {verb} its groups have {holds}");
    }
    Ok(())
}

/// Lines that are nowhere else on the node.
const LINES: &str = "busybox seq 1 200000 | busybox sed s/^/copied-/";

fn copied(node: &mut Node) -> Result<()> {
    let inside = "aurae pod exec web sh -c";
    node.sh(&format!("{inside} '{LINES} > /tmp/lines'"))?;
    node.sh("cd /root && aurae pod cp web:/tmp/lines lines")?;
    node.sh(&format!("{LINES} | cmp - /root/lines"))?;
    let alone = "aurae pod exec --no-log web sh -c";
    node.sh(&format!("{alone} '{LINES}' | cmp - /root/lines"))?;
    // One that reads slowly gets all of it, too.
    let slow = "(head -c 100000; sleep 3; cat)";
    node.sh(&format!("{alone} '{LINES}' | {slow} | cmp - /root/lines"))?;
    let is_kept = "grep -rqF copied-199998 /var/lib/aurae";
    node.sh_fails(is_kept, 1)?;
    // With its log it is there.
    node.sh(&format!("{inside} '{LINES}' | cmp - /root/lines"))?;
    node.sh(&format!(
        "aurae pod exec --keep --name kept web sh -c '{LINES}' > /dev/null"
    ))?;
    node.sh(is_kept)?;
    node.sh("aurae pod rm -f web && rm /root/lines").map(drop)
}
