// SPDX-License-Identifier: Apache-2.0
//! `aurae`, called by the names of systemd's commands, against a real node that runs units from
//! folders of the test's own.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    reason = "a test fails by panicking, and shares its bed with others"
)]

mod bed;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(60);

/// A node with units, and links by which the client is called.
struct Machine {
    folder: tempfile::TempDir,
    node: bed::Node,
}

impl Machine {
    fn start() -> Option<Machine> {
        let folder = tempfile::tempdir().unwrap();
        for name in ["etc", "run/system", "lib", "bin", "journal"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        links(&folder.path().join("bin"));
        let at = |name: &str| folder.path().join(name).display().to_string();
        let node = bed::node_with(&[
            "units.enabled=true".to_owned(),
            format!(
                "units.paths=[\"{}\", \"{}\", \"{}\"]",
                at("etc.control"),
                at("etc"),
                at("lib")
            ),
            format!("units.persistent={}", at("etc")),
            format!("units.runtime={}", at("run/system")),
            "journal.enabled=true".to_owned(),
            format!("journal.folder={}", at("journal")),
        ])?;
        Some(Machine { folder, node })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn unit(&self, name: &str, text: &str) {
        fs::write(self.at("lib").join(name), text).unwrap();
    }

    /// Status, standard output, standard error.
    fn call(&self, words: &str) -> (i32, String, String) {
        self.words(&words.split_whitespace().collect::<Vec<_>>())
    }

    fn words(&self, words: &[&str]) -> (i32, String, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(words).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.at("bin").join(words[0]));
        command
            .args(&words[1..])
            .env("AURAE_CONFIG", self.node.path("config.toml"))
            .stdin(Stdio::null());
        command
    }

    /// The first answer that is as wanted.
    fn until(&self, words: &str, wanted: impl Fn(i32, &str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let (status, out, err) = self.call(words);
            if wanted(status, &out) {
                return out;
            }
            assert!(begun.elapsed() < SOON, "{words}: {status}\n{out}\n{err}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn links(folder: &Path) {
    for name in [
        "systemctl",
        "journalctl",
        "systemd-run",
        "systemd-analyze",
        "telinit",
    ] {
        symlink(env!("CARGO_BIN_EXE_aurae"), folder.join(name)).unwrap();
    }
}

#[test]
fn systemctl_starts_stops_and_tells_as_systemds_does() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.unit(
        "web.service",
        "[Unit]\nDescription=The site\n[Service]\nExecStart=/bin/sh -c 'echo hello; sleep 1000'\n\
         [Install]\nWantedBy=multi-user.target\n",
    );
    machine.unit(
        "bad.service",
        "[Service]\nType=oneshot\nExecStart=/bin/false\n",
    );
    let (status, out, _) = machine.call("systemctl is-active web");
    assert_eq!((status, out.as_str()), (3, "inactive\n"));
    assert_eq!(machine.call("systemctl start web").0, 0);
    let (status, out, _) = machine.call("systemctl --quiet is-active -- web.service nope");
    assert_eq!((status, out.as_str()), (0, ""));
    let (status, out, _) = machine.call("systemctl is-enabled web");
    assert_eq!((status, out.as_str()), (1, "disabled\n"));
    let (status, _, err) = machine.call("systemctl enable web");
    assert!(status == 0 && err.starts_with("Created symlink "), "{err}");
    let (status, out, _) = machine.call("systemctl is-enabled web");
    assert_eq!((status, out.as_str()), (0, "enabled\n"));
    let (_, out, _) = machine.call("systemctl show -p LoadState --value web");
    assert_eq!(out, "loaded\n");
    let (status, out, _) = machine.call("systemctl show -p LoadState,CanReload nope");
    assert_eq!(
        (status, out.as_str()),
        (0, "LoadState=not-found\nCanReload=no\n")
    );
    let (status, out, err) = machine.call("systemctl start nope");
    let words = "Failed to start nope.service: Unit nope.service not found.\n";
    assert_eq!((status, out.as_str(), err.as_str()), (5, "", words));
    let (status, _, err) = machine.call("systemctl start bad");
    assert!(
        status == 1 && err.starts_with("Job for bad.service failed"),
        "{err}"
    );
    let (status, out, _) = machine.call("systemctl is-failed bad");
    assert_eq!((status, out.as_str()), (0, "failed\n"));
    shows_units(&machine);
}

/// `web` runs, and `bad` has failed.
fn shows_units(machine: &Machine) {
    let out = machine.until("systemctl status --no-pager web", |status, out| {
        status == 0 && out.contains("hello")
    });
    let first: Vec<&str> = out.lines().take(3).collect();
    assert_eq!(first[0], "● web.service - The site");
    assert!(first[1].starts_with("     Loaded: loaded ("), "{out}");
    assert!(
        first[2].starts_with("     Active: active (running) since "),
        "{out}"
    );
    let (status, _, err) = machine.call("systemctl status nope");
    assert_eq!(
        (status, err.as_str()),
        (4, "Unit nope.service could not be found.\n")
    );
    let (status, out, _) = machine.call("systemctl list-units --failed --no-legend --plain");
    assert!(
        status == 0 && out.starts_with("bad.service loaded failed failed"),
        "{out}"
    );
    let (_, out, _) = machine.call("systemctl list-units --type=service");
    assert!(
        out.contains("  UNIT ") && out.contains("loaded units listed."),
        "{out}"
    );
    let (status, out, _) = machine.call("systemctl is-system-running");
    assert_eq!((status, out.as_str()), (1, "degraded\n"));
    assert_eq!(machine.call("systemctl reset-failed bad").0, 0);
    assert_eq!(machine.call("systemctl stop web").0, 0);
    assert_eq!(machine.call("systemctl status web").0, 3);
    // A pattern means what is up, unless all are asked for.
    let (status, out, _) = machine.call("systemctl status we*");
    assert_eq!((status, out.as_str()), (0, ""));
    assert_eq!(machine.call("systemctl status -a we*").0, 3);
    let (status, _, err) = machine.call("systemctl disable --now web");
    assert!(status == 0 && err.starts_with("Removed "), "{err}");
    let (status, out, _) = machine.call("systemctl list-unit-files web.service --no-legend");
    assert!(
        status == 0 && out.starts_with("web.service disabled "),
        "{out}"
    );
    assert_eq!(machine.call("systemctl preset web").0, 0);
    assert_eq!(machine.call("systemctl is-enabled web").0, 0);
}

#[test]
fn systemctl_gives_the_manager_variables_and_units_settings_and_marks() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.unit("web.service", "[Service]\nExecStart=/bin/sleep 1000\n");
    let tells = |words: &str| {
        let (status, out, err) = machine.call(words);
        assert_eq!(status, 0, "{words}: {out}{err}");
        out
    };
    let path = tells("systemctl show-environment");
    assert!(path.starts_with("PATH=/"), "{path}");
    tells("systemctl set-environment FOO=BAR PATH=/p");
    let quoted = ["systemctl", "set-environment", "WORDS=a b"];
    assert_eq!(machine.words(&quoted).0, 0);
    tells("systemctl daemon-reload");
    let all = tells("systemctl show-environment");
    assert_eq!(all, "FOO=BAR\nPATH=/p\nWORDS=$'a b'\n");
    let json = tells("systemctl show-environment --output=json");
    assert_eq!(
        json,
        "{\"FOO\":\"BAR\",\"PATH\":\"/p\",\"WORDS\":\"a b\"}\n"
    );
    tells("systemctl unset-environment FOO PATH WORDS");
    assert_eq!(tells("systemctl show-environment"), path);
    tells("systemctl import-environment AURAE_CONFIG");
    assert!(tells("systemctl show-environment").contains("AURAE_CONFIG=/"));
    for (words, why) in [
        (
            "systemctl set-environment A-B=1",
            "Invalid environment assignments",
        ),
        (
            "systemctl import-environment A-B",
            "Not a valid environment variable",
        ),
        ("systemctl set-environment", "Too few arguments"),
        ("systemctl service-watchdogs perhaps", "Failed to parse"),
        ("systemctl set-property web Moon=1", "unknown property"),
        ("systemctl set-property web Moon", "Not an assignment"),
        (
            "systemctl set-property nope TasksMax=1",
            "Unit nope.service not found.",
        ),
        ("systemctl restart --marked", "--marked"),
        (
            "systemctl reload-or-restart --marked web",
            "No additional arguments",
        ),
    ] {
        let (status, out, err) = machine.call(words);
        assert!(
            status == 1 && out.is_empty() && err.contains(why),
            "{words}: {err}"
        );
    }
    assert_eq!(tells("systemctl service-watchdogs"), "yes\n");
    tells("systemctl service-watchdogs no");
    assert_eq!(tells("systemctl show -P ServiceWatchdogs"), "no\n");
    tells("systemctl start web");
    let pid = tells("systemctl show -P MainPID web");
    tells("systemctl set-property web Description=given Markers=+needs-restart");
    assert!(tells("systemctl cat web").contains("50-Description.conf"));
    let shown = tells("systemctl show -P Description,Markers web");
    assert_eq!(shown, "given\nneeds-restart\n");
    tells("systemctl reload-or-restart --marked");
    assert_ne!(tells("systemctl show -P MainPID web"), pid);
    assert_eq!(tells("systemctl show -P Markers web"), "\n");
}

#[test]
fn what_there_is_not_is_refused_by_its_name() {
    let Some(machine) = Machine::start() else {
        return;
    };
    for words in [
        "systemctl --user start a",
        "systemctl -M box list-units",
        "systemctl edit a",
        "journalctl --user",
        "journalctl --vacuum-size=1M",
        "systemd-run --scope /bin/true",
        "systemd-run --pty /bin/true",
        "systemd-analyze blame",
    ] {
        let (status, out, err) = machine.call(words);
        assert!(status == 1 && out.is_empty(), "{words}: {status} {out}");
        assert!(err.contains("isn't done by Aurae."), "{words}: {err}");
    }
    assert_eq!(machine.call("systemctl frobnicate").0, 1);
    let (status, out, _) = machine.call("systemctl --version");
    assert!(status == 0 && out.starts_with("systemd 252 ("), "{out}");
}

#[test]
fn systemd_run_makes_a_unit_and_gives_its_status() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let words = [
        "systemd-run",
        "--wait",
        "-G",
        "-u",
        "once",
        "/bin/sh",
        "-c",
        "exit 7",
    ];
    let (status, _, err) = machine.words(&words);
    assert!(
        status == 7 && err.contains("Running as unit: once.service"),
        "{status} {err}"
    );
    let words = [
        "systemd-run",
        "-q",
        "--pipe",
        "-E",
        "A=b c",
        "/bin/sh",
        "-c",
        "echo \"$A\"",
    ];
    let (status, out, err) = machine.words(&words);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "b c\n", ""));
    // All that its commands print, in their order; of another run of that name nothing.
    for (word, time) in [("second", "1"), ("third", "2")] {
        let words = ["systemd-run", "-q", "--pipe", "-u", "named"];
        let more = [
            "-p",
            "ExecStartPre=/bin/echo first",
            "-p",
            "ExecStopPost=/bin/echo last",
        ];
        let (status, out, err) = machine.words(&[&words[..], &more, &["/bin/echo", word]].concat());
        assert_eq!((status, err.as_str()), (0, ""), "{time}");
        assert_eq!(out, format!("first\n{word}\nlast\n"), "{time}");
    }
    let (status, _, err) = machine.call("systemd-run -u long /bin/sleep 1000");
    assert_eq!(status, 0, "{err}");
    assert!(machine.at("run/transient/long.service").exists());
    let (status, _, err) = machine.call("systemd-run -u long /bin/sleep 1000");
    assert!(status == 1 && err.contains("is there already"), "{err}");
    let (status, _, err) = machine.call("systemd-run --on-active=1h -u later /bin/true");
    assert!(
        status == 0 && err.contains("Running timer as unit: later.timer"),
        "{err}"
    );
    let (_, out, _) = machine.call("systemctl list-timers --no-legend");
    assert!(
        out.contains("later.timer") && out.contains(" left "),
        "{out}"
    );
    assert_eq!(machine.call("systemctl stop long later.timer").0, 0);
}

/// Its end is asked for where it never began: there is none. What was executed and failed has one,
/// and so has what its conditions held back.
#[test]
fn a_run_that_never_began_is_no_success() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.unit(
        "busy.service",
        "[Service]\nType=oneshot\nExecStart=/bin/sleep 1000\n",
    );
    assert_eq!(machine.call("systemctl start --no-block busy").0, 0);
    let after = ["-p", "After=busy.service", "/bin/true"];
    for (unit, how) in [("waits", "--wait"), ("prints", "--pipe")] {
        let words = [&["systemd-run", how, "-u", unit], &after[..]].concat();
        let run = machine.command(&words).stderr(Stdio::piped()).spawn();
        let name = format!("{unit}.service");
        let shown = format!("systemctl list-jobs --no-legend {name}");
        machine.until(&shown, |_, out| out.contains("waiting"));
        let (status, _, err) = machine.call(&format!("systemctl stop {name}"));
        assert_eq!(status, 0, "{err}");
        let ended = run.unwrap().wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{how}: {err}");
        assert!(
            err.contains(&format!("Job for {name} canceled.")),
            "{how}: {err}"
        );
    }
    assert_eq!(machine.call("systemctl kill -s KILL busy").0, 0);
    let skipped = "systemd-run --wait -p ConditionPathExists=/not-there /bin/false";
    assert_eq!(machine.call(skipped).0, 0);
    let words = [
        "systemd-run",
        "-q",
        "--pipe",
        "--wait",
        "-p",
        "Type=oneshot",
    ];
    let more = ["/bin/sh", "-c", "echo said; exit 7"];
    let (status, out, err) = machine.words(&[&words[..], &more].concat());
    assert_eq!((status, out.as_str()), (7, "said\n"), "{err}");
}

#[test]
fn journalctl_joins_what_units_print_and_what_programs_log() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.unit(
        "web.service",
        "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo one; echo \"<3>two\" >&2'\n",
    );
    assert_eq!(machine.call("systemctl start web").0, 0);
    let out = machine.until("journalctl -u web -o cat", |_, out| {
        out.lines().count() == 2
    });
    assert!(out.contains("one\n") && out.contains("two\n"), "{out}");
    let (_, out, _) = machine.call("journalctl -u web -p err -o cat");
    assert_eq!(out, "two\n");
    let logger = UnixDatagram::unbound().unwrap();
    let to = machine.at("journal").join("dev-log");
    logger
        .send_to(b"<14>Nov 23 22:46:04 tool[5]: three", to)
        .unwrap();
    let out = machine.until("journalctl -t tool -o json", |_, out| {
        !out.starts_with("--")
    });
    let entry: serde_json::Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!(entry["MESSAGE"], "three");
    assert_eq!(entry["_PID"], std::process::id().to_string());
    assert_eq!(entry["SYSLOG_PID"], "5");
    let (_, out, _) = machine.call("journalctl -t sh -t tool -n 1 -o cat --no-pager");
    assert_eq!(out, "three\n");
    let (_, out, _) = machine.call("journalctl -b -t sh -t tool -o cat");
    assert_eq!(out.lines().count(), 3, "{out}");
    // Without a choice there is more: what the daemon says.
    let (_, out, _) = machine.call("journalctl -b -o cat");
    let said = "a unit changed unit=web.service";
    assert!(out.contains("three\n") && out.contains(said), "{out}");
    let (_, out, _) = machine.call("journalctl -b -t auraed -o cat");
    assert!(!out.contains("three\n") && out.contains(said), "{out}");
    let (_, out, _) = machine.call("journalctl --since -1h -g THREE --case-sensitive=no -o cat");
    assert_eq!(out, "three\n");
    let (status, out, _) = machine.call("journalctl -u nope");
    assert_eq!((status, out.as_str()), (0, "-- No entries --\n"));
    assert_eq!(machine.call("journalctl -q -g nothing").0, 1);
}

/// As a maintainer's script calls it: below a root, without a node.
#[test]
fn links_are_made_below_a_root_without_a_node() {
    let folder = tempfile::tempdir().unwrap();
    links(folder.path());
    let units = folder.path().join("disk/lib/systemd/system");
    fs::create_dir_all(&units).unwrap();
    let text = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
    fs::write(units.join("web.service"), text).unwrap();
    let call = |words: &[&str]| {
        let root = format!("--root={}", folder.path().join("disk").display());
        let output = Command::new(folder.path().join("systemctl"))
            .arg(root)
            .args(words)
            .env("AURAE_CONFIG", "/nonexistent")
            .output()
            .unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), out)
    };
    assert_eq!(call(&["is-enabled", "web"]), (1, "disabled\n".to_owned()));
    let preset = [
        "--system",
        "--preset-mode=enable-only",
        "preset",
        "web.service",
    ];
    assert_eq!(call(&preset).0, 0);
    assert_eq!(call(&["is-enabled", "web"]), (0, "enabled\n".to_owned()));
    assert_eq!(call(&["--global", "preset", "none.service"]).0, 1);
    assert_eq!(call(&["mask", "web"]).0, 0);
    assert_eq!(call(&["is-enabled", "web"]).1, "masked\n");
    assert_eq!(call(&["start", "web"]).0, 1);
}

/// What a unit prints is one log, whatever becomes of the records of its runs: it is restarted
/// without end, and the daemon is another one meanwhile.
#[test]
fn the_log_of_a_unit_is_longer_than_the_records_of_its_runs() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let count = machine.at("count").display().to_string();
    // More logs than are read at once.
    let silent = "ExecStartPre=/bin/true\n".repeat(8);
    machine.unit(
        "often.service",
        &format!(
            "[Unit]\nStartLimitBurst=1000\n[Service]\nType=oneshot\nSyslogIdentifier=often\n\
             {silent}ExecStartPre=/bin/sh -c 'echo x >>{count}; echo \"<3>begins $$(wc -l <{count})\"'\n\
             ExecStart=/bin/sh -c 'echo \"ends $$(wc -l <{count})\"'\n"
        ),
    );
    let run = |machine: &Machine, times: std::ops::Range<usize>| {
        for time in times {
            assert_eq!(machine.call("systemctl start often").0, 0, "{time}");
        }
    };
    run(&machine, 0..60);
    machine.node.kill_daemon();
    run(&machine, 60..70);
    let all: Vec<String> = (1..=70)
        .flat_map(|time| [format!("begins {time}"), format!("ends {time}")])
        .collect();
    let whole = all.join("\n") + "\n";
    machine.until("journalctl -u often -o cat", |_, out| out == whole);
    let (_, out, _) = machine.call("journalctl -u often -n 120 -o cat");
    assert_eq!(out, all[20..].join("\n") + "\n");
    let (_, out, _) = machine.call("journalctl -t often -p err -n 70 -o cat");
    assert!(
        out.starts_with("begins 1\n") && out.ends_with("begins 70\n"),
        "{out}"
    );
    let (_, out, _) = machine.call("journalctl -u often -o json");
    let first: serde_json::Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!(first["_SYSTEMD_UNIT"], "often.service");
    assert_eq!(first["PRIORITY"], "3");
    // The first ones are no objects any more.
    let path = |line: &str| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        entry["_AURAE_PATH"].as_str().unwrap().to_owned()
    };
    let last = out.lines().last().map(path).unwrap();
    let records = machine.node.aurae(&["ps", "-aq"]).ok();
    let has = |path: &str| records.lines().any(|it| it == path);
    let first = first["_AURAE_PATH"].as_str().unwrap();
    assert!(has(&last) && !has(first), "{first} {last}\n{records}");
}

/// `systemctl … | grep -q`, under `pipefail`: who reads no further has seen what they wanted.
#[test]
fn a_reader_that_leaves_breaks_no_listing() {
    let Some(machine) = Machine::start() else {
        return;
    };
    for words in ["systemctl list-units --all", "systemctl show basic.target"] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut listing = machine.command(&words);
        let mut listing = listing.stdout(Stdio::piped()).spawn().unwrap();
        drop(listing.stdout.take());
        assert_eq!(listing.wait().unwrap().code(), Some(0), "{words:?}");
    }
}
