// SPDX-License-Identifier: Apache-2.0
//! `org.freedesktop.systemd1`, asked by systemd's own clients: `busctl` over Debian's bus, which a
//! test starts for itself, and `systemctl` of systemd's package by the private socket, in a mount
//! namespace where that is at its place.

#![allow(
    clippy::too_many_lines,
    reason = "a story of one client is told in one piece"
)]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::soon;

use crate::units::Machine;

pub(crate) const NAME: &str = "org.freedesktop.systemd1";
pub(crate) const MANAGER: &str = "/org/freedesktop/systemd1";
const INTERFACE: &str = "org.freedesktop.systemd1.Manager";

/// A bus of the test's own, and where the private socket is.
pub(crate) struct Bus {
    folder: PathBuf,
    child: Child,
}

impl Bus {
    pub(crate) fn start(name: &str) -> Option<Bus> {
        for program in ["dbus-daemon", "busctl", "systemctl"] {
            if !Path::new("/usr/bin").join(program).exists() {
                eprintln!("skipped: {program} is not installed");
                return None;
            }
        }
        let folder = format!("aurae-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("services")).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let service = "[D-BUS Service]\nName=org.example.Asked\nExec=/bin/false\nUser=root\n\
             SystemdService=asked.service\n";
        let file = folder.join("services/org.example.Asked.service");
        std::fs::write(file, service).unwrap();
        let text = format!(
            "<busconfig><listen>unix:path={0}/bus</listen><auth>EXTERNAL</auth>\
             <servicedir>{0}/services</servicedir><policy context=\"default\">\
             <allow user=\"*\"/><allow send_destination=\"*\" eavesdrop=\"true\"/>\
             <allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>",
            folder.display()
        );
        std::fs::write(folder.join("bus.conf"), text).unwrap();
        let child = Command::new("dbus-daemon")
            .arg(format!("--config-file={}/bus.conf", folder.display()))
            .args(["--nofork", "--nopidfile", "--systemd-activation"])
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Some(Bus { folder, child })
    }

    pub(crate) fn node(&self) -> Option<Machine> {
        let bus = format!("units.bus={}/bus", self.folder.display());
        let private = format!("units.private={}/private", self.folder.display());
        let machine = Machine::start_with(&["units.systemd1=true", &bus, &private])?;
        soon("the name on the bus", || {
            let asked = self.busctl(&["status", NAME]);
            asked.is_ok().then_some(())
        });
        Some(machine)
    }

    fn busctl(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("busctl");
        command.arg(format!("--address=unix:path={}/bus", self.folder.display()));
        ran(command.args(["--timeout=20"]).args(words))
    }

    /// A method of the manager.
    pub(crate) fn call(&self, words: &[&str]) -> Result<String, String> {
        self.busctl(&[&["call", NAME, MANAGER, INTERFACE], words].concat())
    }

    pub(crate) fn property(
        &self,
        path: &str,
        interface: &str,
        name: &str,
    ) -> Result<String, String> {
        self.busctl(&["get-property", NAME, path, interface, name])
    }

    /// systemd's own `systemctl`, with our socket at the place of systemd's.
    pub(crate) fn systemctl(&self, words: &str) -> Result<String, String> {
        let script = format!(
            "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && \
             ln -s {}/private /run/systemd/private && exec /usr/bin/systemctl --no-pager {words}",
            self.folder.display()
        );
        ran(Command::new("unshare").args(["-m", "sh", "-c", &script]))
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn ran(command: &mut Command) -> Result<String, String> {
    let done = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match done.status.success() {
        true => Ok(text(&done.stdout)),
        false => Err(format!("{}{}", text(&done.stdout), text(&done.stderr))),
    }
}

fn has(text: &str, wanted: &[&str]) {
    for word in wanted {
        assert!(text.contains(word), "no {word} in {text}");
    }
}

#[tokio::test]
async fn busctl_sees_and_starts_units_on_the_bus() {
    let Some(bus) = Bus::start("systemd1") else {
        return;
    };
    let Some(machine) = bus.node() else { return };
    machine.unit(
        "web.service",
        "[Unit]\nDescription=The web\nAfter=net.target\n[Service]\nExecStart=/bin/sleep 1000\n",
    );
    let unit = format!("{MANAGER}/unit/web_2eservice");
    let one = format!("{NAME}.Unit");
    assert!(
        bus.call(&["GetUnit", "s", "web.service"])
            .unwrap_err()
            .contains("web.service")
    );
    let loaded = bus.call(&["LoadUnit", "s", "web.service"]).unwrap();
    assert_eq!(loaded, format!("o \"{unit}\""));
    has(
        &bus.call(&["StartUnit", "ss", "web.service", "replace"])
            .unwrap(),
        &["/job/"],
    );
    soon("the service", || {
        let state = bus.property(&unit, &one, "SubState").unwrap();
        (state == "s \"running\"").then_some(())
    });
    let pid = bus
        .property(&unit, &format!("{NAME}.Service"), "MainPID")
        .unwrap();
    let pid = pid.strip_prefix("u ").unwrap();
    let of_pid = bus.call(&["GetUnitByPID", "u", pid]).unwrap();
    assert_eq!(of_pid, format!("o \"{unit}\""));
    has(
        &bus.property(&unit, &one, "After").unwrap(),
        &["net.target"],
    );
    has(
        &bus.property(MANAGER, INTERFACE, "Version").unwrap(),
        &["252 (aurae"],
    );
    // Introspection, as busctl reads it, with the types of all values.
    let shown = bus.busctl(&["introspect", NAME, &unit]).unwrap();
    has(
        &shown,
        &["ActiveState", "\"active\"", "ExecStart", "a(sasbttttuii)"],
    );
    has(
        &bus.busctl(&["introspect", NAME, MANAGER]).unwrap(),
        &["StartTransientUnit", "NFailedUnits"],
    );
    has(
        &bus.busctl(&["tree", NAME]).unwrap(),
        &["/org/freedesktop/systemd1/unit/web_2eservice"],
    );
    let listed = bus
        .call(&["ListUnitsByPatterns", "asas", "0", "1", "web.*"])
        .unwrap();
    has(&listed, &["\"The web\" \"loaded\" \"active\" \"running\""]);
    let unknown = bus.call(&["Frobnicate"]).unwrap_err();
    has(&unknown, &["no method"]);
    let wrong = bus.call(&["GetUnit", "u", "1"]).unwrap_err();
    has(&wrong, &["other types"]);
    bus.call(&["StopUnit", "ss", "web.service", "replace"])
        .unwrap();
    soon("its end", || {
        let state = bus.property(&unit, &one, "ActiveState").unwrap();
        (state == "s \"inactive\"").then_some(())
    });
    machine.node.stop();
}

#[tokio::test]
async fn who_is_not_root_looks_and_changes_nothing_and_all_is_on_record() {
    let Some(bus) = Bus::start("callers") else {
        return;
    };
    let Some(machine) = bus.node() else { return };
    machine.service("web.service", "ExecStart=/bin/sleep 1000");
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "busctl"]);
        command.arg(format!("--address=unix:path={}/bus", bus.folder.display()));
        ran(command.args(["call", NAME, MANAGER, INTERFACE]).args(words))
    };
    has(
        &as_nobody(&["LoadUnit", "s", "web.service"]).unwrap(),
        &["web_2eservice"],
    );
    let refused = as_nobody(&["StartUnit", "ss", "web.service", "replace"]).unwrap_err();
    has(&refused, &["Access denied"]);
    for words in [
        &["Reload"][..],
        &["PowerOff"],
        &[
            "EnableUnitFiles",
            "asbb",
            "1",
            "web.service",
            "false",
            "false",
        ],
        &["KillUnit", "ssi", "web.service", "all", "9"],
        &["SetEnvironment", "as", "1", "A=1"],
        &["SetUnitProperties", "sba(sv)", "web.service", "false", "0"],
        &[
            "StartTransientUnit",
            "ssa(sv)a(sa(sv))",
            "x.scope",
            "fail",
            "0",
            "0",
        ],
    ] {
        has(&as_nobody(words).unwrap_err(), &["Access denied"]);
    }
    bus.call(&["StartUnit", "ss", "web.service", "replace"])
        .unwrap();
    // The private socket lets nobody else in.
    let mode = std::fs::metadata(bus.folder.join("private"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let audit = machine.node.state().join("audit");
    let lines = soon("the audit", || {
        let grep = ran(Command::new("grep")
            .args(["-rh", "schedule.StartUnit"])
            .arg(&audit))
        .ok()?;
        (grep.contains("uid:65534") && grep.contains("uid:0")).then_some(grep)
    });
    has(
        &lines,
        &[
            "\"allowed\":false",
            "\"allowed\":true",
            "pid ",
            "the system bus",
            "web.service",
        ],
    );
    machine.node.stop();
}

#[tokio::test]
async fn systemctl_of_systemds_package_speaks_to_the_private_socket() {
    let Some(bus) = Bus::start("systemctl") else {
        return;
    };
    let Some(machine) = bus.node() else { return };
    machine.unit(
        "web.service",
        "[Unit]\nDescription=The web\n[Service]\nExecStart=/bin/sleep 1000\n\
         ExecReload=/bin/true\n[Install]\nWantedBy=many.target\n",
    );
    machine.service("bad.service", "ExecStart=/bin/false\nType=oneshot");
    machine.unit("many.target", "[Unit]\nDescription=All\n");
    machine.unit("tick.timer", "[Timer]\nOnActiveSec=1h\nUnit=web.service\n");
    bus.systemctl("start web").unwrap();
    assert_eq!(bus.systemctl("is-active web").unwrap(), "active");
    let status = bus.systemctl("status web").unwrap();
    has(
        &status,
        &[
            "The web",
            "active (running)",
            "Main PID",
            "sleep 1000",
            "CGroup",
        ],
    );
    has(
        &bus.systemctl("list-units 'web*'").unwrap(),
        &["web.service loaded active running The web"],
    );
    let shown = bus
        .systemctl("show web -p MainPID,ExecStart,Type,FragmentPath")
        .unwrap();
    has(
        &shown,
        &[
            "Type=simple",
            "path=/bin/sleep",
            "lib/web.service",
            "MainPID=",
        ],
    );
    has(
        &bus.systemctl("cat web").unwrap(),
        &["ExecReload=/bin/true"],
    );
    bus.systemctl("reload web").unwrap();
    let pid = || bus.systemctl("show web -p MainPID --value").unwrap();
    let before = pid();
    bus.systemctl("restart web").unwrap();
    assert_ne!(pid(), before);
    // A start that fails says so, and waits for that.
    let failed = bus.systemctl("start bad").unwrap_err();
    has(&failed, &["Job for bad.service failed"]);
    has(&bus.systemctl("is-failed bad").unwrap(), &["failed"]);
    has(
        &bus.systemctl("list-units --failed").unwrap(),
        &["bad.service"],
    );
    bus.systemctl("reset-failed bad").unwrap();
    bus.systemctl("is-failed bad").unwrap_err();
    // Files.
    has(
        &bus.systemctl("enable web 2>&1").unwrap(),
        &["Created symlink", "many.target.wants"],
    );
    assert_eq!(bus.systemctl("is-enabled web").unwrap(), "enabled");
    has(
        &bus.systemctl("list-unit-files 'web*'").unwrap(),
        &["web.service enabled"],
    );
    has(
        &bus.systemctl("list-dependencies --plain many.target")
            .unwrap(),
        &["web.service"],
    );
    has(&bus.systemctl("disable web 2>&1").unwrap(), &["Removed"]);
    bus.systemctl("mask bad").unwrap();
    has(&bus.systemctl("start bad").unwrap_err(), &["masked"]);
    bus.systemctl("unmask bad").unwrap();
    bus.systemctl("daemon-reload").unwrap();
    // Timers, kills, the end.
    bus.systemctl("start tick.timer").unwrap();
    has(&bus.systemctl("list-timers").unwrap(), &["tick.timer"]);
    bus.systemctl("kill -s KILL web").unwrap();
    soon("its end", || bus.systemctl("is-failed web").ok());
    bus.systemctl("stop web tick.timer").unwrap();
    let again = bus.systemctl("stop web").unwrap();
    assert_eq!(again, "");
    has(
        &bus.systemctl("status absent").unwrap_err(),
        &["could not be found"],
    );
    machine.node.stop();
}

#[tokio::test]
async fn the_bus_starts_a_service_by_its_unit_when_somebody_calls() {
    let Some(bus) = Bus::start("activation") else {
        return;
    };
    let Some(machine) = bus.node() else { return };
    let asked = || bus.busctl(&["call", "org.example.Asked", "/", "org.x", "Do"]);
    // There is no such unit: who calls is told, and waits for no time-out.
    let begun = Instant::now();
    asked().unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(15));
    machine.service(
        "asked.service",
        "Type=oneshot\nExecStart=/bin/sh -c 'echo asked >> OUT'",
    );
    let mut call = Command::new("busctl")
        .arg(format!("--address=unix:path={}/bus", bus.folder.display()))
        .args(["call", "org.example.Asked", "/", "org.x", "Do"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    soon("the service", || (machine.out() == ["asked"]).then_some(()));
    let _ = call.kill();
    let _ = call.wait();
    machine.node.stop();
}

/// A process that nobody of the node's has started.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Sleeper {
        Sleeper(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The group of the second version's hierarchy.
    fn group(&self) -> String {
        let text = std::fs::read_to_string(format!("/proc/{}/cgroup", self.pid())).unwrap();
        let line = text.lines().find_map(|it| it.strip_prefix("0::"));
        line.unwrap_or_default().to_owned()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_scope_has_the_processes_that_it_was_given_and_outlives_the_daemon() {
    let Some(bus) = Bus::start("scopes") else {
        return;
    };
    let Some(mut machine) = bus.node() else {
        return;
    };
    let mut sleeper = Sleeper::start();
    let pid = sleeper.pid();
    let before = sleeper.group();
    let make = |name: &str, pid: &str| {
        bus.call(&[
            "StartTransientUnit",
            "ssa(sv)a(sa(sv))",
            name,
            "fail",
            "3",
            "PIDs",
            "au",
            "1",
            pid,
            "Slice",
            "s",
            "user-7.slice",
            "Description",
            "s",
            "Session of 7",
            "0",
        ])
    };
    has(&make("session-1.scope", &pid).unwrap(), &["/job/"]);
    let unit = format!("{MANAGER}/unit/session_2d1_2escope");
    let one = format!("{NAME}.Unit");
    let state = || bus.property(&unit, &one, "SubState");
    soon("the scope", || {
        (state().ok()? == "s \"running\"").then_some(())
    });
    let group = sleeper.group();
    assert!(
        group.ends_with("/user.slice/user-7.slice/session-1.scope"),
        "{group}"
    );
    let of_pid = bus.call(&["GetUnitByPID", "u", &pid]).unwrap();
    assert_eq!(of_pid, format!("o \"{unit}\""));
    has(
        &bus.property(&unit, &format!("{NAME}.Scope"), "ControlGroup")
            .unwrap(),
        &[&group],
    );
    has(
        &bus.systemctl("status session-1.scope").unwrap(),
        &["Session of 7", "sleep 1000"],
    );
    // One of that name is there; the node's own processes stay where they are.
    make("session-1.scope", &pid).unwrap_err();
    let init = machine.node.daemon();
    let _ = make("stolen.scope", &init);
    soon("a refusal", || bus.systemctl("is-failed stolen.scope").ok());
    // The next daemon finds it, and ends it.
    machine.node.kill_daemon();
    soon("the next daemon", || {
        (state().ok()? == "s \"running\"").then_some(())
    });
    bus.busctl(&["call", NAME, &unit, &format!("{NAME}.Scope"), "Abandon"])
        .unwrap();
    assert_eq!(state().unwrap(), "s \"abandoned\"");
    assert_eq!(sleeper.group(), group);
    bus.systemctl("stop session-1.scope").unwrap();
    let ended = sleeper.0.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&ended),
        Some(15)
    );
    soon("it is forgotten", || {
        bus.call(&["GetUnit", "s", "session-1.scope"]).err()
    });
    assert_ne!(before, group);
    // One that empties by itself goes, too.
    let mut second = Sleeper::start();
    make("session-2.scope", &second.pid()).unwrap();
    soon("the second", || {
        second.group().ends_with("session-2.scope").then_some(())
    });
    second.0.kill().unwrap();
    second.0.wait().unwrap();
    soon("it is forgotten", || {
        bus.call(&["GetUnit", "s", "session-2.scope"]).err()
    });
    machine.node.stop();
}

/// A client subscribes once. `systemctl start --wait` hears of its unit's end, though the daemon
/// that it has subscribed at is dead by then.
#[tokio::test]
async fn who_has_subscribed_is_told_by_the_next_daemon() {
    let Some(bus) = Bus::start("subscribers") else {
        return;
    };
    let Some(mut machine) = bus.node() else {
        return;
    };
    machine.service("long.service", "ExecStart=/bin/sleep 1000");
    let address = format!("unix:path={}/bus", bus.folder.display());
    // It asks whether the machine was booted by systemd.
    let script = "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && \
                  exec /usr/bin/systemctl start --wait long.service";
    let said = bus.folder.join("systemctl.log");
    let mut waiting = Command::new("unshare")
        .env("SYSTEMCTL_FORCE_BUS", "1")
        .env("DBUS_SYSTEM_BUS_ADDRESS", address)
        .env("SYSTEMD_LOG_LEVEL", "debug")
        .args(["--mount", "sh", "-c", script])
        .stderr(std::fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let one = format!("{NAME}.Unit");
    let unit = format!("{MANAGER}/unit/long_2eservice");
    let is = |wanted: &str| {
        let state = bus.property(&unit, &one, "SubState").ok()?;
        (state == format!("s \"{wanted}\"")).then_some(())
    };
    soon("the service", || is("running"));
    // It waits for the end, which needs a subscription. A question of its own that the daemon dies
    // over would be another story: the bus says that there was no answer.
    let said = || std::fs::read_to_string(&said).unwrap();
    let has = |words: &[&str]| words.iter().all(|it| said().contains(it));
    soon("its job is done, and it knows the unit", || {
        has(&["Got result done", "signature=a{sv}"]).then_some(())
    });
    assert!(waiting.try_wait().unwrap().is_none(), "{}", said());
    machine.node.kill_daemon();
    soon("the next daemon", || is("running"));
    assert!(waiting.try_wait().unwrap().is_none(), "{}", said());
    bus.call(&["KillUnit", "ssi", "long.service", "all", "15"])
        .unwrap();
    let waiting = std::cell::RefCell::new(waiting);
    let ended = soon("its client", || waiting.borrow_mut().try_wait().unwrap());
    assert!(ended.success(), "{ended}: {}", said());
    machine.node.stop();
}
