// SPDX-License-Identifier: Apache-2.0
//! Names, folders and precedence, as systemd.unit(5) and systemd.preset(5) have them.

use super::catalog::{Catalog, Source};
use super::dropins::{find, links, stems};
use super::preset::{Preset, Presets};
use super::{PERSISTENT, SYSTEM};
use crate::files::Memory;
use crate::finding::Findings;
use crate::name::UnitName;

fn unit(name: &str) -> UnitName {
    UnitName::parse(name).unwrap()
}

#[test]
fn the_earlier_folder_wins() {
    // systemd.unit(5), "Unit file load path", table 1.
    let mut files = Memory::new();
    for folder in SYSTEM.iter().rev() {
        files = files.file(&format!("{folder}/a.service"), "[Unit]\n");
        let catalog = Catalog::read(&files, &SYSTEM);
        let located = catalog.locate(&unit("a.service")).unwrap();
        assert_eq!(located.fragment, Some(format!("{folder}/a.service")));
    }
}

#[test]
fn links_are_aliases_masks_or_the_unit_itself() {
    let files = Memory::new()
        .file("/lib/systemd/system/ssh.service", "[Unit]\n")
        .link(
            "/etc/systemd/system/sshd.service",
            "/lib/systemd/system/ssh.service",
        )
        .link("/etc/systemd/system/other.service", "sshd.service")
        .link("/etc/systemd/system/cron.service", "/dev/null")
        .file("/etc/systemd/system/empty.service", "")
        .link("/etc/systemd/system/mine.service", "/srv/mine.service")
        .file("/srv/mine.service", "[Unit]\n")
        .link("/etc/systemd/system/linked.service", "/srv/mine@.scope")
        .link("/etc/systemd/system/again.service", "linked.service")
        .file("/srv/mine@.scope", "[Unit]\n")
        .link(
            "/etc/systemd/system/wrong.service",
            "/lib/systemd/system/ssh.socket",
        );
    let catalog = Catalog::read(&files, &SYSTEM);
    let ssh = catalog.locate(&unit("other.service")).unwrap();
    assert_eq!(ssh.id, unit("ssh.service"));
    let names: Vec<&str> = ssh.names.iter().map(UnitName::as_str).collect();
    assert_eq!(names, ["other.service", "ssh.service", "sshd.service"]);
    for masked in ["cron.service", "empty.service"] {
        assert!(catalog.locate(&unit(masked)).unwrap().masked.is_some());
    }
    let mine = catalog.locate(&unit("mine.service")).unwrap();
    assert_eq!(
        mine.fragment.as_deref(),
        Some("/etc/systemd/system/mine.service")
    );
    // Of a file elsewhere no name counts but the link's, which may have others.
    let linked = catalog.locate(&unit("again.service")).unwrap();
    assert_eq!(
        linked.names,
        ["again.service", "linked.service"].map(unit).into()
    );
    assert_eq!(catalog.locate(&unit("mine@.scope")), None);
    assert_eq!(catalog.locate(&unit("wrong.service")), None);
    assert!(
        catalog
            .findings
            .iter()
            .next()
            .unwrap()
            .message
            .contains("another type")
    );
    assert_eq!(catalog.locate(&unit("none.service")), None);
}

#[test]
fn an_instance_is_its_templates() {
    let files = Memory::new()
        .file("/lib/systemd/system/getty@.service", "[Unit]\n")
        .link(
            "/etc/systemd/system/autovt@.service",
            "/lib/systemd/system/getty@.service",
        )
        .link(
            "/etc/systemd/system/con@tty9.service",
            "/lib/systemd/system/getty@.service",
        )
        .file("/etc/systemd/system/getty@tty2.service", "[Unit]\n");
    let catalog = Catalog::read(&files, &SYSTEM);
    let one = catalog.locate(&unit("autovt@tty1.service")).unwrap();
    assert_eq!(one.id, unit("getty@tty1.service"));
    assert!(one.names.contains(&unit("autovt@tty1.service")));
    let nine = catalog.locate(&unit("getty@tty9.service")).unwrap();
    assert!(nine.names.contains(&unit("con@tty9.service")));
    assert!(!one.names.contains(&unit("con@tty9.service")));
    assert_eq!(
        catalog.locate(&unit("con@tty9.service")).unwrap().id,
        unit("getty@tty9.service")
    );
    let own = catalog.locate(&unit("getty@tty2.service")).unwrap();
    assert_eq!(
        own.fragment.as_deref(),
        Some("/etc/systemd/system/getty@tty2.service")
    );
}

/// systemd's own test of drop-ins has these (`bar-alias@2.service`).
#[test]
fn an_instance_s_own_link_counts_before_that_of_its_template() {
    let files = Memory::new()
        .file("/etc/systemd/system/bar@.service", "[Unit]\n")
        .file("/etc/systemd/system/yup@.service", "[Unit]\n")
        .link("/etc/systemd/system/alias@.service", "bar@.service")
        .link("/etc/systemd/system/alias@1.service", "bar@1.service")
        .link("/etc/systemd/system/alias@2.service", "yup@.service")
        .link("/etc/systemd/system/alias@3.service", "yup@3.service");
    let catalog = Catalog::read(&files, &SYSTEM);
    let names = |name: &str| {
        let located = catalog.locate(&unit(name)).unwrap();
        let names = located.names.iter().map(UnitName::as_str);
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("bar@0.service"), "alias@0.service bar@0.service");
    assert_eq!(names("alias@1.service"), "alias@1.service bar@1.service");
    assert_eq!(names("bar@2.service"), "bar@2.service");
    assert_eq!(names("alias@2.service"), "alias@2.service yup@2.service");
    assert_eq!(names("bar@3.service"), "bar@3.service");
    assert_eq!(names("alias@3.service"), "alias@3.service yup@3.service");
}

#[test]
fn a_circle_of_aliases_is_no_unit() {
    let files = Memory::new()
        .link("/etc/systemd/system/a.service", "b.service")
        .link("/etc/systemd/system/b.service", "a.service");
    let catalog = Catalog::read(&files, &[PERSISTENT]);
    assert_eq!(catalog.locate(&unit("a.service")), None);
    assert!(matches!(
        catalog.source_of(&unit("a.service")),
        Some(Source::Alias { .. })
    ));
}

#[test]
fn shortened_names_have_drop_ins_too() {
    // systemd.unit(5): "foo-bar-baz.service" has "foo-bar-.service.d" and "foo-.service.d".
    assert_eq!(
        stems(&unit("foo-bar-baz.service")),
        ["foo-bar-baz.service", "foo-bar-.service", "foo-.service"]
    );
    assert_eq!(
        stems(&unit("a-b@x-y.service")),
        [
            "a-b@x-y.service",
            "a-b@.service",
            "a-@x-y.service",
            "a-@.service"
        ]
    );
    assert_eq!(stems(&unit("-.slice")), ["-.slice"]);
}

#[test]
fn drop_ins_are_read_by_their_names() {
    let files = Memory::new()
        .file("/etc/systemd/system/a.service.d/20-b.conf", "x")
        .file("/lib/systemd/system/a.service.d/10-a.conf", "x")
        .file("/lib/systemd/system/a.service.d/20-b.conf", "x")
        .file("/run/systemd/system/service.d/05-all.conf", "x")
        .file("/run/systemd/system/service.d/10-a.conf", "x")
        .file("/run/systemd/system/a.service.d/notes.txt", "x");
    let catalog = Catalog::read(&files, &SYSTEM);
    assert_eq!(
        find(&files, &catalog, &[unit("a.service")].into()),
        [
            "/run/systemd/system/service.d/05-all.conf",
            "/lib/systemd/system/a.service.d/10-a.conf",
            "/etc/systemd/system/a.service.d/20-b.conf",
        ]
    );
}

#[test]
fn folders_of_links_add_dependencies() {
    let files = Memory::new()
        .link(
            "/etc/systemd/system/multi-user.target.wants/ssh.service",
            "/lib/x/ssh.service",
        )
        .link(
            "/etc/systemd/system/multi-user.target.wants/cron.service",
            "/dev/null",
        )
        .link(
            "/lib/systemd/system/multi-user.target.wants/cron.service",
            "../cron.service",
        )
        .link("/lib/systemd/system/multi-user.target.wants/README", "/x");
    let catalog = Catalog::read(&files, &SYSTEM);
    let names = [unit("multi-user.target")].into();
    let found = links(&files, &catalog, &names, "wants");
    let units: Vec<&str> = found.iter().map(|it| it.unit.as_str()).collect();
    assert_eq!(units, ["ssh.service"]);
}

#[test]
fn the_first_preset_that_matches_decides() {
    // systemd.preset(5), its examples.
    let files = Memory::new()
        .file(
            "/lib/systemd/system-preset/50-gnome.preset",
            "enable gdm.service\nenable colord.*\n",
        )
        .file(
            "/lib/systemd/system-preset/99-default.preset",
            "disable *\n",
        )
        .file(
            "/etc/systemd/system-preset/00-lennart.preset",
            "# mine\nenable httpd.service\n\
            enable sshd.socket\nenable foo@.service a b\ndisable x y\n",
        );
    let mut findings = Findings::default();
    let presets = Presets::read(&files, &super::preset::FOLDERS, &mut findings);
    assert_eq!(findings.iter().count(), 1);
    let enabled = |name: &str| presets.of(&unit(name));
    assert_eq!(enabled("httpd.service"), Preset::Enable(vec![]));
    assert_eq!(enabled("colord.service"), Preset::Enable(vec![]));
    assert_eq!(enabled("telnet.socket"), Preset::Disable);
    assert_eq!(
        enabled("foo@.service"),
        Preset::Enable(vec!["a".into(), "b".into()])
    );
    assert_eq!(enabled("foo@a.service"), Preset::Enable(vec![]));
    assert_eq!(enabled("foo@c.service"), Preset::Disable);
    assert_eq!(
        Presets::default().of(&unit("a.service")),
        Preset::Enable(vec![])
    );
}
