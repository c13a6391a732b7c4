// SPDX-License-Identifier: Apache-2.0
//! What enabling and its opposites would link (systemctl(1), systemd.unit(5)).

use super::*;
use crate::calendar::zones::UtcOnly;
use crate::files::Memory;
use crate::finding::Findings;
use crate::load::{PERSISTENT, RUNTIME, SYSTEM};
use crate::specifier::NoHost;
use crate::unit::Loader;

struct Read<'a>(Loader<'a>);

impl Installs for Read<'_> {
    fn install(&self, located: &Located) -> Option<Install> {
        self.0.load(&located.id).map(|unit| unit.install())
    }
}

fn with<T>(files: &Memory, runtime: bool, act: impl FnOnce(&Machine<'_>) -> T) -> T {
    let catalog = Catalog::read(files, &SYSTEM);
    let loader = Loader {
        files,
        catalog: &catalog,
        host: &NoHost,
        zones: &UtcOnly,
    };
    let installs = Read(loader);
    act(&Machine {
        files,
        catalog: &catalog,
        installs: &installs,
        host: &NoHost,
        runtime,
        folders: (PERSISTENT, RUNTIME),
    })
}

fn units(names: &[&str]) -> Vec<UnitName> {
    names
        .iter()
        .map(|it| UnitName::parse(it).unwrap())
        .collect()
}

fn done(files: &Memory, operations: &[Operation]) -> Memory {
    operations
        .iter()
        .fold(files.clone(), |files, operation| match operation {
            Operation::Link { path, target } => files.link(path, target),
            Operation::Unlink { path } => files.without(path),
        })
}

fn shown(operations: &[Operation]) -> Vec<String> {
    let all = operations.iter().map(|operation| match operation {
        Operation::Link { path, target } => format!("{path} -> {target}"),
        Operation::Unlink { path } => format!("- {path}"),
    });
    all.collect()
}

fn machine() -> Memory {
    Memory::new()
        .file(
            "/lib/systemd/system/ssh.service",
            "[Service]\nExecStart=/bin/x\n[Install]\nWantedBy=multi-user.target\n\
             Alias=sshd.service\nAlso=ssh.socket\n",
        )
        .file(
            "/lib/systemd/system/ssh.socket",
            "[Install]\nRequiredBy=sockets.target\n",
        )
        .file(
            "/lib/systemd/system/getty@.service",
            "[Install]\nWantedBy=getty.target\nDefaultInstance=tty1\n",
        )
        .file(
            "/lib/systemd/system/x@.service",
            "[Install]\nWantedBy=a-%i.target\n",
        )
        .file("/lib/systemd/system/plain.service", "[Unit]\n")
        .file(
            "/lib/systemd/system/also.service",
            "[Install]\nAlso=ssh.service\n",
        )
        .file(
            "/srv/own.service",
            "[Install]\nWantedBy=multi-user.target\n",
        )
}

#[test]
fn enabling_links_and_disabling_takes_all_away() {
    let files = machine();
    let links = with(&files, false, |it| it.enable(&units(&["ssh.service"]))).unwrap();
    assert_eq!(
        shown(&links),
        [
            "/etc/systemd/system/multi-user.target.wants/ssh.service -> \
             /lib/systemd/system/ssh.service",
            "/etc/systemd/system/sockets.target.requires/ssh.socket -> \
             /lib/systemd/system/ssh.socket",
            "/etc/systemd/system/sshd.service -> /lib/systemd/system/ssh.service",
        ]
    );
    let enabled = done(&files, &links);
    let again = with(&enabled, false, |it| it.enable(&units(&["ssh.service"]))).unwrap();
    assert_eq!(again, []);
    let state = |files: &Memory, name: &str| with(files, false, |it| it.state(&units(&[name])[0]));
    assert_eq!(state(&enabled, "ssh.service"), Some(State::Enabled));
    assert_eq!(state(&enabled, "sshd.service"), Some(State::Alias));
    assert_eq!(state(&files, "ssh.service"), Some(State::Disabled));
    assert_eq!(state(&files, "plain.service"), Some(State::Static));
    assert_eq!(state(&files, "also.service"), Some(State::Indirect));
    assert_eq!(state(&files, "none.service"), None);
    let gone = with(&enabled, false, |it| it.disable(&units(&["ssh.service"]))).unwrap();
    assert_eq!(done(&enabled, &gone), files);
}

#[test]
fn templates_are_enabled_by_an_instance() {
    let files = machine();
    let enable = |name: &str| with(&files, true, |it| it.enable(&units(&[name])));
    assert_eq!(
        shown(&enable("getty@.service").unwrap()),
        [
            "/run/systemd/system/getty.target.wants/getty@tty1.service -> \
          /lib/systemd/system/getty@.service"
        ]
    );
    assert_eq!(
        shown(&enable("x@one.service").unwrap()),
        ["/run/systemd/system/a-one.target.wants/x@one.service -> /lib/systemd/system/x@.service"]
    );
    assert!(
        enable("none.service")
            .unwrap_err()
            .contains("does not exist")
    );
}

#[test]
fn masks_are_links_to_null() {
    let files = machine();
    let mask = with(&files, false, |it| it.mask(&units(&["ssh.service"]))).unwrap();
    assert_eq!(
        shown(&mask),
        ["/etc/systemd/system/ssh.service -> /dev/null"]
    );
    let masked = done(&files, &mask);
    let problem = with(&masked, false, |it| it.enable(&units(&["ssh.service"]))).unwrap_err();
    assert!(problem.contains("unmask"), "{problem}");
    assert_eq!(
        with(&masked, false, |it| it.state(&units(&["ssh.service"])[0])),
        Some(State::Masked)
    );
    let unmask = with(&masked, false, |it| it.unmask(&units(&["ssh.service"])));
    assert_eq!(done(&masked, &unmask), files);
    let own = files.file("/etc/systemd/system/ssh.service", "[Unit]\n");
    assert!(with(&own, false, |it| it.mask(&units(&["ssh.service"]))).is_err());
}

#[test]
fn presets_enable_or_disable() {
    let files = machine();
    let mut presets = Presets::default();
    let mut findings = Findings::default();
    presets.parse(
        "p",
        b"enable ssh.socket\nenable x@.service a\ndisable *",
        &mut findings,
    );
    let preset = |name: &str| with(&files, false, |it| it.preset(&units(&[name]), &presets));
    assert_eq!(preset("ssh.socket").unwrap().len(), 1);
    assert_eq!(preset("ssh.service").unwrap(), []);
    assert_eq!(
        shown(&preset("x@.service").unwrap()),
        ["/etc/systemd/system/a-a.target.wants/x@a.service -> /lib/systemd/system/x@.service"]
    );
}

#[test]
fn a_linked_unit_is_known_and_enabled_where_it_lies() {
    let files = machine().link("/etc/systemd/system/own.service", "/srv/own.service");
    assert_eq!(
        with(&files, false, |it| it.state(&units(&["own.service"])[0])),
        Some(State::Linked)
    );
    let links = with(&files, false, |it| it.enable(&units(&["own.service"]))).unwrap();
    assert_eq!(links.len(), 1);
}

#[test]
fn words_of_a_command_are_made_names() {
    // systemctl(1), "Parameter syntax".
    for (word, name) in [
        ("ssh", "ssh.service"),
        ("ssh.socket", "ssh.socket"),
        ("/home", "home.mount"),
        ("/dev/sda", "dev-sda.device"),
        ("getty@tty1", "getty@tty1.service"),
    ] {
        assert_eq!(mangle(word).unwrap().as_str(), name);
    }
    assert!(mangle("a b").is_err());
}

#[test]
fn no_link_to_something_else_is_replaced() {
    let text =
        "[Service]\nExecStart=/x\n[Install]\nAlias=display-manager.service\nWantedBy=a.target\n";
    let files = Memory::new().file("/usr/lib/systemd/system/lightdm.service", text);
    let enable = |files: &Memory| with(files, false, |it| it.enable(&units(&["lightdm.service"])));
    assert_eq!(enable(&files).unwrap().len(), 2);
    let alias = "/etc/systemd/system/display-manager.service";
    for other in ["/dev/null", "/usr/lib/systemd/system/gdm.service"] {
        let refused = enable(&files.clone().link(alias, other)).unwrap_err();
        assert_eq!(
            refused,
            format!("{alias} is there already, and leads to {other}")
        );
    }
    // The same unit, where it lay before.
    let moved = files.link(alias, "/lib/systemd/system/lightdm.service");
    assert_eq!(enable(&moved).unwrap().len(), 2);
}
