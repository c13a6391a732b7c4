// SPDX-License-Identifier: Apache-2.0
//! The sandbox directives of units on a real node: what their programs see, what they can't do,
//! what commands of an activation share, and that nothing of it stays.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::units::{Machine, kill, start, status, stop, until};

/// A oneshot service whose commands each write a line to OUT.
fn lines(commands: &[&str], directives: &str) -> String {
    let mut text = String::from("Type=oneshot\n");
    for command in commands {
        text.push_str(&format!(
            "ExecStart=/bin/sh -c '({command}) && echo yes >> OUT || echo no >> OUT'\n"
        ));
    }
    text + directives
}

/// Folders of activations, by their temporary ones.
fn private(unit: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/tmp").unwrap().flatten();
    let names = entries.map(|it| it.file_name().to_string_lossy().into_owned());
    let key = format!("-{unit}-");
    names
        .filter(|it| it.starts_with("aurae-private-") && it.contains(&key))
        .collect()
}

#[tokio::test]
async fn a_program_sees_of_the_node_what_its_unit_says() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let folder = machine.folder.path().display().to_string();
    for name in ["plain", "kept", "secret", "shown"] {
        std::fs::create_dir(machine.at(name)).unwrap();
    }
    symlink(machine.at("kept"), machine.at("link")).unwrap();
    std::fs::write(machine.at("shown/file"), "x").unwrap();
    std::fs::write(machine.at("secret/file"), "x").unwrap();
    let writable = "touch FOLDER/plain/a";
    let commands = [
        "touch /usr/aurae-sandbox",
        "touch /etc/aurae-sandbox",
        writable,
        "touch FOLDER/kept/a",
        "test -e FOLDER/secret/file",
        "test -f FOLDER/bound/file",
        "touch FOLDER/bound/other",
        "test -f FOLDER/link/a",
        "touch FOLDER/empty/a && test -z \"$$(ls -A /root)\"",
    ];
    let directives = "ProtectSystem=strict\nProtectHome=yes\n\
                      ReadWritePaths=FOLDER/link -/nowhere\nInaccessiblePaths=FOLDER/secret\n\
                      BindReadOnlyPaths=FOLDER/shown:FOLDER/bound\n\
                      TemporaryFileSystem=FOLDER/empty\nReadWritePaths=OUTS\n";
    std::fs::create_dir(machine.at("outs")).unwrap();
    let text = lines(&commands, directives);
    let outs = machine.at("outs").display().to_string();
    let text = text.replace("FOLDER", &folder).replace("OUTS", &outs);
    machine.service("seen.service", &text.replace("OUT", &format!("{outs}/out")));
    let done = start(&administrator, "seen").await;
    assert_eq!(
        done.result,
        "done",
        "{:#?}",
        status(&administrator, "seen").await
    );
    let said = std::fs::read_to_string(format!("{outs}/out")).unwrap();
    let said: Vec<&str> = said.lines().collect();
    let expected = ["no", "no", "no", "yes", "no", "yes", "no", "yes", "yes"];
    assert_eq!(said, expected, "{commands:#?}");
    assert!(!Path::new("/usr/aurae-sandbox").exists());
    // The node itself is as it was.
    std::fs::write(machine.at("plain/b"), "").unwrap();
    assert!(
        std::fs::read_dir(machine.at("empty"))
            .unwrap()
            .next()
            .is_none()
    );
    machine.node.stop();
}

/// Folders of the machine's, which go with this.
struct Folders(String);

impl Folders {
    fn at(&self, end: &str) -> String {
        format!("/var/lib/{}{end}", self.0)
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.at(""));
        let _ = std::fs::remove_dir_all(self.at(""));
        let _ = std::fs::remove_dir_all(format!("/var/lib/private/{}", self.0));
    }
}

/// As systemd's own test 34 has it.
#[tokio::test]
async fn folders_of_a_unit_and_their_links_are_there_where_all_else_is_hidden() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let folders = Folders(format!("aurae-hidden-{}", std::process::id()));
    let (name, path) = (&folders.0, folders.at(""));
    let (first, second) = (folders.at("-x"), folders.at("-y"));
    let write = format!("Type=oneshot\nStateDirectory={name}\nExecStart=touch {path}/test\n");
    machine.service("writes.service", &write);
    assert_eq!(start(&administrator, "writes").await.result, "done");
    let commands = [
        &format!("test -f {path}/test"),
        &format!("test -f {first}/test"),
        &format!("test -f {second}/test"),
        "touch /var/lib/new",
        "test -e /var/lib/dpkg",
    ];
    for (unit, user) in [("plain", "no"), ("dynamic", "yes")] {
        let out = machine.at(unit).display().to_string();
        let directives = format!(
            "DynamicUser={user}\nStateDirectory={name}:{name}-x {name}:{name}-y\n\
             TemporaryFileSystem=/var/lib:ro\nStandardOutput=append:{out}\n\
             StandardError=null\n"
        );
        // A dynamic user has a /tmp of its own, without the file.
        let text = lines(&commands, &directives).replace(" >> OUT", "");
        machine.service(&format!("{unit}.service"), &text);
        let done = start(&administrator, unit).await;
        let seen = status(&administrator, unit).await;
        assert_eq!(done.result, "done", "{seen:#?}");
        let said = std::fs::read_to_string(out).unwrap();
        let said: Vec<&str> = said.lines().collect();
        assert_eq!(said, ["yes", "yes", "yes", "no", "no"], "{unit}");
        // What its programs alone see is nothing of the machine's.
        assert!(!Path::new(&first).is_symlink() && !Path::new(&second).exists());
    }
    machine.node.stop();
}

/// Debian's `exec-readonlypaths.service`.
#[tokio::test]
async fn read_only_paths_count_for_what_is_mounted_in_private_devices() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    for (name, directives, expected) in [
        ("devices", "", ["no", "yes", "yes"]),
        ("closed", "ReadOnlyPaths=/dev\n", ["no", "no", "yes"]),
    ] {
        let look = "for it in /dev /dev/shm /dev/null; do \
                    test -w $$it && echo yes >> OUT || echo no >> OUT; done";
        let text = format!(
            "Type=oneshot\nPrivateDevices=yes\n{directives}ExecStart=/bin/sh -c '{look}'\n"
        );
        machine.service(&format!("{name}.service"), &text);
        assert_eq!(start(&administrator, name).await.result, "done");
        assert_eq!(machine.out(), expected, "{name}");
        std::fs::remove_file(machine.at("out")).unwrap();
    }
    machine.node.stop();
}

#[tokio::test]
async fn commands_of_an_activation_share_their_tmp_and_it_goes_with_them() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    // What they write to is below the node's /tmp: it is bound into theirs.
    let shown = format!("BindPaths={}\n", machine.folder.path().display());
    machine.service(
        "sandboxtmp.service",
        &(shown.clone()
            + "ExecStartPre=/bin/touch /tmp/of-the-unit\n\
         ExecStartPre=+/bin/sh -c 'test -e /tmp/of-the-unit || echo hidden >> OUT'\n\
         ExecStart=/bin/sh -c 'test -e /tmp/of-the-unit && echo shared >> OUT; exec sleep 1000'\n\
         PrivateTmp=yes\nPrivateNetwork=yes"),
    );
    machine.unit(
        "sandboxjoin.service",
        &(String::from(
            "[Unit]\nJoinsNamespaceOf=sandboxtmp.service\n[Service]\nType=oneshot\nPrivateTmp=yes\n\
         ExecStart=/bin/sh -c 'test -e /tmp/of-the-unit && echo joined >> OUT'\n",
        ) + &shown),
    );
    assert_eq!(start(&administrator, "sandboxtmp").await.result, "done");
    let written = |machine: &Machine| machine.out();
    until(&administrator, "sandboxtmp", "writing", |_| {
        written(&machine).len() == 2
    })
    .await;
    assert_eq!(machine.out(), ["hidden", "shared"]);
    assert_eq!(start(&administrator, "sandboxjoin").await.result, "done");
    assert_eq!(machine.out().last().map(String::as_str), Some("joined"));
    assert!(!Path::new("/tmp/of-the-unit").exists());
    assert_eq!(private("sandboxtmp").len(), 1);
    stop(&administrator, "sandboxtmp").await;
    assert_eq!(private("sandboxtmp"), Vec::<String>::new());
    machine.node.stop();
}

#[tokio::test]
async fn a_program_in_its_namespaces_outlives_the_daemon_and_what_a_dead_one_left_is_removed() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let text = "ExecStart=/bin/sleep 1000\nPrivateTmp=yes\nPrivateNetwork=yes\nProtectSystem=full";
    machine.service("sandboxlives.service", text);
    machine.service("sandboxdies.service", text);
    start(&administrator, "sandboxlives").await;
    start(&administrator, "sandboxdies").await;
    let lives = status(&administrator, "sandboxlives")
        .await
        .main_pid
        .unwrap();
    let dies = status(&administrator, "sandboxdies")
        .await
        .main_pid
        .unwrap();
    let own = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    assert_ne!(own(lives), own(dies));
    assert_ne!(own(lives), own(std::process::id()));
    machine.node.kill_daemon();
    kill(dies);
    let administrator = machine.node.administrator().await;
    until(&administrator, "sandboxdies", "down", |it| {
        it.active == "failed"
    })
    .await;
    assert_eq!(private("sandboxdies"), Vec::<String>::new());
    let still = status(&administrator, "sandboxlives").await;
    assert_eq!((&*still.active, still.main_pid), ("active", Some(lives)));
    assert_eq!(private("sandboxlives").len(), 1);
    stop(&administrator, "sandboxlives").await;
    assert_eq!(private("sandboxlives"), Vec::<String>::new());
    machine.node.stop();
}

#[tokio::test]
async fn calls_are_refused_and_capabilities_and_devices_go_as_units_say() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let commands = [
        "unshare --uts true",
        "grep -q \"^Seccomp:.2\" /proc/self/status",
        "hostname other",
        "test -c /dev/null && test ! -e /dev/kmsg",
        "test -e /dev/loop-control",
        "chmod 4755 OUT.file",
        "grep -q . /proc/kallsyms",
        "grep -q \"^NoNewPrivs:.0\" /proc/self/status",
    ];
    let directives = "RestrictNamespaces=yes\nProtectHostname=yes\nPrivateDevices=yes\n\
                      RestrictSUIDSGID=yes\nProtectKernelTunables=yes\nSystemCallFilter=~@swap\n\
                      RestrictRealtime=yes\nLockPersonality=yes\nMemoryDenyWriteExecute=yes\n\
                      RestrictAddressFamilies=AF_UNIX\nSystemCallArchitectures=native\n\
                      ProtectClock=yes\nProtectKernelLogs=yes\nProtectKernelModules=yes\n\
                      ProtectControlGroups=yes\nProtectProc=invisible\n";
    std::fs::write(machine.at("out.file"), "").unwrap();
    machine.service("filtered.service", &lines(&commands, directives));
    let done = start(&administrator, "filtered").await;
    assert_eq!(
        done.result,
        "done",
        "{:#?}",
        status(&administrator, "filtered").await
    );
    let expected = ["no", "yes", "no", "yes", "no", "no", "no", "yes"];
    assert_eq!(machine.out(), expected, "{commands:#?}");
    // A call that isn't on the list ends the program by SIGSYS, or fails as is said.
    machine.service(
        "killed.service",
        "Type=oneshot\nExecStart=/bin/uname\nSystemCallFilter=~uname",
    );
    start(&administrator, "killed").await;
    let killed = status(&administrator, "killed").await;
    assert!(
        ["signal", "core-dump"].contains(&&*killed.result),
        "{killed:#?}"
    );
    machine.service(
        "failing.service",
        "Type=oneshot\nExecStart=/bin/uname\nSystemCallFilter=~uname:EPERM",
    );
    start(&administrator, "failing").await;
    assert_eq!(status(&administrator, "failing").await.result, "exit-code");
    machine.node.stop();
}

#[tokio::test]
async fn a_place_that_is_not_there_is_a_failure_that_names_it() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "absent.service",
        "Type=oneshot\nExecStart=/bin/true\nReadOnlyPaths=/nowhere/at/all",
    );
    assert_eq!(start(&administrator, "absent").await.result, "failed");
    let absent = status(&administrator, "absent").await;
    let words = format!("{absent:?}");
    for part in [
        "226",
        "absent.service:4",
        "ReadOnlyPaths",
        "/nowhere/at/all",
    ] {
        assert!(words.contains(part), "{part}: {absent:#?}");
    }
    machine.service(
        "optional.service",
        "Type=oneshot\nExecStart=/bin/true\nReadOnlyPaths=-/nowhere/at/all",
    );
    assert_eq!(start(&administrator, "optional").await.result, "done");
    machine.node.stop();
}
