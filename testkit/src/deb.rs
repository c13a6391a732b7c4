// SPDX-License-Identifier: Apache-2.0
//! The Debian package: a tree of files and `dpkg-deb`, without debhelper. The same inputs make the
//! same package, to the byte: what is in it has one owner and one time.
//!
//! What is installed where is here; what happens then is in `dist/deb`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::disk::{Copy, fingerprint};
use crate::exec;

/// The project's folder.
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// As the control file has it.
const MAINTAINER: &str = "The Aurae authors <aurae-runtime@users.noreply.github.com>";
/// Of packages that are tried out: dpkg's tools take no older files.
const TRIED: u64 = 1_700_000_000;
/// What dpkg runs.
const SCRIPTS: [&str; 4] = ["preinst", "postinst", "prerm", "postrm"];
/// Completions: the shell, and where Debian's has them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/aurae"),
    ("zsh", "usr/share/zsh/vendor-completions/_aurae"),
    ("fish", "usr/share/fish/vendor_completions.d/aurae.fish"),
];

/// How the package's files are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// To be tried out: none, since a translated processor is slow at it.
    Quick,
    /// To be shipped.
    Small,
}

/// A package to make.
#[derive(Clone, Debug)]
pub struct Package {
    /// In Debian's form.
    pub version: String,
    /// `auraed`.
    pub daemon: PathBuf,
    /// `aurae`.
    pub client: PathBuf,
    /// Seconds since 1970 that everything in it is dated to.
    pub epoch: u64,
    /// How it is compressed.
    pub compression: Compression,
}

impl Package {
    /// Makes `aurae_VERSION_ARCHITECTURE.deb` in a folder.
    ///
    /// # Errors
    /// When a file isn't there, a program isn't, or fails.
    pub fn make(&self, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder)?;
        let scratch = tempfile::tempdir_in(folder)?;
        let tree = scratch.path().join("tree");
        folder_at(&tree)?;
        self.fill(&tree)?;
        self.control(&tree)?;
        let name = format!("aurae_{}_{}.deb", self.version, architecture()?);
        let made = scratch.path().join(&name);
        let mut pack = Command::new("dpkg-deb");
        pack.env("SOURCE_DATE_EPOCH", self.epoch.to_string())
            .arg("--root-owner-group");
        match self.compression {
            Compression::Quick => pack.arg("-Znone"),
            Compression::Small => pack.args(["-Zxz"]),
        };
        exec::read(pack.arg("--build").arg(&tree).arg(&made))?;
        let there = folder.join(name);
        fs::rename(made, &there)?;
        Ok(there)
    }

    /// Everything that is installed.
    fn fill(&self, tree: &Path) -> Result<()> {
        put(&self.daemon, &tree.join("usr/sbin/auraed"), 0o755)?;
        put(&self.client, &tree.join("usr/bin/aurae"), 0o755)?;
        link("../sbin/auraed", &tree.join("usr/bin/aurae-oci"))?;
        for path in diversions()? {
            // From elsewhere by the whole path: `/bin` may itself be a link.
            let target = match path.starts_with("/usr/bin/") {
                true => "aurae",
                false => "/usr/bin/aurae",
            };
            link(target, &below(tree, &path))?;
        }
        let dist = Path::new(PROJECT).join("dist");
        for unit in ["auraed.service", "aurae-cells.service"] {
            let to = tree.join("lib/systemd/system").join(unit);
            put(&dist.join(unit), &to, 0o644)?;
        }
        put(
            &dist.join("config.toml"),
            &tree.join("etc/aurae/config.toml"),
            0o644,
        )?;
        for (shell, path) in COMPLETIONS {
            let script = exec::read(Command::new(&self.client).args(["completion", shell]))?;
            write(&tree.join(path), &script, 0o644)?;
        }
        self.documents(tree, &dist)
    }

    fn documents(&self, tree: &Path, dist: &Path) -> Result<()> {
        let pages = tree.join("usr/share/man/man1");
        folder_at(&pages)?;
        exec::read(Command::new(&self.client).arg("man").arg(&pages))?;
        let page = tree.join("usr/share/man/man8/auraed.8");
        put(&dist.join("auraed.8"), &page, 0o644)?;
        let documents = tree.join("usr/share/doc/aurae");
        put(
            &dist.join("deb/copyright"),
            &documents.join("copyright"),
            0o644,
        )?;
        let version = &self.version;
        let changes =
            format!("aurae ({version}) bookworm; urgency=medium\n\n  * CHANGELOG.md.gz\n");
        write(&documents.join("changelog"), &changes, 0o644)?;
        let project = Path::new(PROJECT);
        put(
            &project.join("CHANGELOG.md"),
            &documents.join("CHANGELOG.md"),
            0o644,
        )?;
        for page in sorted(&project.join("docs/guide"))? {
            if page.extension().is_some_and(|it| it == "md") {
                let name = page.file_name().context("a page has a name")?;
                put(&page, &documents.join("guide").join(name), 0o644)?;
            }
        }
        let mut files = sorted(&pages)?;
        for file in &files {
            fs::set_permissions(file, fs::Permissions::from_mode(0o644))?;
        }
        files.extend([
            page,
            documents.join("changelog"),
            documents.join("CHANGELOG.md"),
        ]);
        exec::read(Command::new("gzip").arg("-9n").args(files)).map(drop)
    }

    /// What dpkg reads.
    fn control(&self, tree: &Path) -> Result<()> {
        let sums = sums(tree)?;
        let from = Path::new(PROJECT).join("dist/deb");
        let to = tree.join("DEBIAN");
        let text = |name: &str| {
            let path = from.join(name);
            fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        let bytes: u64 = walk(tree)?
            .iter()
            .filter_map(|it| fs::metadata(it).ok())
            .map(|it| it.len())
            .sum();
        let control = text("control")?
            .replace("@MAINTAINER@", MAINTAINER)
            .replace("@VERSION@", &self.version)
            .replace("@ARCHITECTURE@", &architecture()?)
            .replace("@SIZE@", &bytes.div_ceil(1024).to_string());
        write(&to.join("control"), &control, 0o644)?;
        write(&to.join("md5sums"), &sums, 0o644)?;
        write(&to.join("conffiles"), "/etc/aurae/config.toml\n", 0o644)?;
        let diversions = diversions()?.join(" ");
        for script in SCRIPTS {
            let filled = text(script)?.replace("@DIVERSIONS@", &diversions);
            write(&to.join(script), &filled, 0o755)?;
        }
        Ok(())
    }
}

/// Where a node of the test bed has the packages: versions 0.0.1 and 0.0.2 of the same binaries.
pub const PACKAGES: &str = "/srv/packages";
/// A small package of Debian's with a service, which has all it needs on the disk.
const OTHER: &str = "at";
/// Starts the test bed's agent, whichever program is PID 1.
const AGENT_UNIT: &str = "[Unit]\nDescription=The test bed's agent\n\
    [Service]\nExecStart=/usr/local/lib/aurae-testbed/node-agent\n";
const AGENT_WANTED: &str = "[Unit]\nWants=node-agent.service\n";

/// The unit of the agent, for a node on which nothing of Aurae would start it.
pub(crate) fn agent_unit(folder: &Path) -> Result<Vec<Copy>> {
    let folder = folder.join("agent");
    let units = Path::new("/etc/systemd/system");
    let mut copies = Vec::new();
    for (name, to, text) in [
        ("unit", "node-agent.service", AGENT_UNIT),
        ("wanted", "multi-user.target.d/agent.conf", AGENT_WANTED),
    ] {
        let file = folder.join(name);
        if !fs::read_to_string(&file).is_ok_and(|had| had == text) {
            write(&file, text, 0o644)?;
        }
        copies.push(Copy::new(file, units.join(to)));
    }
    Ok(copies)
}

/// Two versions of the package, and another one of Debian's. Made when the binaries or what is
/// packed have changed.
pub(crate) fn of_a_bed(folder: &Path, daemon: &Path, client: &Path) -> Result<Vec<Copy>> {
    let folder = folder.join("packages");
    let mut wanted = [fingerprint(daemon)?, fingerprint(client)?].join("\n");
    for part in ["dist", "docs/guide"] {
        for file in walk(&Path::new(PROJECT).join(part))? {
            wanted.push('\n');
            wanted.push_str(&fingerprint(&file)?);
        }
    }
    let recipe = folder.join("recipe");
    if !fs::read_to_string(&recipe).is_ok_and(|had| had == wanted) {
        for version in ["0.0.1", "0.0.2"] {
            let package = Package {
                version: version.into(),
                daemon: daemon.into(),
                client: client.into(),
                epoch: TRIED,
                compression: Compression::Quick,
            };
            package.make(&folder)?;
        }
        fetch(&folder, OTHER)?;
        fs::write(&recipe, wanted)?;
    }
    let mut copies = Vec::new();
    for (number, version) in [(1, "0.0.1"), (2, "0.0.2")] {
        let name = format!("aurae_{version}_{}.deb", architecture()?);
        let to = Path::new(PACKAGES).join(format!("aurae-{number}.deb"));
        copies.push(Copy::new(folder.join(name), to));
    }
    let other = format!("{OTHER}.deb");
    copies.push(Copy::new(
        folder.join(&other),
        Path::new(PACKAGES).join(other),
    ));
    Ok(copies)
}

/// A package of this machine's Debian, as `NAME.deb`.
fn fetch(folder: &Path, name: &str) -> Result<()> {
    let scratch = tempfile::tempdir_in(folder)?;
    let mut fetch = Command::new("apt-get");
    fetch.current_dir(scratch.path());
    // As the calling user: the folder isn't apt's own user's.
    fetch.args(["-q", "-o", "APT::Sandbox::User=root", "download", name]);
    exec::read(&mut fetch)?;
    let found = sorted(scratch.path())?;
    let made = found.first().context("apt-get has left no package")?;
    fs::rename(made, folder.join(format!("{name}.deb")))?;
    Ok(())
}

/// Debian's name of the machine that this runs on.
fn architecture() -> Result<String> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64".into()),
        "aarch64" => Ok("arm64".into()),
        other => bail!("{other}: no name of Debian's is known here for this processor"),
    }
}

/// The paths of systemd's that the package diverts.
///
/// # Errors
/// When the list can't be read.
pub fn diversions() -> Result<Vec<String>> {
    let path = Path::new(PROJECT).join("dist/deb/diversions");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let lines = text.lines().map(str::trim);
    let paths: Vec<String> = lines
        .filter(|line| line.starts_with('/'))
        .map(str::to_owned)
        .collect();
    ensure!(!paths.is_empty(), "{}: no path", path.display());
    Ok(paths)
}

fn below(tree: &Path, path: &str) -> PathBuf {
    tree.join(path.trim_start_matches('/'))
}

/// A folder and those above it, whatever the umask is.
fn folder_at(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        folder_at(parent)?;
    }
    fs::create_dir(path).with_context(|| path.display().to_string())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn parent_of(path: &Path) -> Result<()> {
    folder_at(path.parent().context("a file lies in a folder")?)
}

fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    parent_of(to)?;
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn write(to: &Path, text: &str, mode: u32) -> Result<()> {
    parent_of(to)?;
    fs::write(to, text).with_context(|| to.display().to_string())?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn link(target: &str, at: &Path) -> Result<()> {
    parent_of(at)?;
    symlink(target, at).with_context(|| at.display().to_string())
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// The regular files below a folder, in order.
fn walk(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in sorted(folder)? {
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            found.extend(walk(&path)?);
        } else if metadata.is_file() {
            found.push(path);
        }
    }
    Ok(found)
}

/// What `dpkg --verify` compares with. Configuration isn't in it.
fn sums(tree: &Path) -> Result<String> {
    let mut sum = Command::new("md5sum");
    sum.current_dir(tree).arg("--");
    for path in walk(tree)? {
        let path = path.strip_prefix(tree)?;
        if !path.starts_with("etc") {
            sum.arg(path);
        }
    }
    exec::read(&mut sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that prints what the package asks it for.
    const CLIENT: &str = "#!/bin/sh\n\
        case $1 in completion) echo \"# $2\" ;; man) echo .TH > \"$2/aurae.1\" ;; esac\n";

    fn package(folder: &Path) -> Package {
        let (daemon, client) = (folder.join("auraed"), folder.join("aurae"));
        write(&daemon, "a daemon", 0o755).unwrap();
        write(&client, CLIENT, 0o755).unwrap();
        Package {
            version: "1.2".into(),
            daemon,
            client,
            epoch: 1_700_000_000,
            compression: Compression::Quick,
        }
    }

    #[test]
    fn the_same_inputs_make_the_same_package_whose_files_are_roots() {
        let scratch = tempfile::tempdir().unwrap();
        let package = package(scratch.path());
        let read = |folder: &str| {
            let made = package.make(&scratch.path().join(folder)).unwrap();
            (fs::read(&made).unwrap(), made)
        };
        let ((one, made), (other, _)) = (read("one"), read("other"));
        assert!(one == other, "they differ");
        let listed = exec::read(Command::new("dpkg-deb").arg("-c").arg(&made)).unwrap();
        for line in listed.lines() {
            assert!(line.contains(" root/root "), "{line}");
        }
        for path in [
            "./usr/sbin/auraed",
            "./bin/systemctl -> /usr/bin/aurae",
            "./lib/systemd/system/auraed.service",
            "./usr/share/man/man1/aurae.1.gz",
            "./usr/share/fish/vendor_completions.d/aurae.fish",
        ] {
            assert!(listed.contains(path), "no {path} in\n{listed}");
        }
        let field = |name: &str| {
            let mut ask = Command::new("dpkg-deb");
            exec::read(ask.arg("-f").arg(&made).arg(name)).unwrap()
        };
        assert_eq!(field("Version").trim(), "1.2");
        assert!(!field("Installed-Size").trim().starts_with('0'));
    }

    #[test]
    fn every_script_is_a_shells_and_names_what_is_diverted() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = scratch.path().join("tree");
        package(scratch.path()).control(&tree_of(&tree)).unwrap();
        for script in SCRIPTS {
            let path = tree.join("DEBIAN").join(script);
            exec::read(Command::new("sh").arg("-n").arg(&path)).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(!text.contains('@'), "{script}: {text}");
        }
        let preinst = fs::read_to_string(tree.join("DEBIAN/preinst")).unwrap();
        assert!(preinst.contains("/bin/systemctl /bin/journalctl"));
    }

    fn tree_of(path: &Path) -> PathBuf {
        folder_at(&path.join("usr")).unwrap();
        write(&path.join("usr/file"), "something", 0o644).unwrap();
        path.to_owned()
    }
}
