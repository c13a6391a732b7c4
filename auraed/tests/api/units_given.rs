// SPDX-License-Identifier: Apache-2.0
//! What a unit hands on to what it runs, and what goes with it: groups below its own, shared memory
//! of its user, what its lines are when they are read; and timers that wait for the clock.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use api::runtime::v0::{ListRequest, object};
use testkit::soon;

use crate::caller::Person;
use crate::units::{Machine, start, status, stop};

/// A user of Debian's that nothing else of a test runs as.
const USER: &str = "games";

/// The folder of the test is the node's alone; these users are others.
fn open_to_all(machine: &Machine) {
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(machine.folder.path(), all).unwrap();
}

/// A file of shared memory, which goes with the test.
struct Shared(&'static str);

impl Shared {
    fn is_there(&self) -> bool {
        Path::new(self.0).exists()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

#[tokio::test]
async fn shared_memory_goes_with_the_last_unit_of_its_user() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let shared = Shared("/dev/shm/aurae-test-remove-ipc");
    let script = format!("echo x > {}; exec sleep 1000", shared.0);
    machine.service(
        "own.service",
        &format!("User={USER}\nRemoveIPC=yes\nExecStart=/bin/sh -c '{script}'"),
    );
    let other = format!("User={USER}\nExecStart=/bin/sleep 1000");
    machine.service("other.service", &other);
    let ann = machine.node.administrator().await;
    for unit in ["own", "other"] {
        assert_eq!(start(&ann, unit).await.result, "done");
    }
    soon("its file", || shared.is_there().then_some(()));
    assert_eq!(status(&ann, "own").await.findings, [] as [&str; 0]);
    stop(&ann, "own").await;
    // Another unit runs as that user.
    assert!(shared.is_there());
    stop(&ann, "other").await;
    start(&ann, "own").await;
    stop(&ann, "own").await;
    soon("its file gone", || (!shared.is_there()).then_some(()));
    machine.node.stop();
}

#[tokio::test]
async fn a_unit_with_delegate_makes_groups_below_its_own() {
    let Some(machine) = Machine::start() else {
        return;
    };
    open_to_all(&machine);
    // In place once it is whole.
    let text = "own=$(sed -n s/^0:://p /proc/self/cgroup)\n\
                at=$(findmnt -nt cgroup2 -o TARGET | head -n1)$own\n\
                mkdir $at/below && echo $$ > $at/below/cgroup.procs || exec sleep 1000\n\
                cat $at/cgroup.max.descendants > $1.new\n\
                (echo 9 > $at/cgroup.max.descendants) 2>/dev/null && echo limits >> $1.new\n\
                mv $1.new $1\n\
                exec sleep 1000\n";
    let script = machine.at("make.sh");
    std::fs::write(&script, text).unwrap();
    for (unit, delegate) in [("given", "Delegate=yes\n"), ("without", "")] {
        let (script, out) = (script.display(), machine.at("out").display().to_string());
        machine.service(
            &format!("{unit}.service"),
            &format!("User={USER}\n{delegate}ExecStart=/bin/sh {script} {out}.{unit}"),
        );
    }
    let ann = machine.node.administrator().await;
    for unit in ["without", "given"] {
        assert_eq!(start(&ann, unit).await.result, "done");
    }
    let given = machine.at("out.given");
    let text = soon("what it has made", || std::fs::read_to_string(&given).ok());
    assert_eq!(text, "1024\n", "and limits stay the node's");
    assert_eq!(status(&ann, "given").await.findings, [] as [&str; 0]);
    // Its process is below its group, and is its own still.
    assert_eq!(status(&ann, "given").await.active, "active");
    stop(&ann, "given").await;
    assert!(!machine.at("out.without").exists());
    machine.node.stop();
}

/// The labels of what runs for a unit.
async fn labels(person: &Person, unit: &str) -> Vec<(String, String)> {
    let request = ListRequest {
        below: format!("system/{unit}"),
        ..Default::default()
    };
    let listed = person.node.runtime().list(request).await.unwrap();
    for object in listed.into_inner().objects {
        if let Some(object::Object::Executable(status)) = object.object {
            return status.meta.unwrap().labels.into_iter().collect();
        }
    }
    panic!("nothing runs for {unit}");
}

#[tokio::test]
async fn what_a_units_lines_are_is_on_its_executable() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.service(
        "said.service",
        "SyslogIdentifier=web\nSyslogFacility=local3\nSyslogLevel=warning\nSyslogLevelPrefix=no\n\
         ExecStart=/bin/sleep 1000",
    );
    let ann = machine.node.administrator().await;
    assert_eq!(start(&ann, "said").await.result, "done");
    assert_eq!(status(&ann, "said").await.findings, [] as [&str; 0]);
    let labels = labels(&ann, "said").await;
    for (key, value) in [
        ("identifier", "web"),
        ("facility", "19"),
        ("level", "4"),
        ("level-prefix", "no"),
    ] {
        let label = (format!("schedule.aurae/syslog-{key}"), value.to_owned());
        assert!(labels.contains(&label), "{label:?} isn't in {labels:?}");
    }
    machine.node.stop();
}

#[tokio::test]
async fn a_timer_elapses_when_the_clock_is_set() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let out = machine.at("out");
    let command = format!("/bin/sh -c 'echo elapsed >> {}'", out.display());
    machine.service("told.service", &format!("ExecStart={command}"));
    let timer = "[Timer]\nOnClockChange=yes\nOnTimezoneChange=yes\nUnit=told.service\n";
    machine.unit("clock.timer", timer);
    let ann = machine.node.administrator().await;
    assert_eq!(start(&ann, "clock.timer").await.result, "done");
    let waiting = status(&ann, "clock.timer").await;
    assert_eq!(waiting.findings, [] as [&str; 0]);
    assert!(!out.exists(), "nothing was set yet");
    // To what it shows: that is told all the same.
    kernel::time::set_realtime_ns(kernel::time::realtime_ns()).unwrap();
    soon("that it has elapsed", || out.exists().then_some(()));
    machine.node.stop();
}
