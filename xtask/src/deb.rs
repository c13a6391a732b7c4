// SPDX-License-Identifier: Apache-2.0
//! The Debian package: the two binaries, systemd's units for a node beside systemd, completions,
//! and the names of systemd's commands, whose originals are diverted to `NAME.systemd` (ADR 57).
//! Made of a folder of binaries by `dpkg-deb`; called by `./x dist`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use testkit::exec;

use crate::build;

/// The commands that are diverted, where Debian's systemd has them. `shutdown` and its like are
/// links to `systemctl`, and so ours by that.
const DIVERTED: [&str; 4] = [
    "/bin/systemctl",
    "/bin/journalctl",
    "/usr/bin/systemd-run",
    "/usr/bin/systemd-analyze",
];
/// Where completions of each shell are, as Debian has them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/aurae"),
    ("zsh", "usr/share/zsh/vendor-completions/_aurae"),
    ("fish", "usr/share/fish/vendor_completions.d/aurae.fish"),
];

/// Makes the package of the binaries in a folder, beside them; returns its path.
///
/// # Errors
/// When a binary isn't there, or dpkg-deb fails.
pub(crate) fn make(binaries: &Path) -> Result<PathBuf> {
    let version = env!("CARGO_PKG_VERSION");
    let scratch = tempfile::tempdir()?;
    let tree = scratch.path().join("tree");
    place(
        &binaries.join("auraed"),
        &tree.join("usr/sbin/auraed"),
        0o755,
    )?;
    place(&binaries.join("aurae"), &tree.join("usr/bin/aurae"), 0o755)?;
    let dist = build::root()?.join("dist");
    for unit in ["auraed.service", "aurae-cells.service"] {
        let to = tree.join("lib/systemd/system").join(unit);
        place(&dist.join(unit), &to, 0o644)?;
    }
    for path in DIVERTED {
        let link = tree.join(path.trim_start_matches('/'));
        fs::create_dir_all(link.parent().context("a command has a folder")?)?;
        symlink("/usr/bin/aurae", &link)?;
    }
    for (shell, path) in COMPLETIONS {
        let script = exec::read(Command::new(binaries.join("aurae")).args(["completion", shell]))?;
        write(&tree.join(path), &script, 0o644)?;
    }
    let licence = build::root()?.join("LICENSE");
    place(&licence, &tree.join("usr/share/doc/aurae/copyright"), 0o644)?;
    write(
        &tree.join("DEBIAN/control"),
        &control(version, &tree)?,
        0o644,
    )?;
    for (name, text) in scripts() {
        write(&tree.join("DEBIAN").join(name), &text, 0o755)?;
    }
    let package = binaries.join(format!("aurae_{version}_amd64.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "-z1", "-b"]);
    exec::read(build.arg(&tree).arg(&package))?;
    Ok(package)
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn place(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn control(version: &str, tree: &Path) -> Result<String> {
    let mut size = 0;
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false => size += entry.path().symlink_metadata()?.len(),
            }
        }
    }
    Ok(format!(
        "Package: aurae\nVersion: {version}\nArchitecture: amd64\n\
         Maintainer: The Aurae authors <maintainers@aurae.invalid>\nSection: admin\n\
         Priority: optional\nInstalled-Size: {}\nRecommends: systemd, udev, mount\n\
         Homepage: https://github.com/aurae-runtime/aurae\n\
         Description: node daemon that runs cells, pods and units\n \
         One daemon for a machine's workloads, as a service beside systemd, or as PID 1\n \
         (init=/usr/sbin/auraed on the kernel's command line) in its place.\n",
        size / 1024
    ))
}

/// Scripts of the maintainer (deb-preinst(5) and the like). A diversion is made before the links
/// are unpacked, and taken back after they are gone.
fn scripts() -> [(&'static str, String); 3] {
    let diverted = DIVERTED.join(" ");
    let begin = "#!/bin/sh\nset -e\n";
    let reload = "if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi\n";
    [
        (
            "preinst",
            format!(
                "{begin}if [ \"$1\" = install ] || [ \"$1\" = upgrade ]; then\n    \
                 for path in {diverted}; do\n        \
                 dpkg-divert --quiet --package aurae --add --rename \
                 --divert \"$path.systemd\" \"$path\"\n    done\nfi\n"
            ),
        ),
        (
            "postinst",
            format!("{begin}if [ \"$1\" = configure ]; then\n    {reload}fi\n"),
        ),
        (
            "postrm",
            format!(
                "{begin}if [ \"$1\" = remove ] || [ \"$1\" = abort-install ] || \
                 [ \"$1\" = disappear ]; then\n    for path in {diverted}; do\n        \
                 dpkg-divert --quiet --package aurae --remove --rename \
                 --divert \"$path.systemd\" \"$path\"\n    done\n    {reload}fi\n\
                 if [ \"$1\" = purge ]; then\n    rm -rf /var/lib/aurae /etc/aurae\nfi\n"
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_shell_and_divert_what_the_package_has() {
        for (name, text) in scripts() {
            let scratch = tempfile::tempdir().unwrap();
            let path = scratch.path().join(name);
            write(&path, &text, 0o755).unwrap();
            let mut check = Command::new("sh");
            exec::read(check.arg("-n").arg(&path)).unwrap();
        }
        let [(_, before), _, (_, after)] = scripts();
        for path in DIVERTED {
            assert!(before.contains(path) && after.contains(path), "{path}");
        }
    }
}
