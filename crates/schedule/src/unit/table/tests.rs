// SPDX-License-Identifier: Apache-2.0
//! What is loaded with a unit, what stays of one whose file has gone, and what a load costs.

use super::*;

/// systemd.unit(5), RequiresMountsFor=.
#[test]
fn mounts_on_the_way_to_a_path_are_loaded_with_their_user() {
    let folder = std::env::temp_dir().join(format!("aurae-mounts-{}", std::process::id()));
    let folder = folder.to_str().unwrap().to_owned();
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(format!("{folder}/{name}"), text).unwrap();
    };
    write(
        "a.service",
        "[Unit]\nRequiresMountsFor=/srv/a/b\n[Service]\nExecStart=/bin/a\n",
    );
    write("srv-a.mount", "[Mount]\nWhat=/dev/x\nWhere=/srv/a\n");
    let mut table = Table::read(Arc::new(Folders {
        paths: vec![folder.clone()],
        persistent: folder.clone(),
        runtime: folder.clone(),
    }));
    let (service, mount) = ("a.service", "srv-a.mount");
    let [service, mount] = [service, mount].map(|it| UnitName::parse(it).unwrap());
    table.load(std::slice::from_ref(&service));
    assert!(table.find(&mount).is_some());
    let kinds = [
        units::depend::Dependency::Requires,
        units::depend::Dependency::After,
    ];
    for kind in kinds {
        assert!(table.graph().has(kind, &service, &mount), "{kind:?}");
    }
    let above = UnitName::parse("srv.mount").unwrap();
    assert!(table.find(&above).is_none());
    std::fs::remove_dir_all(folder).unwrap();
}

/// A service that is up stays as it was read, whatever becomes of its file.
#[test]
fn what_is_up_keeps_what_it_is_stopped_by() {
    let folder = std::env::temp_dir().join(format!("aurae-table-{}", std::process::id()));
    let folder = folder.to_str().unwrap().to_owned();
    std::fs::create_dir_all(&folder).unwrap();
    let file = format!("{folder}/a.service");
    let text = "[Service]\nExecStart=/bin/a\nExecStop=/bin/b\nTimeoutStopSec=7\n";
    let name = UnitName::parse("a.service").unwrap();
    let folders = Arc::new(Folders {
        paths: vec![folder.clone()],
        persistent: folder.clone(),
        runtime: folder.clone(),
    });
    let read = || {
        let mut table = Table::read(folders.clone());
        table.load(std::slice::from_ref(&name));
        table
    };
    std::fs::write(&file, text).unwrap();
    let old = read();
    type Step = fn(&str);
    let steps: [(Step, Load); 2] = [
        (|file| std::fs::remove_file(file).unwrap(), Load::NotFound),
        (
            |file| std::os::unix::fs::symlink("/dev/null", file).unwrap(),
            Load::Masked,
        ),
    ];
    for (change, load) in steps {
        change(&file);
        let mut new = read();
        new.keep_last(&old, std::slice::from_ref(&name));
        let kept = new.find(&name).unwrap();
        assert_eq!(kept.load(), load);
        let (commands, service) = new.rules(&name);
        assert_eq!(service.stop_timeout.micros(), Some(7_000_000));
        let step = crate::unit::steps::Step {
            phase: crate::unit::steps::Phase::Stop,
            index: 0,
            round: 0,
        };
        assert!(commands.has(step));
        // Without an earlier reading it has the defaults, and can be stopped by them.
        assert_eq!(
            read().rules(&name).1.stop_timeout.micros(),
            Some(90_000_000)
        );
    }
    std::fs::remove_dir_all(folder).unwrap();
}

fn of_machine() -> Arc<Folders> {
    Arc::new(Folders {
        paths: units::load::SYSTEM.map(str::to_owned).to_vec(),
        persistent: units::load::PERSISTENT.to_owned(),
        runtime: units::load::RUNTIME.to_owned(),
    })
}

/// This machine's units; what they cost is printed.
#[test]
fn loading_again_costs_little_and_is_the_same() {
    let begin = std::time::Instant::now();
    let mut table = Table::read(of_machine());
    println!("names: {:?}", begin.elapsed());
    let all = table.files().into_iter();
    let names: Vec<UnitName> = all.filter(|it| !it.is_template()).collect();
    let begin = std::time::Instant::now();
    table.load(&names);
    println!("{} units: {:?}", table.units.len(), begin.elapsed());
    let begin = std::time::Instant::now();
    let again = Table::read_again(&table, &names);
    println!("again: {:?}", begin.elapsed());
    assert_eq!(again.units.len(), table.units.len());
    assert_eq!(again.graph, table.graph);
    // Files of this machine's packages are older than two seconds.
    for (name, loaded) in &again.units {
        assert!(
            Arc::ptr_eq(loaded, &table.units[name]),
            "{name} was read again"
        );
    }
    // Those that are there are known: nothing is done for them.
    assert_eq!(table.load(&names), []);
}

/// Whatever it is made of: its file, a drop-in, a link, a unit that it names.
#[test]
fn what_has_changed_is_read_again() {
    let folder = std::env::temp_dir().join(format!("aurae-again-{}", std::process::id()));
    let path = |name: &str| format!("{}/{name}", folder.display());
    std::fs::create_dir_all(path("a.service.d")).unwrap();
    std::fs::create_dir_all(path("a.service.wants")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    write(
        "a.service",
        "[Unit]\nRequires=b.service\n[Service]\nExecStart=/bin/a\n",
    );
    let name = UnitName::parse("a.service").unwrap();
    let folders = Folders {
        paths: vec![folder.to_str().unwrap().to_owned()],
        persistent: path(""),
        runtime: path(""),
    };
    let mut table = Table::read(Arc::new(folders));
    table.load(std::slice::from_ref(&name));
    let findings = |table: &Table| table.find(&name).unwrap().findings.len();
    assert_eq!(findings(&table), 1, "b.service is not there");
    type Change<'a> = (Box<dyn Fn() + 'a>, fn(&Unit) -> bool);
    let changes: [Change<'_>; 3] = [
        (
            Box::new(|| write("a.service.d/x.conf", "[Unit]\nDescription=other\n")),
            |unit| unit.settings.text("Description") == Some("other"),
        ),
        (
            Box::new(|| {
                std::os::unix::fs::symlink("/x", path("a.service.wants/c.service")).unwrap();
            }),
            |unit| unit.wants.len() == 1,
        ),
        (
            Box::new(|| write("a.service", "[Service]\nExecStart=/bin/other\n")),
            |unit| unit.settings.commands("ExecStart")[0].program == "/bin/other",
        ),
    ];
    for (turn, (change, is_seen)) in changes.into_iter().enumerate() {
        change();
        table = Table::read_again(&table, std::slice::from_ref(&name));
        assert!(is_seen(&table.find(&name).unwrap().unit), "change {turn}");
    }
    assert_eq!(findings(&table), 0);
    std::fs::remove_dir_all(folder).unwrap();
}

/// What is up holds on to what was read of it and of all that it names; the rest is read by its
/// files as they are when a caller asks for it.
#[test]
fn what_nothing_needs_is_read_again_when_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
    };
    let of = |name: &str| UnitName::parse(name).unwrap();
    let service = |program: &str| format!("[Service]\nExecStart=/bin/{program}\n");
    write(
        "up.service",
        &format!("[Unit]\nWants=named.service\n{}", service("up")),
    );
    for name in ["named", "idle", "other"] {
        write(&format!("{name}.service"), &service("first"));
    }
    let mut table = Table::read(Arc::new(Folders {
        paths: vec![path.clone()],
        persistent: path.clone(),
        runtime: path,
    }));
    let all = [
        "up.service",
        "named.service",
        "idle.service",
        "other.service",
    ]
    .map(of);
    table.load(&all);
    for name in ["up", "named", "idle", "other"] {
        write(&format!("{name}.service"), &service("second"));
    }
    let alias = folder.path().join("alias.service");
    std::os::unix::fs::symlink("idle.service", alias).unwrap();
    let [up, named, idle, other] = &all;
    assert_eq!(table.as_read(idle).changed(), Changed::Folders);
    assert!(table.leads_to(vec![up.clone()], named) && !table.leads_to(vec![up.clone()], idle));
    let new = table.load_anew(std::slice::from_ref(idle), vec![up.clone()]);
    assert_eq!(new, std::slice::from_ref(idle));
    let program = |table: &Table, unit: &UnitName| {
        let commands = table
            .find(unit)?
            .unit
            .settings
            .commands("ExecStart")
            .to_vec();
        Some(format!("{commands:?}").contains("second"))
    };
    assert_eq!(program(&table, idle), Some(true));
    assert_eq!(program(&table, &of("alias.service")), Some(true));
    for kept in [up, named] {
        assert_eq!(program(&table, kept), Some(false), "{kept}");
    }
    assert_eq!(program(&table, other), None);
}
