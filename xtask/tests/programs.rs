// SPDX-License-Identifier: Apache-2.0
//! Every program that the tests run on this machine, and the Debian package that has it: one that
//! the smallest Debian has, or one that `x` installs for `./x test`. A test that needs another
//! program fails here first, not on a fresh machine.
//!
//! Programs are found in the sources: what `Command::new` is given, paths of programs in command
//! lines, and the first words of shell commands. Stories on booted nodes aren't looked at: the
//! node's disk has programs of its own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "called by tests alone: what fails here is a failed test"
)]

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use sources::{literals, root, rust_files};

/// What Debian's smallest system has (mmdebstrap's minbase), by package.
const MINIMAL: &[(&str, &str)] = &[
    ("apt", "apt-cache apt-config apt-get"),
    ("bash", "bash"),
    (
        "coreutils",
        "cat chmod chroot cp cut date dd df echo env false head id kill ln ls md5sum mkdir mkfifo",
    ),
    (
        "coreutils",
        "mknod mv nice nproc od printf pwd readlink rm seq sha256sum sleep sort stat stty tail tee",
    ),
    ("coreutils", "test touch tr true tty uname wc yes"),
    ("dash", "sh"),
    ("dpkg", "dpkg dpkg-deb"),
    ("findutils", "find xargs"),
    ("grep", "grep"),
    ("gzip", "gzip"),
    ("hostname", "hostname"),
    ("mount", "mount umount"),
    ("perl-base", "perl"),
    ("sed", "sed"),
    ("tar", "tar"),
    ("util-linux", "dmesg nsenter setpriv setsid taskset unshare"),
];

/// What `x` installs for `./x test`.
const INSTALLED: &[(&str, &str)] = &[
    ("busybox-static", "busybox"),
    ("crun", "crun"),
    ("dbus-daemon", "dbus-daemon"),
    ("dnsmasq-base", "dnsmasq"),
    ("docker-registry", "docker-registry"),
    ("e2fsprogs", "debugfs e2fsck mke2fs"),
    ("gcc", "strip readelf"),
    ("iproute2", "ip"),
    ("kmod", "depmod modprobe"),
    ("mmdebstrap", "mmdebstrap"),
    ("neovim", "nvim"),
    ("iptables", "iptables"),
    ("nftables", "nft"),
    ("npm", "npm"),
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("skopeo", "skopeo"),
    ("systemd", "busctl systemctl systemd systemd-analyze"),
    ("umoci", "umoci"),
];

/// What comes with Rust.
const RUST: &[&str] = &["cargo", "cargo-deny", "rustc"];

/// The shell's own words.
const BUILT_IN: &[&str] = &[
    ".", ":", "[", "break", "case", "cd", "continue", "do", "done", "echo", "elif", "else", "esac",
    "eval", "exec", "exit", "export", "false", "fi", "for", "if", "in", "kill", "printf", "pwd",
    "read", "return", "set", "shift", "test", "then", "trap", "true", "type", "ulimit", "umask",
    "unset", "until", "wait", "while", "{", "}", "!",
];

/// Sources whose programs don't run on this machine, or not in `./x test`.
const ELSEWHERE: &[&str] = &[
    "tests/src/",
    "xtask/src/bench/",
    "xtask/src/demo/",
    "xtask/src/dist/",
    "aurae/src/cmd/check/full.rs",
    "xtask/src/fresh/",
    // What its package and systemd's own test need.
    "xtask/src/judge/execute.rs",
    // `x` installs Nix for that judge alone.
    "xtask/src/judge/nix.rs",
    "auraed/tests/api/units_judge.rs",
    "bench/",
    // The runtime's own `ps`, of the machine that it runs on.
    "crates/oci/src/command/inspect.rs",
    "fuzz/",
];
const HERE: &str = "xtask/tests/programs";

/// What precedes a shell script in the sources.
const SHELL: &[&str] = &[
    "sh(",
    "tried(",
    "\"-c\",",
    "sh(&format!(",
    "\"-c\",&format!(",
];
/// Where programs are, in command lines.
const FOLDERS: &[&str] = &["/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/"];

/// Each program with a file that runs it.
fn programs() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (path, text) in rust_files() {
        if ELSEWHERE
            .iter()
            .chain([&HERE])
            .any(|prefix| path.starts_with(prefix))
        {
            continue;
        }
        for literal in literals(&text) {
            let value = literal.value.as_str();
            let mut names = BTreeSet::new();
            if literal.before.ends_with("Command::new(") && !elsewhere(value) {
                names.insert(base(value));
            } else if SHELL.iter().any(|head| follows(&literal.before, head)) {
                names.extend(commands(value));
            } else if path.contains("/tests/") && is_in_a_folder(value) {
                names.insert(base(value));
            }
            for name in names {
                found.entry(name).or_insert_with(|| path.clone());
            }
        }
    }
    found
}

/// A program of no package: the test's own, or a booted machine's.
fn elsewhere(path: &str) -> bool {
    path.starts_with("/proc/") || path == "/init"
}

/// Whether this call, and not another whose name ends alike, stands there.
fn follows(before: &str, head: &str) -> bool {
    let rest = before.strip_suffix(head);
    rest.is_some_and(|rest| !rest.ends_with(|one: char| one.is_alphanumeric() || one == '_'))
}

fn is_in_a_folder(path: &str) -> bool {
    FOLDERS.iter().any(|folder| path.starts_with(folder)) && is_name(&base(path))
}

fn base(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one))
}

/// The programs that a shell script runs: the first word of each command.
fn commands(script: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut expects = true;
    for word in words(script) {
        match word.as_str() {
            "\n" | ";" | "|" | "&" | "(" | "$(" | "`" => expects = true,
            ")" => {}
            "if" | "then" | "else" | "elif" | "do" | "while" | "until" | "!" | "{" | "exec" => {}
            _ if expects && (is_assignment(&word) || word.contains(['<', '>'])) => {}
            _ if expects => {
                expects = false;
                let name = base(&word);
                if is_name(&name) && !BUILT_IN.contains(&name.as_str()) {
                    found.insert(name);
                }
            }
            _ => {}
        }
    }
    found
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty()
        && name
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || one == '_')
}

/// Words and separators of a script. What is quoted is one word's part; commands in it are missed,
/// but for `$(`.
fn words(script: &str) -> Vec<String> {
    let (mut all, mut word) = (Vec::new(), String::new());
    let mut quote = None;
    let mut letters = script.chars().peekable();
    let mut close = |word: &mut String| {
        if !word.is_empty() {
            all.push(std::mem::take(word));
        }
    };
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(open)) if open == letter => {
                quote = None;
                word.push('\'');
            }
            (_, Some(_)) => word.push('\''),
            ('$', None) if letters.peek() == Some(&'(') => {
                letters.next();
                close(&mut word);
                word.push_str("$(");
                close(&mut word);
            }
            ('\n' | ';' | '|' | '&' | '(' | ')' | '`', None) => {
                close(&mut word);
                word.push(letter);
                close(&mut word);
            }
            (' ' | '\t', None) => close(&mut word),
            _ => word.push(letter),
        }
    }
    close(&mut word);
    all
}

/// The packages that `x` installs for `./x test`, as its text says.
fn packages_of_x() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("x")).unwrap();
    let value = |start: &str| {
        let line = text
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with(start));
        let quoted = line.and_then(|line| line.split('"').nth(1));
        quoted
            .unwrap_or_else(|| panic!("no {start} in x"))
            .to_owned()
    };
    let needs = value("test | ci) needs=");
    let needs = needs
        .replace("$build", &value("build="))
        .replace("$vm", &value("vm="));
    // Unless it is there already.
    needs
        .split(' ')
        .map(str::to_owned)
        .chain(["npm".to_owned()])
        .collect()
}

#[test]
fn every_program_that_tests_run_is_installed() {
    let packages = packages_of_x();
    for (package, _) in INSTALLED {
        assert!(
            packages.contains(*package),
            "x doesn't install {package} for ./x test"
        );
    }
    let tables = MINIMAL.iter().chain(INSTALLED);
    let known: BTreeSet<&str> = tables
        .flat_map(|(_, programs)| programs.split(' '))
        .chain(RUST.iter().copied())
        .collect();
    let mut missing: Vec<String> = programs()
        .into_iter()
        .filter(|(program, _)| !known.contains(program.as_str()))
        .map(|(program, path)| format!("{program} ({path})"))
        .collect();
    missing.sort();
    assert!(
        missing.is_empty(),
        "tests run programs that no package in this list has; use what is there, or add the \
         package to `x` and here:\n  {}",
        missing.join("\n  ")
    );
}

#[test]
fn signals_are_sent_by_the_system_call() {
    let kills = |(path, text): (String, String)| {
        let found = literals(&text).into_iter().any(|literal| {
            literal.before.ends_with("Command::new(")
                && matches!(base(&literal.value).as_str(), "kill" | "pkill" | "killall")
        });
        found.then_some(path)
    };
    let wrong: Vec<String> = rust_files().into_iter().filter_map(kills).collect();
    assert!(
        wrong.is_empty(),
        "a small Debian has no kill (procps): {wrong:?}"
    );
}

#[test]
fn the_first_words_of_commands_are_found() {
    let script = "A=1 first -x; if second 'not | this'; then exec third & fi\n\
        while ! fourth | /usr/bin/fifth; do echo $(sixth) > out; done";
    let found = commands(script);
    let expected = ["fifth", "first", "fourth", "second", "sixth", "third"];
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}
