// SPDX-License-Identifier: Apache-2.0
//! Images and containers that mean ill: what runc's CVEs since 2019 were.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::CWD;
use serde_json::{Value, json};

use crate::Story;
use crate::bed::{Bundle, text};

pub(crate) const STORIES: &[Story] = &[
    (
        "links_of_an_image_lead_nowhere_else",
        links_of_an_image_lead_nowhere_else,
    ),
    (
        "the_runtimes_program_can_not_be_written",
        the_runtimes_program_can_not_be_written,
    ),
    (
        "nothing_of_the_runtime_is_left_open",
        nothing_of_the_runtime_is_left_open,
    ),
    (
        "a_working_directory_does_not_lead_out",
        a_working_directory_does_not_lead_out,
    ),
    (
        "masks_are_not_the_images_to_choose",
        masks_are_not_the_images_to_choose,
    ),
    (
        "nothing_is_mounted_inside_of_proc",
        nothing_is_mounted_inside_of_proc,
    ),
    (
        "a_terminal_covers_no_file_of_proc",
        a_terminal_covers_no_file_of_proc,
    ),
    (
        "a_device_covers_no_file_of_proc",
        a_device_covers_no_file_of_proc,
    ),
    (
        "no_capability_is_inheritable_by_default",
        no_capability_is_inheritable_by_default,
    ),
    (
        "groups_that_are_read_only_are_so_without_a_cgroup_namespace",
        groups_that_are_read_only_are_so_without_a_cgroup_namespace,
    ),
    (
        "a_decoy_of_proc_is_not_written_to",
        a_decoy_of_proc_is_not_written_to,
    ),
    (
        "nothing_is_made_on_the_node_while_a_folder_becomes_a_link",
        nothing_is_made_on_the_node_while_a_folder_becomes_a_link,
    ),
];

/// Mount races and links: CVE-2019-19921, CVE-2021-30465, CVE-2023-27561.
fn links_of_an_image_lead_nowhere_else() {
    let bundle = Bundle::new("cat /escaped/made/file; ls /", |_| {});
    let outside = tempfile::tempdir().unwrap();
    let way_out = format!("/../../../../../../..{}", outside.path().display());
    symlink(&way_out, bundle.root().join("out")).unwrap();
    symlink("/../escaped", bundle.root().join("dangling")).unwrap();
    fs::write(bundle.path().join("secret"), "inside\n").unwrap();
    let secret = bundle.path().join("secret");
    bundle.edit(|config| {
        let mounts = config["mounts"].as_array_mut().unwrap();
        let tmpfs = json!({"destination": "/out/mounted", "type": "tmpfs", "source": "tmpfs"});
        mounts.push(tmpfs);
        mounts.push(json!({"destination": "/dangling/made/file", "type": "bind",
                           "source": secret, "options": ["bind", "ro"]}));
    });
    let said = bundle.run_through();
    assert!(said.starts_with("inside\n"), "{said}");
    assert_eq!(
        fs::read_dir(outside.path()).unwrap().count(),
        0,
        "something was made outside"
    );
    // What was asked for is in the container, by the same name.
    let inside = outside.path().strip_prefix("/").unwrap();
    assert!(bundle.root().join(inside).join("mounted").is_dir());
    for folder in ["proc", "sys"] {
        let bundle = Bundle::new("true", |_| {});
        symlink("/elsewhere", bundle.root().join(folder)).unwrap();
        let refused = bundle.run(&[
            "run",
            "--bundle",
            bundle.path().to_str().unwrap(),
            &bundle.id,
        ]);
        let said = text(&refused.stderr);
        assert!(
            said.contains("must be mounted on ordinary directory"),
            "{said}"
        );
    }
}

/// CVE-2019-5736: a process of the container, with all capabilities and the node's user ids.
fn the_runtimes_program_can_not_be_written() {
    let bundle = Bundle::new("true", |config| {
        let all = json!(["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE"]);
        let sets = json!({"bounding": all, "effective": all, "permitted": all});
        config["process"]["capabilities"] = sets;
        config["process"]["noNewPrivileges"] = false.into();
    });
    let own = fs::read("/proc/self/exe").unwrap();
    bundle.create();
    // PID 1 is the runtime's process, waiting.
    let written = bundle.run(&["exec", &bundle.id, "sh", "-c", "echo x > /proc/1/exe"]);
    let said = text(&written.stderr);
    assert!(!written.status.success());
    assert!(said.contains("Read-only file system"), "{said}");
    // Executed again from within, it is no more to be written.
    bundle.succeed(&["delete", "--force", &bundle.id]);
    bundle.edit(|config| config["process"]["args"] = json!(["/proc/self/exe", "--version"]));
    bundle.create();
    bundle.succeed(&["start", &bundle.id]);
    bundle.wait("it has ended", || bundle.status() == "stopped");
    assert!(
        own == fs::read("/proc/self/exe").unwrap(),
        "the program has changed"
    );
}

/// CVE-2016-9962, CVE-2024-21626.
fn nothing_of_the_runtime_is_left_open() {
    let script = "for fd in /proc/self/fd/*; do echo ${fd##*/}; done; ls -l /proc/1/fd";
    let bundle = Bundle::new(&format!("{script}; exec sleep 1000"), |_| {});
    bundle.create();
    // While it waits: its streams, and the fifo. It may just be opening that.
    let pid = bundle.state()["pid"].as_i64().unwrap();
    let open = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    bundle.wait("its streams and the fifo alone are open", || open() <= 4);
    bundle.succeed(&["start", &bundle.id]);
    let listed = bundle.succeed(&["exec", &bundle.id, "sh", "-c", "ls /proc/self/fd"]);
    // The fourth is the one of `ls` itself.
    assert_eq!(
        listed.split_whitespace().collect::<Vec<_>>(),
        ["0", "1", "2", "3"],
        "{listed}"
    );
    let first = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    assert!(first <= 3, "{first} descriptors went to the program");
}

/// CVE-2024-21626: by way of a descriptor that the runtime might have left open.
fn a_working_directory_does_not_lead_out() {
    for number in 3..20 {
        let bundle = Bundle::new("pwd; ls", |config| {
            config["process"]["cwd"] = format!("/proc/self/fd/{number}").into();
        });
        let out = bundle.run(&[
            "run",
            "--bundle",
            bundle.path().to_str().unwrap(),
            &bundle.id,
        ]);
        assert!(
            !out.status.success(),
            "descriptor {number}: {}",
            text(&out.stdout)
        );
        assert!(
            out.stdout.is_empty(),
            "descriptor {number}: {}",
            text(&out.stdout)
        );
    }
}

/// CVE-2025-31133: a `/dev/null` of the image's own.
fn masks_are_not_the_images_to_choose() {
    let bundle = Bundle::new("cat /proc/keys | wc -c; ls -l /proc/keys", |_| {});
    let dev = bundle.path().join("dev");
    fs::create_dir(&dev).unwrap();
    symlink("/proc/sys/kernel/core_pattern", dev.join("null")).unwrap();
    bundle.edit(|config| {
        let mounts = config["mounts"].as_array_mut().unwrap();
        mounts.retain(|mount| !mount["destination"].as_str().unwrap().starts_with("/dev"));
        mounts.push(json!({"destination": "/dev", "type": "bind", "source": dev,
                           "options": ["bind"]}));
    });
    let said = bundle.run_through();
    assert!(said.starts_with('0'), "{said}");
    assert!(said.contains("1,   3"), "it is the null device: {said}");
}

/// CVE-2019-16884, CVE-2025-52881: what confines a process is written to files of proc.
fn nothing_is_mounted_inside_of_proc() {
    for inside in ["/proc/self/attr", "/proc/sys", "/proc/1/attr/exec"] {
        let bundle = Bundle::new("true", |config| {
            let mounts = config["mounts"].as_array_mut().unwrap();
            mounts.push(json!({"destination": inside, "type": "tmpfs", "source": "tmpfs"}));
        });
        let refused = bundle.run(&[
            "run",
            "--bundle",
            bundle.path().to_str().unwrap(),
            &bundle.id,
        ]);
        let said = text(&refused.stderr);
        assert!(
            said.contains("inside of proc") || said.contains("at /proc/"),
            "{said}"
        );
        assert!(!refused.status.success());
    }
}

/// CVE-2025-52565: a link of the image's in the place of `/dev/console`, which would put the
/// terminal over a file of proc.
fn a_terminal_covers_no_file_of_proc() {
    for target in ["/proc/sys/kernel/core_pattern", "/proc/1/attr/exec"] {
        let bundle = Bundle::new("true", |config| {
            config["process"]["terminal"] = true.into();
            let mounts = config["mounts"].as_array_mut().unwrap();
            mounts.retain(|mount| {
                let at = mount["destination"].as_str().unwrap();
                !at.starts_with("/dev") || at == "/dev/pts"
            });
        });
        fs::create_dir(bundle.root().join("dev")).unwrap();
        symlink(target, bundle.root().join("dev/console")).unwrap();
        let socket = bundle.path().join("console");
        let listener = UnixListener::bind(&socket).unwrap();
        let refused = bundle.run(&[
            "create",
            "--console-socket",
            socket.to_str().unwrap(),
            "--bundle",
            bundle.path().to_str().unwrap(),
            &bundle.id,
        ]);
        drop(listener);
        let said = text(&refused.stderr);
        assert!(!refused.status.success(), "{target}: {said}");
        assert!(
            said.contains("/dev/console: a link is in its place"),
            "{said}"
        );
    }
}

/// The same by way of a device in a user namespace, where the node's is bound.
fn a_device_covers_no_file_of_proc() {
    let bundle = Bundle::new("true", |config| {
        own_users(config);
        let mounts = config["mounts"].as_array_mut().unwrap();
        mounts.retain(|mount| !mount["destination"].as_str().unwrap().starts_with("/dev"));
    });
    for folder in ["proc", "sys", "dev"] {
        fs::create_dir(bundle.root().join(folder)).unwrap();
    }
    chown(bundle.root().join("dev"), Some(100_000), Some(100_000)).unwrap();
    symlink("/proc/self/attr/exec", bundle.root().join("dev/null")).unwrap();
    let folder = bundle.path().to_str().unwrap();
    let refused = bundle.run(&["run", "--bundle", folder, &bundle.id]);
    let said = text(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(
        said.contains("device /dev/null: a link is in its place"),
        "{said}"
    );
}

/// A user namespace that is root of none of the node's files.
fn own_users(config: &mut Value) {
    let linux = &mut config["linux"];
    let map = json!([{"containerID": 0, "hostID": 100_000, "size": 65_536}]);
    linux["uidMappings"] = map.clone();
    linux["gidMappings"] = map;
    let namespaces = linux["namespaces"].as_array_mut().unwrap();
    namespaces.push(json!({"type": "user"}));
}

/// CVE-2022-29162: inheritable ones are raised by each program whose file has them as such.
fn no_capability_is_inheritable_by_default() {
    let ask = "grep ^CapInh /proc/self/status";
    let none = "CapInh:\t0000000000000000\n";
    let bundle = Bundle::new(&format!("{ask}; exec sleep 1000"), |_| {});
    let folder = bundle.path().to_str().unwrap().to_owned();
    let log = fs::File::create(bundle.path().join("log")).unwrap();
    // The caller's own don't go in either.
    let caller = "exec setpriv --inh-caps +net_raw,+chown -- \"$@\"";
    let created = bundle.command(&["create", "--bundle", &folder, &bundle.id]);
    let link = bundle.path().join("aurae-oci");
    symlink(std::env::current_exe().unwrap(), &link).unwrap();
    let mut through = std::process::Command::new("sh");
    through
        .args(["-c", caller, "sh"])
        .arg(&link)
        .args(created.get_args());
    through
        .stdin(std::process::Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    assert!(through.status().unwrap().success());
    bundle.succeed(&["start", &bundle.id]);
    let said = || fs::read_to_string(bundle.path().join("log")).unwrap();
    bundle.wait("it has said its own", || said().ends_with('\n'));
    assert_eq!(said(), none);
    let added = bundle.succeed(&[
        "exec",
        "--cap",
        "CAP_NET_RAW",
        "--cap",
        "CAP_SYS_ADMIN",
        &bundle.id,
        "sh",
        "-c",
        ask,
    ]);
    assert_eq!(added, none);
}

/// CVE-2023-25809: groups that are shown read-only where no cgroup namespace is made, as in a
/// user's own container, where they can only be bound.
fn groups_that_are_read_only_are_so_without_a_cgroup_namespace() {
    let try_it = "mkdir /sys/fs/cgroup/made; echo 1 > /sys/fs/cgroup/cgroup.procs; true";
    let bundle = Bundle::new(&format!("({try_it}) 2>&1"), |config| {
        own_users(config);
        let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
        namespaces.retain(|namespace| namespace["type"] != "cgroup");
        let mounts = config["mounts"].as_array_mut().unwrap();
        let groups = mounts
            .iter()
            .find(|mount| mount["type"] == "cgroup")
            .unwrap();
        let options = groups["options"].as_array().unwrap();
        assert!(options.contains(&"ro".into()), "{groups}");
    });
    for folder in ["proc", "sys", "dev"] {
        fs::create_dir(bundle.root().join(folder)).unwrap();
    }
    let said = bundle.run_through();
    assert_eq!(said.matches("Read-only file system").count(), 2, "{said}");
}

/// CVE-2023-28642, CVE-2025-52881: what is written to proc goes to the kernel, not to a `/proc`
/// that a mount of the container's stands for.
fn a_decoy_of_proc_is_not_written_to() {
    let decoy = tempfile::tempdir().unwrap();
    let file = decoy.path().join("sys/kernel/msgmax");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "decoy\n").unwrap();
    let bundle = Bundle::new("cat /real/sys/kernel/msgmax", |config| {
        let mounts = config["mounts"].as_array_mut().unwrap();
        mounts.retain(|mount| mount["destination"] != "/proc");
        mounts.push(
            json!({"destination": "/proc", "type": "bind", "source": decoy.path(),
                           "options": ["bind"]}),
        );
        mounts.push(json!({"destination": "/real", "type": "proc", "source": "proc"}));
        config["linux"]["sysctl"] = json!({"kernel.msgmax": "12345"});
    });
    assert_eq!(bundle.run_through(), "12345\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "decoy\n");
}

/// CVE-2024-45310: a folder of the container's is exchanged for a link out, again and again, while
/// the place of a mount is made in it.
fn nothing_is_made_on_the_node_while_a_folder_becomes_a_link() {
    let shared = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let (folder, link) = (shared.path().join("folder"), shared.path().join("link"));
    fs::create_dir(&folder).unwrap();
    symlink(outside.path(), &link).unwrap();
    let over = AtomicBool::new(false);
    let exchange = || {
        while !over.load(Ordering::Relaxed) {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            rustix::fs::renameat_with(CWD, &folder, CWD, &link, flags).unwrap();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(exchange);
        for number in 0..24 {
            let bundle = Bundle::new("true", |config| {
                let mounts = config["mounts"].as_array_mut().unwrap();
                mounts.push(json!({"destination": "/shared", "type": "bind",
                                   "source": shared.path(), "options": ["bind"]}));
                for part in 0..20 {
                    let at = format!("/shared/folder/{number}/{part}/a");
                    mounts.push(json!({"destination": at, "type": "tmpfs", "source": "tmpfs"}));
                }
            });
            let at = bundle.path().to_str().unwrap();
            // It may be made or not: a place that was found is gone the next moment.
            let _ = bundle.run(&["run", "--bundle", at, &bundle.id]);
        }
        over.store(true, Ordering::Relaxed);
    });
    let made: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
    assert!(made.is_empty(), "{made:?}");
}
