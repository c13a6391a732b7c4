// SPDX-License-Identifier: Apache-2.0
//! Stories of logs: everything that is printed is kept, as it was printed.

use anyhow::{Result, ensure};
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story, powered_off};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "logs",
    options: Options::default,
    stories: &[
        Story {
            name: "a late reader gets every line",
            tell: late_reader,
        },
        Story {
            name: "bytes come back as they were printed",
            tell: binary_safe,
        },
        Story {
            name: "stdout and stderr are apart",
            tell: streams,
        },
        Story {
            name: "tail and since pick lines",
            tell: tail,
        },
        Story {
            name: "a follower sees what comes and the end",
            tell: follow,
        },
        Story {
            name: "several logs are read at once, with names",
            tell: several,
        },
        Story {
            name: "what retention drops is counted in its place",
            tell: gap,
        },
    ],
    at_the_end: powered_off,
};

fn late_reader(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run late && aurae run --cell late --name many -- seq 40000 > /tmp/live")?;
    node.sh("aurae logs late/many > /tmp/kept; seq 40000 | cmp - /tmp/kept")?;
    node.sh("seq 40000 | cmp - /tmp/live && aurae rm -rf late")
        .map(drop)
}

fn binary_safe(node: &mut Node) -> Result<()> {
    let noise = "head -c 3000000 /dev/urandom | tee /run/noise; sha256sum < /run/noise >&2";
    node.sh("aurae cell run raw --tmpfs /run,size=8M")?;
    node.sh(&format!(
        "aurae run --cell raw --name noise -d -- sh -c '{noise}'"
    ))?;
    node.sh("aurae wait raw/noise")?;
    let kept = node.sh("aurae logs -o raw --stream stdout raw/noise | sha256sum")?;
    let printed = node.sh("aurae logs --stream stderr raw/noise 2>&1")?;
    ensure!(kept == printed, "printed {printed}, kept {kept}");
    node.sh("aurae rm -rf raw").map(drop)
}

fn streams(node: &mut Node) -> Result<()> {
    let script =
        "aurae cell run two && aurae run --cell two --name both -- sh -c 'echo out; echo err >&2'";
    let came = node.try_sh(script)?;
    ensure!(
        String::from_utf8_lossy(&came.out).ends_with("out\n"),
        "live stdout {:?}",
        came.out
    );
    ensure!(
        String::from_utf8_lossy(&came.err).contains("err\n"),
        "live stderr {:?}",
        came.err
    );
    let out = node.sh("aurae logs --stream stdout two/both 2>&1")?;
    let err = node.sh("aurae logs --stream stderr two/both 2>&1")?;
    ensure!(
        out == "out\n" && err == "err\n",
        "kept: {out:?} and {err:?}"
    );
    node.sh("aurae rm -rf two").map(drop)
}

fn tail(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run t && aurae run --cell t --name s -- seq 1000")?;
    let last = node.sh("aurae logs --tail 3 t/s")?;
    ensure!(last == "998\n999\n1000\n", "the tail is {last:?}");
    let none = node.sh("aurae logs --until 1h t/s")?;
    ensure!(none.is_empty(), "an hour ago there was {none:?}");
    let all = node.sh("aurae logs --since 1h t/s | wc -l")?;
    ensure!(
        all.trim() == "1000",
        "since an hour ago there are {all} lines"
    );
    node.sh("aurae rm -rf t").map(drop)
}

fn follow(node: &mut Node) -> Result<()> {
    let count = "for i in $(seq 20); do echo $i; busybox usleep 50000; done";
    node.sh(&format!(
        "aurae cell run f && aurae run --cell f --name slow -d -- sh -c '{count}'"
    ))?;
    let seen = node.sh("aurae logs -f f/slow | tr '\\n' ' '")?;
    ensure!(
        seen.trim().ends_with("18 19 20") && seen.starts_with("1 2 3"),
        "followed: {seen}"
    );
    node.sh("aurae rm -rf f").map(drop)
}

fn several(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run sev && aurae run --cell sev --name a -- echo from-a")?;
    node.sh("aurae run --cell sev --name b -- echo from-b")?;
    let seen = node.sh("aurae logs sev/a sev/b")?;
    let line = |name: &str, text: &str| {
        seen.lines()
            .any(|line| line.contains(name) && line.contains(text))
    };
    ensure!(line("sev/a", "from-a") && line("sev/b", "from-b"), "{seen}");
    node.sh("aurae rm -rf sev").map(drop)
}

fn gap(node: &mut Node) -> Result<()> {
    node.sh(
        "aurae cell run g && aurae run --cell g --name big --log-max-size 1M -d -- seq 2000000",
    )?;
    node.sh("aurae wait g/big")?;
    let seen = node.sh("aurae logs g/big 2>&1 >/dev/null")?;
    ensure!(
        seen.contains("missing"),
        "nothing says what was dropped: {seen:?}"
    );
    let last = node.sh("aurae logs --tail 1 g/big 2>/dev/null")?;
    ensure!(last == "2000000\n", "the last line is {last:?}");
    node.sh("aurae rm -rf g").map(drop)
}
