// SPDX-License-Identifier: Apache-2.0
//! Stories of executables: how they start, what they are given, how they end, and who is told.

use anyhow::{Context, Result, ensure};
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story, inspect, powered_off, text};

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "executables",
    options: Options::default,
    stories: &[
        Story {
            name: "an exit status is handed through",
            tell: exit_status,
        },
        Story {
            name: "what isn't there or can't run is the answer of run itself",
            tell: no_program,
        },
        Story {
            name: "the environment is clean",
            tell: clean_environment,
        },
        Story {
            name: "user, umask, nice and limits are as asked",
            tell: process_settings,
        },
        Story {
            name: "exactly stdin, stdout and stderr are open",
            tell: descriptors,
        },
        Story {
            name: "stop ends the whole tree",
            tell: stop_the_tree,
        },
        Story {
            name: "a stop signal has its grace",
            tell: grace,
        },
        Story {
            name: "a running name is taken, a finished one is replaced",
            tell: names,
        },
        Story {
            name: "a finished executable keeps its record",
            tell: record,
        },
        Story {
            name: "out of memory is told as such",
            tell: out_of_memory,
        },
        Story {
            name: "the default profile refuses what leads out",
            tell: seccomp,
        },
        Story {
            name: "a profile of AppArmor's confines what names it, and what isn't there is refused",
            tell: apparmor,
        },
        Story {
            name: "stdin is handed over",
            tell: standard_input,
        },
        Story {
            name: "a program may open its standard streams by name",
            tell: streams_by_name,
        },
        Story {
            name: "a terminal is one",
            tell: terminal,
        },
    ],
    at_the_end: powered_off,
};

fn exit_status(node: &mut Node) -> Result<()> {
    node.sh_fails("aurae run --rm -- sh -c 'exit 7'", 7)?;
    node.sh_fails("aurae run --rm -- sh -c 'kill -TERM $$'", 143)?;
    let out = node.sh("aurae run --rm -- echo hello")?;
    ensure!(out == "hello\n", "it printed {out:?}");
    Ok(())
}

fn no_program(node: &mut Node) -> Result<()> {
    let said = node.sh_fails("aurae run --name absent -- /no/such/program", 127)?;
    ensure!(
        said.contains("/no/such/program"),
        "it doesn't name the program: {said}"
    );
    let said = node.sh_fails("aurae run --name plain -- /etc/hostname", 126)?;
    ensure!(
        said.contains("/etc/hostname"),
        "it doesn't name the program: {said}"
    );
    let left = node.sh("aurae ps -a")?;
    ensure!(
        !left.contains("absent") && !left.contains("plain"),
        "something is left:\n{left}"
    );
    Ok(())
}

fn clean_environment(node: &mut Node) -> Result<()> {
    let seen = node.sh("LEAK=yes aurae run --rm -e GIVEN=1 -- env")?;
    ensure!(
        !seen.contains("LEAK") && !seen.contains("NOTIFY_SOCKET"),
        "it leaks:\n{seen}"
    );
    ensure!(
        seen.lines().any(|line| line == "GIVEN=1"),
        "what was given is absent:\n{seen}"
    );
    ensure!(
        seen.contains("PATH=") && seen.contains("HOME="),
        "no PATH or HOME:\n{seen}"
    );
    Ok(())
}

fn process_settings(node: &mut Node) -> Result<()> {
    let run =
        "aurae run --rm --user www-data --umask 0027 --nice 5 --ulimit nofile=100:200 -w /tmp";
    let script = "id -un; umask; nice; ulimit -n; pwd; \
        grep -E \"^(SigIgn|SigBlk|NoNewPrivs)\" /proc/self/status";
    let seen = node.sh(&format!("{run} -- sh -c '{script}'"))?;
    let lines: Vec<&str> = seen.lines().collect();
    let wanted = ["www-data", "0027", "5", "100", "/tmp"];
    ensure!(lines.starts_with(&wanted), "{seen}");
    ensure!(
        seen.contains("SigIgn:\t0000000000000000"),
        "signals are ignored:\n{seen}"
    );
    ensure!(
        seen.contains("NoNewPrivs:\t1"),
        "it could gain privileges:\n{seen}"
    );
    Ok(())
}

fn descriptors(node: &mut Node) -> Result<()> {
    let open = node.sh("aurae run --rm -- busybox ls /proc/self/fd")?;
    let open: Vec<&str> = open.split_whitespace().collect();
    // The fourth is the listing's own.
    ensure!(open == ["0", "1", "2", "3"], "open: {open:?}");
    Ok(())
}

fn stop_the_tree(node: &mut Node) -> Result<()> {
    let script = "(sleep 98765 & sleep 98765) & sleep 98765";
    node.sh(&format!("aurae run --name forker -d -- sh -c '{script}'"))?;
    // Its shells may need a while for their forks.
    node.sh("for try in $(seq 400); do \
         test $(pgrep -fxc 'sleep 98765') = 3 && exec aurae stop forker; sleep 0.2; done; exit 1")?;
    let left = node.try_sh("pgrep -fx 'sleep 98765'")?;
    ensure!(
        left.status == 1,
        "left: {}",
        String::from_utf8_lossy(&left.out)
    );
    node.sh("aurae rm -rf forker").map(drop)
}

fn grace(node: &mut Node) -> Result<()> {
    let polite = "trap \"echo bye; exit 3\" TERM; echo up; while :; do busybox usleep 10000; done";
    node.sh(&format!("aurae run --name polite -d -- sh -c '{polite}'"))?;
    node.sh("until aurae logs polite | grep -q up; do :; done; aurae stop polite")?;
    ensure!(
        node.sh("aurae wait polite")?.trim() == "3",
        "it had no time to say goodbye"
    );
    let deaf = "trap \"\" TERM; echo up; while :; do busybox usleep 10000; done";
    node.sh(&format!(
        "aurae run --name deaf --stop-timeout 1s -d -- sh -c '{deaf}'"
    ))?;
    node.sh("until aurae logs deaf | grep -q up; do :; done; aurae stop deaf")?;
    ensure!(
        node.sh("aurae wait deaf")?.trim() == "137",
        "it wasn't killed after its grace"
    );
    node.sh("aurae rm -rf polite deaf").map(drop)
}

fn names(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run names && aurae run --cell names --name one -d -- sleep 1000")?;
    let said = node.sh_fails("aurae run --cell names --name one -d -- true", 125)?;
    ensure!(said.contains("one"), "it doesn't name it: {said}");
    node.sh("aurae stop names/one")?;
    let first = text(
        &inspect(node, "names/one")?,
        &["executable", "meta", "ref", "uid"],
    )?;
    node.sh("aurae run --cell names --name one -- true")?;
    let second = text(
        &inspect(node, "names/one")?,
        &["executable", "meta", "ref", "uid"],
    )?;
    ensure!(first != second, "the second run has the first one's uid");
    node.sh("aurae rm -rf names").map(drop)
}

fn record(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run kept")?;
    node.sh_fails(
        "aurae run --cell kept --name job -- sh -c 'echo done; exit 4'",
        4,
    )?;
    let job = inspect(node, "kept/job")?;
    let code = job
        .pointer("/executable/exit/code")
        .and_then(serde_json::Value::as_u64);
    ensure!(code == Some(4), "its record says {job}");
    ensure!(
        node.sh("aurae logs kept/job")? == "done\n",
        "its log isn't what it printed"
    );
    node.sh("aurae rm kept/job")?;
    node.sh_fails("aurae inspect kept/job", 1)?;
    node.sh("aurae rm -rf kept").map(drop)
}

fn streams_by_name(node: &mut Node) -> Result<()> {
    for user in ["root", "nobody"] {
        let print = "echo out > /dev/stdout; echo err > /dev/stderr";
        let out = node.sh(&format!(
            "aurae run --rm --user {user} -- sh -c '{print}' 2>&1"
        ))?;
        ensure!(
            out.contains("out\n") && out.contains("err\n"),
            "as {user} it printed {out:?}"
        );
    }
    Ok(())
}

fn out_of_memory(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run small --memory 20M --memory-swap-max 0")?;
    let eat = "x=x; while :; do x=$x$x; done";
    node.sh_fails(
        &format!("aurae run --cell small --name eater -- sh -c '{eat}'"),
        137,
    )?;
    let eater = inspect(node, "small/eater")?;
    let killed = eater
        .pointer("/executable/exit/oomKilled")
        .and_then(serde_json::Value::as_bool);
    ensure!(killed == Some(true), "its record says {eater}");
    used_until_its_end(node, &eater)?;
    node.sh("aurae rm -rf small").map(drop)
}

/// What the eater used is in its record, and is what observe tells of it still.
fn used_until_its_end(node: &mut Node, eater: &serde_json::Value) -> Result<()> {
    let used = eater.pointer("/executable/finalUsage");
    let used = used.with_context(|| format!("no final usage in {eater}"))?;
    let number = |name: &str| -> Result<u64> { Ok(text(used, &[name])?.parse()?) };
    let peak = number("memoryPeakBytes")?;
    // Allocations that must not fail pass the limit for a moment, by a little.
    ensure!(
        (10 << 20..=25 << 20).contains(&peak),
        "its limit was 20 MiB, its peak {peak} bytes"
    );
    ensure!(number("oomKills")? == 1, "it says {used}");
    ensure!(number("pidsPeak")? >= 1, "it says {used}");
    ensure!(number("cpuUsageUsec")? > 0, "it says {used}");
    number("ioReadBytes")?;
    let told = node.sh("aurae top --once -o json small/eater")?;
    let told: serde_json::Value = serde_json::from_str(&told)?;
    let again = text(&told, &["usage", "0", "memoryPeakBytes"])?;
    ensure!(again == peak.to_string(), "observe says {told}");
    Ok(())
}

fn seccomp(node: &mut Node) -> Result<()> {
    for refused in [
        "unshare -U true",
        "mount -t tmpfs none /tmp",
        "keyctl show",
        "unshare -n true",
    ] {
        let came = node.try_sh(&format!("aurae run --rm -- sh -c '{refused}'"))?;
        ensure!(came.status != 0, "`{refused}` was let through");
    }
    node.sh("aurae run --rm --seccomp unconfined -- unshare -U true")?;
    let denied = "aurae run --rm --seccomp-deny mkdir,mkdirat -- mkdir /tmp/x";
    let said = node.sh_fails(denied, 1)?;
    ensure!(said.contains("not permitted"), "mkdir said: {said}");
    Ok(())
}

fn apparmor(node: &mut Node) -> Result<()> {
    node.sh("mountpoint -q /sys/kernel/security || mount -t securityfs none /sys/kernel/security")?;
    let rules = "profile story flags=(attach_disconnected) { file, deny /etc/hostname r, }";
    node.sh(&format!(
        "echo '{rules}' | apparmor_parser --skip-cache --replace"
    ))?;
    let run = "aurae run --rm --apparmor story --";
    let label = node.sh(&format!("{run} cat /proc/self/attr/current"))?;
    ensure!(label == "story (enforce)\n", "it is confined by {label:?}");
    node.sh("aurae run --rm -- cat /etc/hostname")?;
    node.sh_fails(&format!("{run} cat /etc/hostname"), 1)?;
    let said = node.sh_fails("aurae run --rm --apparmor absent -- true", 125)?;
    ensure!(
        said.contains("no profile absent"),
        "it doesn't name the profile: {said}"
    );
    Ok(())
}

fn standard_input(node: &mut Node) -> Result<()> {
    let seen = node.sh("printf 'one\\0two' | aurae run --rm -i -- sha256sum")?;
    let wanted = node.sh("printf 'one\\0two' | sha256sum")?;
    ensure!(seen == wanted, "what arrived is something else: {seen}");
    Ok(())
}

fn terminal(node: &mut Node) -> Result<()> {
    for user in ["root", "nobody"] {
        let run = format!("aurae run --rm -it --user {user} --");
        let ask = "tty; [ -t 1 ] && echo by name > \\$(tty) && echo yes > /dev/tty";
        let script = format!("script -qec \"{run} sh -c '{ask}'\" /dev/null </dev/null");
        // script(1), whose own input has ended, may type a NUL, which is echoed.
        let seen = node.sh(&script)?.replace('\r', "").replace("^@", "");
        ensure!(
            seen == "/dev/pts/0\nby name\nyes\n",
            "as {user} it printed {seen:?}"
        );
    }
    Ok(())
}
