// SPDX-License-Identifier: Apache-2.0
//! `--systemd-cgroup` beside Debian's systemd: a manager of its own, in namespaces of its own,
//! which is no user of the machine's. This binary plays the part inside of them, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Story;
use crate::bed::{Bundle, text};

pub(crate) const STORIES: &[Story] = &[(
    "a_container_is_a_scope_of_systemd",
    a_container_is_a_scope_of_systemd,
)];

/// The first argument of the part inside.
pub(crate) const INSIDE: &str = "beside-systemd";

/// Where Debian has it.
const SYSTEMD: &str = "/usr/lib/systemd/systemd";

/// A root of groups and of /run, and a manager that has nothing to start. It asks for the folder
/// that says that a machine was booted with systemd; the runtime asks at /run/systemd.
const SET_UP: &str = r#"
    set -e
    umount -R /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
    mount -t tmpfs none /run
    mkdir -p /run/user/0 /run/units /run/systemd/system /sys/fs/cgroup/manager /sys/fs/cgroup/tests
    ln -s /run/user/0/systemd/private /run/systemd/private
    echo '[Unit]' > /run/units/default.target
    echo $$ > /sys/fs/cgroup/manager/cgroup.procs
    XDG_RUNTIME_DIR=/run/user/0 SYSTEMD_UNIT_PATH=/run/units: "$1" --user --log-target=console &
    echo $$ > /sys/fs/cgroup/tests/cgroup.procs
    shift
    exec "$@"
"#;

fn a_container_is_a_scope_of_systemd() {
    if !Path::new(SYSTEMD).exists() {
        testkit::skip("there is no systemd");
        return;
    }
    let Ok(mount) = kernel::cgroup::find::mount_point() else {
        testkit::skip("there is no cgroup2");
        return;
    };
    let group = Group(mount.join(format!("aurae-oci-systemd-{}", std::process::id())));
    fs::create_dir(&group.0).unwrap();
    let mut inside = Command::new("sh");
    inside.args(["-c", r#"echo $$ > "$0"/cgroup.procs; exec "$@""#]);
    inside.arg(&group.0);
    inside.args(["unshare", "--mount", "--cgroup", "--pid", "--fork"]);
    inside.args(["--mount-proc", "--kill-child", "--propagation", "private"]);
    inside.args(["sh", "-c", SET_UP, "sh", SYSTEMD]);
    inside.arg(std::env::current_exe().unwrap()).arg(INSIDE);
    let output = inside.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Removed with what is below, when all that was in it has ended.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let (Some(parent), Some(name)) = (self.0.parent(), self.0.file_name()) else {
            return;
        };
        let within = std::time::Duration::from_secs(10);
        if let (Ok(parent), Some(name)) = (kernel::cgroup::Cgroup::open(parent), name.to_str()) {
            let _ = parent.remove(name, within);
        }
    }
}

/// systemctl's answer, of the manager inside.
fn systemctl(words: &[&str]) -> String {
    let mut command = Command::new("systemctl");
    let command = command.env("XDG_RUNTIME_DIR", "/run/user/0").arg("--user");
    text(&command.args(words).output().unwrap().stdout)
        .trim()
        .to_owned()
}

/// The part inside.
pub(crate) fn inside() {
    let bundle = Bundle::new("exec sleep 1000", |config| {
        config["linux"]["cgroupsPath"] = "machine-test.slice:aurae:one".into();
    });
    let socket = Path::new("/run/user/0/systemd/private");
    bundle.wait("systemd listens", || socket.exists());
    let folder = bundle.path().to_str().unwrap().to_owned();
    let create = [
        "--systemd-cgroup",
        "create",
        "--bundle",
        &folder,
        &bundle.id,
    ];
    bundle.succeed(&create);
    let pid = bundle.state()["pid"].as_u64().unwrap();
    let group = || fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let expected = "machine.slice/machine-test.slice/aurae-one.scope";
    assert!(group().trim().ends_with(expected), "{}", group());
    let scope = "aurae-one.scope";
    assert_eq!(systemctl(&["is-active", scope]), "active");
    let delegate = systemctl(&["show", "--property=Delegate,Slice", scope]);
    assert_eq!(delegate, "Slice=machine-test.slice\nDelegate=yes");
    // The process that held the scope before is gone.
    let root = Path::new("/sys/fs/cgroup/manager").join(expected);
    let processes = || fs::read_to_string(root.join("cgroup.procs")).unwrap();
    assert_eq!(processes().lines().count(), 1);
    // Another one doesn't get the same scope.
    let other = Bundle::new("true", |config| {
        config["linux"]["cgroupsPath"] = "machine-test.slice:aurae:one".into();
    });
    let folder = other.path().to_str().unwrap().to_owned();
    let refused = other.run(&["--systemd-cgroup", "run", "--bundle", &folder, &other.id]);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains(scope),
        "{}",
        text(&refused.stderr)
    );
    // A reload takes nothing away.
    bundle.succeed(&["start", &bundle.id]);
    systemctl(&["daemon-reload"]);
    assert_eq!(bundle.status(), "running");
    assert!(group().trim().ends_with(expected), "{}", group());
    bundle.succeed(&["kill", &bundle.id, "KILL"]);
    bundle.wait("it has ended", || bundle.status() == "stopped");
    bundle.succeed(&["delete", &bundle.id]);
    assert_eq!(systemctl(&["is-active", scope]), "inactive");
    assert!(!root.exists());
    // One that fails in the making, and one that runs to its end, leave none.
    other.edit(|config| config["process"]["args"] = serde_json::json!(["/no/such"]));
    assert!(
        !other
            .run(&["--systemd-cgroup", "run", "--bundle", &folder, &other.id])
            .status
            .success()
    );
    other
        .edit(|config| config["process"]["args"] = serde_json::json!(["cat", "/proc/self/cgroup"]));
    other.succeed(&["--systemd-cgroup", "run", "--bundle", &folder, &other.id]);
    let left = systemctl(&["list-units", "--all", "--no-legend", "aurae-*"]);
    assert_eq!(left, "");
}
