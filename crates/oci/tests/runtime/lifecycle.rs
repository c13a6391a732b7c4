// SPDX-License-Identifier: Apache-2.0
//! Containers from `create` to `delete`, and what each part of the configuration does.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::Story;
use crate::bed::{Bundle, text};

pub(crate) const STORIES: &[Story] = &[
    (
        "a_container_is_created_started_and_deleted",
        a_container_is_created_started_and_deleted,
    ),
    (
        "what_is_executed_has_the_containers_rights",
        what_is_executed_has_the_containers_rights,
    ),
    (
        "hooks_run_in_their_order_with_the_state",
        hooks_run_in_their_order_with_the_state,
    ),
    (
        "a_terminal_goes_over_the_console_socket",
        a_terminal_goes_over_the_console_socket,
    ),
    (
        "a_user_namespace_has_its_maps",
        a_user_namespace_has_its_maps,
    ),
    (
        "an_ordinary_user_runs_a_container",
        an_ordinary_user_runs_a_container,
    ),
    (
        "a_failed_create_leaves_nothing",
        a_failed_create_leaves_nothing,
    ),
    ("a_paused_container_goes_on", a_paused_container_goes_on),
    (
        "a_device_that_no_rule_allows_can_not_be_opened",
        a_device_that_no_rule_allows_can_not_be_opened,
    ),
    ("a_profile_refuses_its_calls", a_profile_refuses_its_calls),
    (
        "mounts_are_as_their_options_say",
        mounts_are_as_their_options_say,
    ),
    (
        "what_is_not_supported_is_refused_by_its_name",
        what_is_not_supported_is_refused_by_its_name,
    ),
];

fn a_container_is_created_started_and_deleted() {
    let bundle = Bundle::new("echo began > /out/file; exec sleep 1000", |config| {
        add_mount(
            config,
            json!({"destination": "/out", "type": "tmpfs", "source": "tmpfs"}),
        );
    });
    bundle.create();
    let state = bundle.state();
    assert_eq!(state["status"], "created");
    assert_eq!(state["id"], bundle.id.as_str());
    let pid = state["pid"].as_i64().unwrap();
    assert!(pid > 0);
    assert!(bundle.succeed(&["list", "-q"]).contains(&bundle.id));
    let again = bundle.run(&[
        "create",
        "--bundle",
        bundle.path().to_str().unwrap(),
        &bundle.id,
    ]);
    assert!(
        text(&again.stderr).contains("already exists"),
        "{}",
        text(&again.stderr)
    );
    bundle.succeed(&["start", &bundle.id]);
    assert_eq!(bundle.status(), "running");
    bundle.wait("the program has written", || {
        bundle.run(&["exec", &bundle.id, "cat", "/out/file"]).stdout == b"began\n"
    });
    let early = bundle.run(&["delete", &bundle.id]);
    assert!(
        text(&early.stderr).contains("not stopped"),
        "{}",
        text(&early.stderr)
    );
    bundle.succeed(&["kill", &bundle.id, "KILL"]);
    bundle.wait("it has stopped", || bundle.status() == "stopped");
    bundle.succeed(&["delete", &bundle.id]);
    let gone = bundle.run(&["state", &bundle.id]);
    assert!(text(&gone.stderr).contains("container does not exist"));
    assert!(!group(&bundle).exists(), "its group is gone");
    // One that was never started can be stopped, too.
    bundle.create();
    bundle.succeed(&["kill", &bundle.id, "TERM"]);
    bundle.wait("it has stopped", || bundle.status() == "stopped");
}

/// The container's group, as it is named without a word in the configuration.
fn group(bundle: &Bundle) -> std::path::PathBuf {
    let mount = kernel::cgroup::find::mount_point().unwrap();
    let own = kernel::cgroup::find::own_path().unwrap();
    let beside = own.parent().filter(|above| above.starts_with(&mount));
    beside.unwrap_or(&mount).join(&bundle.id)
}

fn what_is_executed_has_the_containers_rights() {
    let bundle = Bundle::new("exec sleep 1000", |config| {
        config["process"]["env"] = json!(["PATH=/bin", "A=1"]);
    });
    bundle.create();
    bundle.succeed(&["start", &bundle.id]);
    let id = bundle.id.as_str();
    let says = |words: &[&str]| bundle.succeed(&[&["exec"], words].concat());
    assert_eq!(
        says(&["-e", "A=2", "--cwd", "/etc", id, "sh", "-c", "echo $A $PWD"]),
        "2 /etc\n"
    );
    assert_eq!(
        says(&["--user", "7:8", id, "sh", "-c", "id -u; id -g"]),
        "7\n8\n"
    );
    let caps = says(&[id, "grep", "CapEff", "/proc/self/status"]);
    assert!(caps.contains("0000000020000420"), "{caps}");
    let more = says(&[
        "--cap",
        "CAP_SYS_ADMIN",
        id,
        "grep",
        "CapEff",
        "/proc/self/status",
    ]);
    assert!(more.contains("0000000020200420"), "{more}");
    assert!(says(&[id, "grep", "NoNewPrivs", "/proc/self/status"]).contains('1'));
    assert_eq!(says(&[id, "cat", "/proc/1/cmdline"]), "sleep\x001000\0");
    let code = bundle
        .run(&["exec", id, "sh", "-c", "exit 7"])
        .status
        .code();
    assert_eq!(code, Some(7));
    let missing = bundle.run(&["exec", id, "no-such"]);
    assert_eq!(missing.status.code(), Some(255));
    assert!(text(&missing.stderr).contains("executable file not found in $PATH"));
}

fn hooks_run_in_their_order_with_the_state() {
    let bundle = Bundle::new("true", |_| {});
    let log = bundle.path().join("log");
    // The log as the container has it, and as the node has it.
    fs::write(&log, "").unwrap();
    fs::write(bundle.root().join("log"), "").unwrap();
    let line = |name: &str, log: &str| {
        let script = format!("grep -q '\"status\":\"' && echo {name} >> {log}");
        json!([{"path": "/bin/sh", "args": ["sh", "-c", script]}])
    };
    let node = log.to_str().unwrap();
    bundle.edit(|config| {
        config["hooks"] = json!({
            "prestart": line("prestart", node),
            "createRuntime": line("createRuntime", node),
            "createContainer": line("createContainer", node),
            "startContainer": line("startContainer", "/log"),
            "poststart": line("poststart", node),
            "poststop": line("poststop", node),
        });
        let source = node;
        add_mount(
            config,
            json!({"destination": "/log", "type": "bind", "source": source, "options": ["bind"]}),
        );
    });
    bundle.run_through();
    let order = fs::read_to_string(&log).unwrap();
    let order: Vec<&str> = order.lines().collect();
    let place = |name| order.iter().position(|line| *line == name).expect(name);
    assert_eq!(order[..3], ["prestart", "createRuntime", "createContainer"]);
    assert!(place("startContainer") > place("createContainer"));
    assert!(place("poststop") > place("poststart"));
    assert_eq!(order.len(), 6);
    bundle.edit(|config| {
        let failing = json!([{"path": "/bin/sh", "args": ["sh", "-c", "echo no luck; exit 3"]}]);
        config["hooks"] = json!({ "createRuntime": failing });
    });
    let refused = bundle.run(&[
        "run",
        "--bundle",
        bundle.path().to_str().unwrap(),
        &bundle.id,
    ]);
    let said = text(&refused.stderr);
    assert!(
        said.contains("createRuntime hook #0") && said.contains("no luck"),
        "{said}"
    );
}

fn a_terminal_goes_over_the_console_socket() {
    let script = "tty; stat -c %t:%T /dev/console; stty size 2>/dev/null; echo end";
    let bundle = Bundle::new(script, |config| {
        config["process"]["terminal"] = true.into();
        config["process"]["consoleSize"] = json!({"height": 33, "width": 77});
    });
    let path = bundle.path().join("console");
    let listener = UnixListener::bind(&path).unwrap();
    let refused = bundle.run(&[
        "create",
        "--bundle",
        bundle.path().to_str().unwrap(),
        &bundle.id,
    ]);
    assert!(text(&refused.stderr).contains("console-socket"));
    bundle.succeed(&[
        "create",
        "--console-socket",
        path.to_str().unwrap(),
        "--bundle",
        bundle.path().to_str().unwrap(),
        &bundle.id,
    ]);
    let (socket, _) = listener.accept().unwrap();
    let packet = kernel::seqpacket::receive(&socket, &mut [0; 64])
        .unwrap()
        .unwrap();
    let master = packet.fds.into_iter().next().expect("a terminal");
    let size = kernel::tty::size(&master).unwrap();
    assert_eq!((size.rows, size.columns), (33, 77));
    bundle.succeed(&["start", &bundle.id]);
    let said = std::cell::RefCell::new(String::new());
    bundle.wait("the script has come to its end", || {
        let mut buffer = [0; 512];
        let length = rustix::io::read(&master, &mut buffer).unwrap_or(0);
        said.borrow_mut().push_str(&text(&buffer[..length]));
        said.borrow().contains("end")
    });
    // The same device as the terminal's own, 136:0.
    assert!(
        said.borrow().starts_with("/dev/pts/0\r\n88:0\r\n"),
        "{said:?}"
    );
}

fn a_user_namespace_has_its_maps() {
    let script = "id -u; cat /proc/self/uid_map; stat -c '%u %g' /bin/busybox; touch /made";
    let bundle = Bundle::new(script, |config| {
        let map = json!([{"containerID": 0, "hostID": 300_000, "size": 65_536}]);
        config["linux"]["uidMappings"] = map.clone();
        config["linux"]["gidMappings"] = map;
        let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
        namespaces.push(json!({"type": "user"}));
        config["root"]["readonly"] = false.into();
    });
    open_to_all(&bundle);
    let said = bundle.run_through();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "0");
    let map: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(map, ["0", "300000", "65536"]);
    let owner =
        std::os::unix::fs::MetadataExt::uid(&fs::metadata(bundle.root().join("made")).unwrap());
    assert_eq!(owner, 300_000);
}

/// Without newuidmap: one id is mapped, the user's own.
fn an_ordinary_user_runs_a_container() {
    const USER: u32 = 54_321;
    let bundle = Bundle::new("true", |_| {});
    let program = bundle.path().join("aurae-oci");
    fs::copy("/proc/self/exe", &program).unwrap();
    for path in [
        bundle.path().to_owned(),
        bundle.root(),
        bundle.root().join("etc"),
    ] {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
    }
    fs::remove_file(bundle.path().join("config.json")).unwrap();
    let as_user = |words: &[&str]| {
        let user = USER.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
        let out = command
            .arg(&program)
            .args(words)
            .current_dir(bundle.path())
            .output()
            .unwrap();
        assert!(out.status.success(), "{words:?}: {}", text(&out.stderr));
        text(&out.stdout)
    };
    as_user(&["spec", "--rootless"]);
    bundle.edit(|config| {
        config["process"]["terminal"] = false.into();
        config["process"]["args"] = json!(["sh", "-c", "id -u; cat /proc/self/uid_map; ls /dev"]);
    });
    let said = as_user(&["--root", "states", "run", &bundle.id]);
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words[..4], ["0", "0", "54321", "1"], "{said}");
    assert!(words.contains(&"null") && words.contains(&"ptmx"), "{said}");
}

/// The container's root may write to its root, and go there.
fn open_to_all(bundle: &Bundle) {
    use std::os::unix::fs::PermissionsExt;
    for path in [bundle.path().to_owned(), bundle.root()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
}

fn a_failed_create_leaves_nothing() {
    let bundle = Bundle::new("true", |config| {
        config["process"]["args"] = json!(["/no/such/program"]);
    });
    let before = mounts();
    let failed = bundle.run(&[
        "create",
        "--bundle",
        bundle.path().to_str().unwrap(),
        &bundle.id,
    ]);
    assert!(!failed.status.success());
    assert!(text(&failed.stderr).contains("no such file or directory"));
    assert!(!bundle.path().join("states").join(&bundle.id).exists());
    assert!(!group(&bundle).exists());
    assert_eq!(before, mounts());
}

fn mounts() -> usize {
    fs::read_to_string("/proc/self/mountinfo")
        .unwrap()
        .lines()
        .count()
}

fn a_paused_container_goes_on() {
    let bundle = Bundle::new("exec sleep 1000", |_| {});
    bundle.create();
    bundle.succeed(&["start", &bundle.id]);
    bundle.succeed(&["pause", &bundle.id]);
    assert_eq!(bundle.status(), "paused");
    let refused = bundle.run(&["exec", &bundle.id, "true"]);
    assert!(text(&refused.stderr).contains("paused"));
    bundle.succeed(&["resume", &bundle.id]);
    assert_eq!(bundle.status(), "running");
    let pids: Vec<i64> =
        serde_json::from_str(&bundle.succeed(&["ps", "-f", "json", &bundle.id])).unwrap();
    assert_eq!(pids, [bundle.state()["pid"].as_i64().unwrap()]);
}

fn a_device_that_no_rule_allows_can_not_be_opened() {
    let script = "head -c 1 /dev/zero | wc -c; mknod /dev/fuse2 c 10 229 && cat /dev/fuse2; \
                  mknod /dev/mem2 c 1 1 && head -c 1 /dev/mem2";
    let bundle = Bundle::new(script, |config| {
        let sets = &mut config["process"]["capabilities"];
        for set in ["bounding", "effective", "permitted"] {
            sets[set].as_array_mut().unwrap().push(json!("CAP_MKNOD"));
        }
        let devices = &mut config["linux"]["resources"]["devices"];
        let fuse = json!({"allow": true, "type": "c", "major": 10, "minor": 229, "access": "rw"});
        devices.as_array_mut().unwrap().push(fuse);
    });
    let out = bundle.run(&[
        "run",
        "--bundle",
        bundle.path().to_str().unwrap(),
        &bundle.id,
    ]);
    let said = text(&out.stdout) + &text(&out.stderr);
    assert!(
        said.starts_with('1'),
        "the default devices are there: {said}"
    );
    assert!(
        said.contains("/dev/mem2: Operation not permitted"),
        "{said}"
    );
    assert!(
        !said.contains("/dev/fuse2: Operation not permitted"),
        "{said}"
    );
}

fn a_profile_refuses_its_calls() {
    let bundle = Bundle::new("mkdir /dev/a; echo made $?; uname -r", |config| {
        config["linux"]["seccomp"] = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
            "syscalls": [
                {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 122},
            ],
        });
    });
    let out = bundle.run(&[
        "run",
        "--bundle",
        bundle.path().to_str().unwrap(),
        &bundle.id,
    ]);
    let said = text(&out.stdout) + &text(&out.stderr);
    assert!(
        said.contains("made 1") && said.contains("uota exceeded"),
        "{said}"
    );
}

fn mounts_are_as_their_options_say() {
    let script = "cat /proc/self/mountinfo; cat /up/kept; touch /ro/x; touch /ro/below/x";
    let bundle = Bundle::new(script, |_| {});
    let source = bundle.path().join("source");
    fs::create_dir_all(source.join("below")).unwrap();
    fs::create_dir(bundle.root().join("up")).unwrap();
    fs::write(bundle.root().join("up/kept"), "kept\n").unwrap();
    bundle.edit(|config| {
        let options = ["rbind", "rro", "nosuid", "noatime"];
        add_mount(
            config,
            json!({"destination": "/ro", "type": "bind", "source": source, "options": options}),
        );
        let up = json!({"destination": "/up", "type": "tmpfs", "source": "tmpfs",
                        "options": ["tmpcopyup", "size=1m", "nodev"]});
        add_mount(config, up);
    });
    let out = bundle.run(&[
        "run",
        "--bundle",
        bundle.path().to_str().unwrap(),
        &bundle.id,
    ]);
    let (said, refused) = (text(&out.stdout), text(&out.stderr));
    let options = |target: &str| {
        let mut lines = said.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let line = lines
            .find(|line| line.get(4) == Some(&target))
            .expect(target);
        line[5].to_owned()
    };
    for word in ["ro", "nosuid", "noatime"] {
        assert!(
            options("/ro").split(',').any(|option| option == word),
            "{}",
            options("/ro")
        );
    }
    assert!(options("/up").contains("nodev"));
    assert!(said.ends_with("kept\n"), "{said}");
    assert_eq!(
        refused.matches("Read-only file system").count(),
        2,
        "{refused}"
    );
}

fn what_is_not_supported_is_refused_by_its_name() {
    let bundle = Bundle::new("true", |config| {
        config["linux"]["intelRdt"] = json!({"closID": "x"});
    });
    let refused = bundle.run(&[
        "create",
        "--bundle",
        bundle.path().to_str().unwrap(),
        &bundle.id,
    ]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("intelRdt"));
    let bundle = Bundle::new("true", |_| {});
    for command in ["checkpoint", "restore"] {
        let refused = bundle.run(&[command, &bundle.id]);
        assert!(text(&refused.stderr).contains("not supported"));
    }
}

fn add_mount(config: &mut Value, mount: Value) {
    config["mounts"].as_array_mut().unwrap().push(mount);
}
