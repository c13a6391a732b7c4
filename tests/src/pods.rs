// SPDX-License-Identifier: Apache-2.0
//! Stories of pods that need what only a whole kernel has: limits of memory, and the node's disk
//! under the logs and under containers.

use anyhow::{Context, Result, ensure};
use testkit::node::{Node, Options};

use crate::image;
use crate::story::{Chapter, Story, inspect, powered_off};

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
        Story {
            name: "a disk of a container's own is there on a full disk, and is no memory of its",
            tell: on_disk,
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

/// More than the cell's memory has room for.
const MUCH: &str = "busybox yes written | busybox head -c 60000000";

/// A container that writes much, twice: at once, and when it is told to.
fn writer(name: &str, flags: &str) -> String {
    let program = format!(
        "{MUCH} > /first || exit 1; busybox touch /wrote; \
         until [ -e /go ]; do busybox sleep 0.1; done; \
         {MUCH} > /second && busybox sync /second && busybox touch /done; busybox sleep 100000"
    );
    format!(
        "aurae run -d --name {name} --memory 40M --memory-swap-max 0 --root-size 200M {flags} \
         --pull never disk:1 -- sh -c '{program}'"
    )
}

fn on_disk(node: &mut Node) -> Result<()> {
    node.sh(image::BUSYBOX)?;
    node.sh("aurae image import --name disk:1 /root/busybox.tar")?;
    // In memory it is too much.
    node.sh(&writer("memory", "--rm"))?;
    node.sh("until ! aurae ps | grep -q '^memory'; do sleep 0.2; done")?;
    node.sh(&writer("disk", "--root-on-disk"))?;
    let main = inspect(node, "disk/disk")?;
    let pid = main.pointer("/executable/pid");
    let pid = pid.with_context(|| format!("no pid in {main}"))?;
    let root = format!("/proc/{pid}/root");
    node.sh(&format!("until [ -e {root}/wrote ]; do sleep 0.2; done"))?;
    // Its bytes are its own, whoever takes the rest of the node's disk.
    node.sh(&format!(
        "root={root}; mkdir /var/lib/filler; n=0; for size in 1G 32M 1M 4k; do \
         while fallocate -l $size /var/lib/filler/$((n += 1)) 2>/dev/null; do :; done; done; \
         ! dd if=/dev/zero of=/var/lib/more bs=1M count=8 2>/dev/null && touch $root/go && \
         until [ -e $root/done ]; do sleep 0.2; done; \
         echo 3 > /proc/sys/vm/drop_caches; \
         cmp $root/first $root/second && test $(stat -c %s $root/second) = 60000000 && \
         test $(tail -c 8 $root/second) = written"
    ))?;
    node.sh(
        "rm -r /var/lib/filler /var/lib/more; until aurae cell rm -rf disk; do sleep 0.5; done",
    )?;
    let left = "! grep -qs . /sys/block/loop*/loop/backing_file";
    node.sh(&format!("until {left}; do sleep 0.1; done"))
        .map(drop)
}
