// SPDX-License-Identifier: Apache-2.0
//! Entering the root of `./x fresh`: mount, pid and cgroup namespaces of its own, and `pivot_root`.
//!
//! By util-linux's programs, which every Debian has. All that is mounted and all that runs in there
//! ends with the pid namespace's first process, whatever the command left behind.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::root::Root;
use super::settings::{self, Rust};

/// The clone, as seen inside.
const CLONE: &str = "/root/aurae";
/// The run's own processes are in this group: one with processes can't hand on controllers.
pub(super) const OWN_GROUP: &str = "_fresh";

/// `$1` is the root, `$2` the group, `$3` rustup's folder, `$4` the folder of cargo's programs; the
/// command follows. The group is entered first, so that it is the top of the cgroup namespace.
const OUTSIDE: &str = r#"
set -e
echo $$ > "$2/cgroup.procs"
exec unshare --mount --propagation private --pid --fork --kill-child --cgroup -- \
    sh -c "$INSIDE" fresh "$@"
"#;

/// As the first process of the namespaces. Mounts of the old root are gone before the command runs.
const INSIDE: &str = r#"
set -e
root=$1 rustup=$3 programs=$4
shift 4
mount --bind "$root" "$root"
cd "$root"
mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o nosuid,nodev,noexec sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mkdir sys/fs/cgroup/_fresh
echo 0 > sys/fs/cgroup/_fresh/cgroup.procs
mount --rbind /dev dev
mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs run
mkdir -p root/.rustup root/.cargo/bin
mount --bind "$rustup" root/.rustup
mount --bind "$programs" root/.cargo/bin
mount -o remount,bind,ro root/.rustup
mount -o remount,bind,ro root/.cargo/bin
pivot_root . .
umount -l .
cd /root/aurae
unset INSIDE
set +e
"$@"
status=$?
exit $status
"#;

/// Where the clone is, seen from here.
pub(super) fn place(root: &Path) -> PathBuf {
    root.join(CLONE.trim_start_matches('/'))
}

/// The command in there; its standard error goes where its output goes.
pub(super) fn command(root: &Root, rust: &Rust, words: &[String]) -> Result<Command> {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec 2>&1\n{OUTSIDE}"), "fresh"]);
    command.arg(root.path()).arg(root.group());
    command.arg(&rust.rustup).arg(&rust.programs).args(words);
    command.env_clear();
    let kept = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_str().unwrap_or_default();
        settings::VARIABLES
            .iter()
            .any(|prefix| name.starts_with(prefix))
    });
    command.envs(kept);
    command.env("INSIDE", INSIDE).env("HOME", "/root");
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    command.env("PATH", path);
    command.env("LANG", "C.UTF-8");
    if let Some(term) = std::env::var_os("TERM") {
        command.env("TERM", term);
    }
    let here = root.path().parent().context("the root's folder")?;
    command.current_dir(here);
    Ok(command)
}
