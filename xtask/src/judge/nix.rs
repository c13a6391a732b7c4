// SPDX-License-Identifier: Apache-2.0
//! `./x judge nix`: Nix reads the flake, the package and the NixOS module of `dist/nix`. With a
//! nixpkgs (a folder in `AURAE_NIXPKGS`, or `nixpkgs` of `NIX_PATH`) it evaluates the module in a
//! small NixOS: the units are those of `dist/`, but for the lines that are named here, and wrong
//! settings are refused in words. Without one the files are parsed, and no more.
//!
//! Nothing is built: that takes the binaries of Nix's cache. The store is below `target`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use testkit::exec;

use crate::build;

/// Where the module's daemon is executed from, instead of the .deb's place.
const DAEMON: (&str, &str) = ("/usr/sbin/auraed", "/run/aurae/auraed");
/// What the module's unit has more: the copy that is executed. Before what a reload does else.
const MORE: [&str; 2] = [
    "ExecReload=/bin/install -C -m 0755 /bin/auraed /run/aurae/auraed",
    "ExecStartPre=/bin/install -C -m 0755 /bin/auraed /run/aurae/auraed",
];
/// Settings that `check.nix` makes, and what the error says of them.
const REFUSED: [(&str, &str); 6] = [
    ("table", "`services.aurae.settings.colour' "),
    ("notATable", "`services.aurae.settings.node' "),
    ("cgroup", "settings.paths.cgroup can't be set"),
    ("run", "settings.paths.run can't be set"),
    ("firewall", "settings.api.listen has no address"),
    ("port", "`[::]' has no port"),
];

pub(super) fn run() -> Result<ExitCode> {
    let files = files()?;
    for file in &files {
        exec::read(nix()?.arg("--parse").arg(file))?;
    }
    println!("{} files are parsed", files.len());
    let Some(nixpkgs) = nixpkgs()? else {
        println!("There is no nixpkgs (AURAE_NIXPKGS, NIX_PATH): NOTHING MORE WAS CHECKED");
        return Ok(ExitCode::SUCCESS);
    };
    let mut wrong = Vec::new();
    let units: BTreeMap<String, String> =
        serde_json::from_str(&exec::read(&mut evaluate(&nixpkgs, "units")?)?)?;
    ensure!(units.len() == 2, "the module has other units: {units:?}");
    for (name, text) in &units {
        let ours = fs::read_to_string(build::root()?.join("dist").join(name))?;
        let (wanted, made) = (expected(name, &ours), directives(text));
        if wanted == made {
            println!("{name} has the {} lines of dist/", made.len());
        } else {
            wrong.push(format!("{name}: {made:#?}\ninstead of {wanted:#?}"));
        }
    }
    let ports = exec::read(&mut evaluate(&nixpkgs, "ports")?)?;
    if ports.trim() != "[80,7443]" {
        wrong.push(format!("openFirewall opens {ports}"));
    }
    for (name, words) in REFUSED {
        let output = exec::capture(&mut evaluate(&nixpkgs, &format!("refused.{name}"))?)?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || !said.contains(words) {
            wrong.push(format!("{name}: refused by {words:?} it isn't: {said}"));
        }
    }
    println!("{} wrong settings were tried", REFUSED.len());
    let package = exec::capture(&mut evaluate(&nixpkgs, "package")?)?;
    let said = String::from_utf8_lossy(&package.stderr);
    if package.status.success() {
        let path = String::from_utf8_lossy(&package.stdout);
        println!("the package is {} (not built)", path.trim());
    } else if said.contains(" needs Rust ") {
        println!("the package is NOT CHECKED: {}", said.trim());
    } else {
        wrong.push(format!("the package: {said}"));
    }
    wrong.iter().for_each(|it| println!("WRONG {it}"));
    Ok(match wrong.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The flake, and what it imports.
fn files() -> Result<Vec<PathBuf>> {
    let root = build::root()?;
    let mut files = vec![root.join("flake.nix")];
    for entry in fs::read_dir(root.join("dist/nix"))? {
        files.push(entry?.path());
    }
    files.retain(|it| it.extension() == Some(OsStr::new("nix")));
    Ok(files)
}

/// `nix-instantiate` with everything that it keeps below `target`, and no daemon.
fn nix() -> Result<Command> {
    let top = build::target()?.join("judge/nix");
    fs::create_dir_all(&top)?;
    let top = top.canonicalize()?;
    let mut nix = Command::new("nix-instantiate");
    nix.args(["--option", "build-users-group", ""]);
    nix.env_remove("NIX_REMOTE").env("XDG_CACHE_HOME", &top);
    for (name, folder) in [("STORE", "store"), ("STATE", "state"), ("LOG", "log")] {
        nix.env(format!("NIX_{name}_DIR"), top.join(folder));
    }
    Ok(nix)
}

fn nixpkgs() -> Result<Option<PathBuf>> {
    if let Some(set) = std::env::var_os("AURAE_NIXPKGS") {
        let path = PathBuf::from(set).canonicalize();
        return path.context("AURAE_NIXPKGS").map(Some);
    }
    let found = exec::capture(nix()?.args(["--find-file", "nixpkgs"]))?;
    let path = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    Ok(found.status.success().then(|| PathBuf::from(path)))
}

/// An attribute of `check.nix`, as JSON.
fn evaluate(nixpkgs: &Path, attribute: &str) -> Result<Command> {
    let mut command = nix()?;
    command.args(["--eval", "--strict", "--json", "--read-write-mode"]);
    command.args(["--attr", attribute, "--arg", "nixpkgs"]);
    command
        .arg(nixpkgs)
        .arg(build::root()?.join("dist/nix/check.nix"));
    Ok(command)
}

/// The lines that the module's unit of this name has.
fn expected(name: &str, ours: &str) -> Vec<String> {
    let more = MORE.iter().filter(|_| name == "auraed.service");
    let mut lines: Vec<String> = more.map(|it| (*it).to_owned()).collect();
    lines.extend(directives(&ours.replace(DAEMON.0, DAEMON.1)));
    lines.sort_by(|a, b| key(a).cmp(key(b)));
    lines
}

/// A unit's lines in the order of their keys, without what NixOS adds to each unit (`Environment=`,
/// `X-…=`) or has as links (`[Install]`). Programs are as Debian has them.
fn directives(text: &str) -> Vec<String> {
    let ours = |line: &&str| {
        let key = key(line);
        line.contains('=')
            && !line.starts_with('#')
            && !key.starts_with("X-")
            && !matches!(key, "Environment" | "WantedBy")
    };
    let mut lines: Vec<String> = text.lines().filter(ours).map(without_store).collect();
    lines.sort_by(|a, b| key(a).cmp(key(b)));
    lines
}

fn key(line: &str) -> &str {
    line.split_once('=').map_or(line, |(key, _)| key)
}

/// `/nix/store/HASH-coreutils-9.5/bin/true` is `/bin/true`.
fn without_store(line: &str) -> String {
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    let plain = |word: &str| match word
        .split_once("/store/")
        .and_then(|it| it.1.split_once('/'))
    {
        Some((_, path)) => format!("/{path}"),
        None => word.to_owned(),
    };
    let words: Vec<String> = value.split(' ').map(plain).collect();
    format!("{key}={}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn read(path: &str) -> String {
        fs::read_to_string(build::root().expect("the root").join(path)).expect(path)
    }

    #[test]
    fn a_unit_of_the_module_is_compared_without_what_nixos_adds() {
        let made = "[Unit]\nX-Restart-Triggers=/nix/store/a-b\n[Service]\n\
            Environment=\"PATH=/nix/store/a-b/bin\"\nType=oneshot\nDelegate=yes\n\
            ExecStart=/nix/store/a-coreutils/bin/true\n";
        let ours = "# Delegate=no\n[Service]\nType=oneshot\nExecStart=/bin/true\n\nDelegate=yes\n\
            [Install]\nWantedBy=multi-user.target\n";
        assert_eq!(directives(made), expected("aurae-cells.service", ours));
        assert_ne!(directives(made), expected("auraed.service", ours));
    }

    #[test]
    fn a_reload_replaces_the_copy_before_the_daemon_is_told() {
        let lines = expected("auraed.service", &read("dist/auraed.service"));
        let reload: Vec<_> = lines.iter().filter(|it| key(it) == "ExecReload").collect();
        assert_eq!(reload, [MORE[0], "ExecReload=/bin/kill -HUP $MAINPID"]);
        let start = "ExecStart=/run/aurae/auraed --set ";
        assert!(lines.iter().any(|it| it.starts_with(start)), "{lines:?}");
    }

    #[test]
    fn the_module_has_the_tables_of_the_guide() {
        let guide = read("docs/guide/configuration.md");
        let rows = guide.lines().filter_map(|it| it.strip_prefix("| `"));
        let tables: BTreeSet<&str> = rows
            .filter_map(|it| it.split_once('.').map(|(table, _)| table))
            .collect();
        let module = read("dist/nix/module.nix");
        let list = module.split_once("tables = [").expect("a list").1;
        let list = list.split_once(']').expect("its end").0;
        let listed: BTreeSet<&str> = list
            .split_whitespace()
            .map(|it| it.trim_matches('"'))
            .collect();
        assert_eq!(listed, tables);
    }
}
