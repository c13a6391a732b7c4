// SPDX-License-Identifier: Apache-2.0
//! Images and containers that mean ill: what runc's CVEs since 2019 were.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

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
