// SPDX-License-Identifier: Apache-2.0
//! Unit files and crontabs at the command line, without a node: what is told of them, how much they
//! leave open, and the programs that are made of them.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A disk with some units.
fn disk() -> tempfile::TempDir {
    let disk = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = disk.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "usr/lib/systemd/system/web.service",
        "[Unit]\nDescription=The site\n[Service]\nExecStart=/usr/bin/web --port 80\nUser=web\n\
         Restart=always\nPrivateTmp=yes\n",
    );
    write(
        "etc/systemd/system/web.service.d/more.conf",
        "[Service]\nSlice=web.slice\nNonsense=1\n",
    );
    write(
        "usr/lib/systemd/system/closed.service",
        "[Service]\nExecStart=/usr/bin/x\nSystemCallFilter=@system-service\nDynamicUser=yes\n",
    );
    write(
        "usr/lib/systemd/system/a.socket",
        "[Socket]\nListenStream=80\n",
    );
    write("etc/systemd/system/gone.service", "");
    write("etc/cron.d/site", "17 3 * * * web /usr/bin/sweep\n");
    write(
        "usr/lib/systemd/system/sweep.service",
        "[Service]\nExecStart=/usr/bin/sweep\n",
    );
    write(
        "usr/lib/systemd/system/sweep.timer",
        "[Timer]\nOnCalendar=daily\nPersistent=yes\n",
    );
    std::os::unix::fs::symlink(
        "/usr/share/zoneinfo/Europe/Berlin",
        disk.path().join("etc/localtime"),
    )
    .unwrap();
    disk
}

fn aurae(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aurae"));
    command
        .current_dir(folder)
        .env("HOME", folder)
        .args(arguments);
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn units_are_verified_with_places_and_statuses() {
    let disk = disk();
    let verify = |more: &[&str]| {
        let all = [&["schedule", "verify", "--root", "."], more].concat();
        aurae(disk.path(), &all)
    };
    let (status, out, err) = verify(&["web"]);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    for line in [
        "web.service\n  runs /usr/bin/web --port 80\n  as the user web\n",
        "/etc/systemd/system/web.service.d/more.conf:2:1: warning: Slice: is not honoured here",
        "/etc/systemd/system/web.service.d/more.conf:3:1: warning: Service.Nonsense: systemd",
    ] {
        assert!(out.contains(line), "no {line} in {out}");
    }
    // It would have rights without it.
    let (status, out, _) = verify(&["-o", "json", "closed.service", "web.service"]);
    assert_eq!(status, 3, "{out}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told[0]["usable"], false);
    let errors = told[0]["findings"].as_array().unwrap();
    assert!(errors.iter().any(|it| {
        it["directive"] == "SystemCallFilter" && it["line"] == 3 && it["severity"] == "error"
    }));
    assert_eq!(
        told[1]["drop_ins"][0],
        "/etc/systemd/system/web.service.d/more.conf"
    );
    assert_eq!(told[1]["usable"], true);
    // A file is whatever has a folder.
    fs::write(
        disk.path().join("own.service"),
        "[Service]\nExecStart=nothing/here\n",
    )
    .unwrap();
    let (status, out, _) = aurae(disk.path(), &["schedule", "verify", "./own.service"]);
    assert_eq!(status, 3, "{out}");
    assert!(
        out.contains("/own.service:2:11: error: Service.ExecStart"),
        "{out}"
    );
    assert_eq!(verify(&["none"]).0, 1);
    assert_eq!(verify(&["a/b.nonsense"]).0, 1);
    assert_eq!(verify(&["bad name.service"]).0, 2);
    assert_eq!(verify(&[]).0, 2);
}

#[test]
fn services_are_scored_and_held_against_a_threshold() {
    let disk = disk();
    let security = |more: &[&str]| {
        let all = [&["schedule", "security", "--root", "."], more].concat();
        aurae(disk.path(), &all)
    };
    let (status, out, _) = security(&["web"]);
    assert_eq!(status, 0, "{out}");
    assert!(
        out.contains("PrivateNetwork=") && !out.contains("PrivateTmp="),
        "{out}"
    );
    assert!(out.ends_with("web.service: 9.0 UNSAFE\n"), "{out}");
    let (status, out, _) = security(&["--threshold", "8.9", "-o", "json", "web", "closed"]);
    assert_eq!(status, 3, "{out}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&told[0]["exposure"], &told[0]["level"]),
        (&"9.0".into(), &"UNSAFE".into())
    );
    assert_eq!(told[0]["answers"].as_array().unwrap().len(), 81);
    assert_eq!(security(&["--threshold", "9.0", "web"]).0, 0);
    let (status, _, err) = security(&["a.socket"]);
    assert!(
        status == 1 && err.contains("only services are scored"),
        "{err}"
    );
    let (status, _, err) = security(&["gone"]);
    assert!(
        status == 1 && err.contains("is masked by /etc/systemd/system/gone.service"),
        "{err}"
    );
    assert_eq!(security(&["--threshold", "11", "web"]).0, 2);
}

#[test]
fn units_of_a_mounted_disk_are_its_own() {
    let disk = disk();
    let outside = tempfile::tempdir().unwrap();
    fs::write(
        outside.path().join("evil.service"),
        "[Service]\nExecStart=/outside\n",
    )
    .unwrap();
    let link = disk.path().join("etc/systemd/system/evil.service");
    std::os::unix::fs::symlink(outside.path().join("evil.service"), link).unwrap();
    let (_, out, err) = aurae(disk.path(), &["schedule", "verify", "--root", ".", "evil"]);
    assert!(!out.contains("/outside"), "{out}{err}");
}

#[test]
fn units_and_crontabs_are_imported_and_checked() {
    let disk = disk();
    let import = |name: &str, more: &[&str]| {
        let (status, out, err) = aurae(disk.path(), &[&["import", "--root", "."], more].concat());
        assert_eq!(status, 0, "{err}");
        fs::write(disk.path().join(name), &out).unwrap();
        let (status, _, err) = aurae(disk.path(), &["check", "--no-tsc", name]);
        assert_eq!((status, err.as_str()), (0, ""), "{out}");
        out
    };
    let web = import("web.ts", &["web.service"]);
    assert!(
        web.contains("/etc/systemd/system/web.service.d/more.conf:2: Slice=:"),
        "{web}"
    );
    assert!(web.contains("restart: \"always\""), "{web}");
    let sweep = import("sweep.ts", &["sweep.timer"]);
    let cron = "cron: { pattern: \"0 0 * * *\", zone: \"Europe/Berlin\" }";
    assert!(
        sweep.contains(cron) && sweep.contains("run_once"),
        "{sweep}"
    );
    let site = import("site.ts", &["etc/cron.d/site"]);
    assert!(
        site.contains("user: \"web\"") && site.contains("17 3 * * *"),
        "{site}"
    );
    let own = import("own.ts", &["--as", "system-crontab", "etc/cron.d/site"]);
    assert_eq!(own, site);
    for (word, status) in [("a.socket", 3), ("none.service", 1), ("gone.service", 3)] {
        let (came, _, err) = aurae(disk.path(), &["import", "--root", ".", word]);
        assert_eq!(came, status, "{word}: {err}");
    }
}
