// SPDX-License-Identifier: Apache-2.0
//! The same bundle by this runtime and by crun: what a program can see of its container.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::json;

use crate::Story;
use crate::bed::{Bundle, text};

pub(crate) const STORIES: &[Story] = &[(
    "a_program_sees_what_it_sees_with_crun",
    a_program_sees_what_it_sees_with_crun,
)];

const LOOK: &str = "id; hostname; pwd; echo $HOME $PATH $A; \
    grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups|Umask)' /proc/self/status; \
    sed 1d /proc/self/limits; cat /proc/sys/net/core/somaxconn; cat /proc/self/oom_score_adj; \
    ls /dev; stat -c '%n %t:%T %a %u:%g' /dev/full /dev/zero /dev/tty; \
    wc -c < /proc/timer_list; touch /proc/sys/x /sys/x /x; echo $?; \
    awk '{print $5}' /proc/self/mountinfo | sort; cat /proc/self/cgroup; ls /proc/self/fd";

fn a_program_sees_what_it_sees_with_crun() {
    if Command::new("crun").arg("--version").output().is_err() {
        return testkit::skip("crun isn't installed");
    }
    let bundle = Bundle::new(LOOK, |config| {
        // What crun 1.8 knows.
        config["ociVersion"] = "1.0.0".into();
        config["process"]["env"] = json!(["PATH=/bin", "A=b", "HOME=/h"]);
        config["process"]["user"] = json!({"uid": 5, "gid": 6, "additionalGids": [7, 8]});
        config["process"]["cwd"] = "/etc".into();
        config["process"]["oomScoreAdj"] = 100.into();
        config["process"]["rlimits"] = json!([
            {"type": "RLIMIT_NOFILE", "hard": 512, "soft": 256},
            {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
        ]);
        config["linux"]["sysctl"] = json!({"net.core.somaxconn": "123"});
        let mounts = config["mounts"].as_array_mut().unwrap();
        mounts.retain(|mount| mount["type"] != "cgroup");
        config["linux"].as_object_mut().unwrap().remove("resources");
    });
    let ours = bundle.run(&[
        "run",
        "--bundle",
        bundle.path().to_str().unwrap(),
        &bundle.id,
    ]);
    // crun wants cgroup v2 alone, as some machines have it.
    let alone = "test -e /sys/fs/cgroup/cgroup.controllers || \
                 mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec crun \"$@\"";
    let theirs = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            alone,
            "crun",
        ])
        .args(["--root", bundle.path().join("crun").to_str().unwrap()])
        .args(["--cgroup-manager", "cgroupfs", "run", "--bundle"])
        .arg(bundle.path())
        .arg(&bundle.id)
        .output()
        .unwrap();
    let lines = |bytes: &[u8]| -> BTreeSet<String> {
        let text = text(bytes);
        // The path of a group is each runtime's own.
        text.lines()
            .filter(|l| !l.contains("::/"))
            .map(str::to_owned)
            .collect()
    };
    let failed = text(&theirs.stderr);
    let (ours, theirs) = (lines(&ours.stdout), lines(&theirs.stdout));
    assert!(theirs.len() > 40, "crun has run it: {failed}");
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| -> Vec<String> {
        a.difference(b)
            .filter(|line| !is_known(line))
            .cloned()
            .collect()
    };
    let (here, there) = (only(&ours, &theirs), only(&theirs, &ours));
    assert!(
        here.is_empty() && there.is_empty(),
        "here: {here:#?}\nthere: {there:#?}"
    );
}

/// What differs for a reason: `/dev/core` is runc's, and crun doesn't make it; cgroup v1 lines.
fn is_known(line: &str) -> bool {
    line == "core" || line == "console" || line.contains(":/")
}
