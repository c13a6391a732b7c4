// SPDX-License-Identifier: Apache-2.0
//! Units put together of files and drop-ins (systemd.unit(5)).

use super::*;
use crate::calendar::zones::UtcOnly;
use crate::files::Memory;
use crate::load::SYSTEM;
use crate::specifier::NoHost;
use proptest::prelude::*;

fn load(files: &Memory, name: &str) -> Option<Unit> {
    let catalog = Catalog::read(files, &SYSTEM);
    let loader = Loader {
        files,
        catalog: &catalog,
        host: &NoHost,
        zones: &UtcOnly,
    };
    loader.load(&UnitName::parse(name).unwrap())
}

#[test]
fn drop_ins_add_to_the_file() {
    let files = Memory::new()
        .file(
            "/lib/systemd/system/web.service",
            "[Unit]\nDescription=Web\nAfter=network.target\n[Service]\nExecStart=/bin/one\nUser=www\n",
        )
        .file(
            "/etc/systemd/system/web.service.d/10-own.conf",
            "[Unit]\nAfter=db.service\n[Service]\nExecStart=\nExecStart=/bin/two %n\n",
        )
        .file("/etc/systemd/system/service.d/all.conf", "[Service]\nUser=nobody\n")
        .link("/etc/systemd/system/web.service.wants/x.service", "/lib/x.service");
    let unit = load(&files, "web.service").unwrap();
    assert!(unit.findings.is_empty(), "{:?}", unit.findings);
    let after: Vec<&str> = unit
        .settings
        .units("After")
        .iter()
        .map(UnitName::as_str)
        .collect();
    assert_eq!(after, ["network.target", "db.service"]);
    let commands = unit.settings.commands("ExecStart");
    assert_eq!(
        commands.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["/bin/two web.service"]
    );
    assert_eq!(unit.settings.text("User"), Some("nobody"));
    assert_eq!(unit.wants.len(), 1);
    let origin = &unit.settings.setting("User").unwrap().origins[1];
    assert_eq!(
        (&*origin.path, origin.at.line),
        ("/etc/systemd/system/service.d/all.conf", 2)
    );
}

#[test]
fn an_instance_is_its_template_with_its_name() {
    let files = Memory::new()
        .file(
            "/lib/systemd/system/pg@.service",
            "[Service]\nExecStart=/bin/pg %i %I\nUser=%p\n",
        )
        .file(
            "/etc/systemd/system/pg@15-main.service.d/x.conf",
            "[Service]\nNice=5\n",
        );
    let unit = load(&files, "pg@15-main.service").unwrap();
    assert_eq!(
        unit.settings.commands("ExecStart")[0].arguments,
        ["15-main", "15/main"]
    );
    assert_eq!(
        (unit.settings.text("User"), unit.settings.number("Nice")),
        (Some("pg"), Some(5))
    );
}

#[test]
fn what_is_strange_is_a_warning_with_its_place() {
    let text = "[Service]\nExecStart=/bin/x\nKillmode=none\nWants=a.service\nBogus=1\nX-Own=1\n\
        [Socket]\nAccept=yes\n[X-Mine]\nA=1\n[Install]\nWantedBy=x.target\n";
    let files = Memory::new().file("/lib/systemd/system/a.service", text);
    let unit = load(&files, "a.service").unwrap();
    let found: Vec<String> = unit.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "/lib/systemd/system/a.service:7:1: warning: Socket: a service unit has no such section; \
             it is ignored",
            "/lib/systemd/system/a.service:3:1: warning: Service.Killmode: systemd 252 has no such \
             directive; it is ignored; did you mean `KillMode`?",
            "/lib/systemd/system/a.service:4:1: warning: Service.Wants: systemd 252 has no such \
             directive; it is ignored; did you mean `Wants of [Unit]`?",
            "/lib/systemd/system/a.service:5:1: warning: Service.Bogus: systemd 252 has no such \
             directive; it is ignored",
        ]
    );
}

#[test]
fn masked_and_missing_units_are_told_apart() {
    let files = Memory::new().link("/etc/systemd/system/a.service", "/dev/null");
    assert!(load(&files, "a.service").unwrap().masked.is_some());
    assert!(load(&files, "b.service").is_none());
    assert!(load(&files, "user.slice").is_some());
}

#[test]
fn a_slice_without_a_file_says_where_it_is_among_slices() {
    let described =
        |files: &Memory, name: &str| load(files, name).unwrap().description().into_owned();
    let none = Memory::new();
    assert_eq!(described(&none, "a-b-c.slice"), "Slice /a/b/c");
    assert_eq!(
        described(&none, "system-x\\x2dy.slice"),
        "Slice /system/x-y"
    );
    assert_eq!(described(&none, "-.slice"), "Root Slice");
    assert_eq!(described(&none, "system.slice"), "System Slice");
    // A drop-in of a shorter name is one of it, and says more than the default.
    let with = Memory::new().file(
        "/etc/systemd/system/a-.slice.d/x.conf",
        "[Unit]\nDescription=of a\n[Slice]\nMemoryMax=1G\n",
    );
    let unit = load(&with, "a-b.slice").unwrap();
    assert_eq!(unit.description(), "of a");
    assert!(unit.settings.limit("MemoryMax").is_some() && unit.fragment.is_none());
    assert_eq!(described(&with, "a.slice"), "Slice /a");
    let plain = Memory::new().file("/etc/systemd/system/a.service", "[Service]\nExecStart=/x\n");
    assert_eq!(described(&plain, "a.service"), "");
}

proptest! {
    #[test]
    fn no_file_does_harm(text in "(\\[(Unit|Service|Timer|Socket)\\]\n|[A-Za-z]{1,9}=\\PC{0,20}\n){0,20}") {
        let name = UnitName::parse("a.service").unwrap();
        let _ = from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly);
    }

    #[test]
    fn any_value_of_any_directive_is_read(index in 0usize..400, text in "\\PC{0,30}") {
        let rows: Vec<_> = table::all().collect();
        let (group, row) = rows[index % rows.len()];
        let section = group.sections()[0];
        let kind = UnitType::ALL.into_iter().find(|it| it.section() == Some(section));
        let kind = kind.unwrap_or(UnitType::Target);
        let name = UnitName::parse(&format!("a.{kind}")).unwrap();
        let file = format!("[{section}]\n{}={text}\n", row.name);
        let _ = from_texts(&name, &[("/x", file.as_bytes())], &NoHost, &UtcOnly);
    }
}
