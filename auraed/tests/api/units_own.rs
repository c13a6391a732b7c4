// SPDX-License-Identifier: Apache-2.0
//! What a unit has for itself: a user, folders that nobody else enters, credentials, standard
//! streams, a name on the bus; and what it says while no daemon listens.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use api::schedule::v0 as wire;
use testkit::soon;

use crate::units::{Machine, job, kill, start, status, stop, units, until};

/// The folder of the test is the node's alone; these users are others.
fn open_to_all(machine: &Machine) {
    let made: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(machine.folder.path(), made).unwrap();
}

/// The user of a process.
fn user_of(pid: u32) -> u32 {
    std::fs::metadata(format!("/proc/{pid}")).unwrap().uid()
}

/// Folders of the machine that a test has used.
struct Folders(Vec<PathBuf>);

impl Drop for Folders {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// The unit sees its user's name; the machine doesn't have it.
fn its_name_is_the_units_alone(pid: u32, user: u32) {
    let passwd = std::fs::read_to_string(format!("/proc/{pid}/root/etc/passwd")).unwrap();
    assert!(
        passwd.contains(&format!("du-one:x:{user}:{user}:")),
        "{passwd}"
    );
    assert!(
        !std::fs::read_to_string("/etc/passwd")
            .unwrap()
            .contains("du-one")
    );
}

/// The state folder of a dynamic user's unit is behind one that only root enters.
fn folders_are_private(own: &str, user: u32) {
    let private = Path::new("/var/lib/private").join(own);
    let kept = soon("its file", || std::fs::metadata(private.join("kept")).ok());
    assert_eq!((kept.uid(), kept.gid()), (user, user));
    let folder = std::fs::metadata(&private).unwrap();
    assert_eq!((folder.uid(), folder.mode() & 0o777), (user, 0o700));
    assert!(Path::new("/var/lib").join(own).is_symlink());
    let above = std::fs::metadata("/var/lib/private").unwrap();
    assert_eq!(above.mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_dynamic_user_is_the_units_alone_and_its_folders_are_too() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let own = format!("aurae-own-{}", std::process::id());
    let _folders = Folders(vec![
        Path::new("/var/lib").join(&own),
        Path::new("/var/lib/private").join(&own),
    ]);
    let administrator = machine.node.administrator().await;
    open_to_all(&machine);
    machine.service(
        "du-one.service",
        &format!(
            "DynamicUser=yes\nStateDirectory={own}\nStateDirectoryMode=0700\n\
             ExecStart=/bin/sh -c 'id -un >&2; touch $STATE_DIRECTORY/kept; exec sleep 1000'"
        ),
    );
    machine.service(
        "du-two.service",
        "DynamicUser=yes\nExecStart=/bin/sleep 1000",
    );
    machine.service(
        "du-three.service",
        "DynamicUser=yes\nUser=du-two\nExecStart=/bin/sleep 1000",
    );
    let pid = async |name: &str| {
        let started = start(&administrator, name).await;
        assert_eq!(started.result, "done", "{started:#?}");
        status(&administrator, name).await.main_pid.unwrap()
    };
    let (one, two, three) = (
        pid("du-one").await,
        pid("du-two").await,
        pid("du-three").await,
    );
    let (first, second) = (user_of(one), user_of(two));
    assert!((61_184..=65_519).contains(&first) && (61_184..=65_519).contains(&second));
    assert_ne!(first, second);
    assert_eq!(user_of(three), second, "they have one name");
    let lock = |id: u32| PathBuf::from(format!("/run/systemd/dynamic-uid/{id}"));
    assert_eq!(std::fs::read_to_string(lock(first)).unwrap(), "du-one\n");
    let by_name = std::fs::read_link("/run/systemd/dynamic-uid/direct:du-one").unwrap();
    assert_eq!(by_name, Path::new(&first.to_string()));
    its_name_is_the_units_alone(one, first);
    folders_are_private(&own, first);
    // The next daemon knows whose it is.
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    assert_eq!(status(&administrator, "du-one").await.main_pid, Some(one));
    assert!(lock(first).exists());
    machine.service(
        "du-four.service",
        "DynamicUser=yes\nUser=du-one\nExecStart=/bin/sleep 1000",
    );
    start(&administrator, "du-four").await;
    let four = status(&administrator, "du-four").await.main_pid.unwrap();
    assert_eq!(user_of(four), first);
    stop(&administrator, "du-one").await;
    assert!(lock(first).exists(), "another one has it");
    stop(&administrator, "du-four").await;
    soon("the number is free", || {
        (!lock(first).exists()).then_some(())
    });
    // Its folders are its next activation's, whoever that is.
    start(&administrator, "du-one").await;
    let private = Path::new("/var/lib/private").join(&own);
    let again = status(&administrator, "du-one").await.main_pid.unwrap();
    assert_eq!(user_of(again), std::fs::metadata(&private).unwrap().uid());
    machine.node.stop();
}

#[tokio::test]
async fn a_runtime_folder_stays_as_long_as_its_directive_says() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let own = format!("aurae-kept-{}", std::process::id());
    let at = Path::new("/run").join(&own);
    let _folders = Folders(vec![at.clone(), Path::new("/run/private").join(&own)]);
    let administrator = machine.node.administrator().await;
    let unit = |preserve: &str| {
        machine.service(
            "kept.service",
            &format!(
                "RuntimeDirectory={own}\nRuntimeDirectoryMode=0750\n{preserve}\n\
                 ExecStart=/bin/sh -c 'touch $RUNTIME_DIRECTORY/file; exec sleep 1000'"
            ),
        );
    };
    for (preserve, after_restart, after_stop) in [
        ("", false, false),
        ("RuntimeDirectoryPreserve=restart", true, false),
        ("RuntimeDirectoryPreserve=yes", true, true),
    ] {
        unit(preserve);
        let reload = wire::ReloadUnitFilesRequest::default();
        units(&administrator)
            .reload_unit_files(reload)
            .await
            .unwrap();
        start(&administrator, "kept").await;
        let mode = std::fs::metadata(&at).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o750, "{preserve}");
        soon("its file", || at.join("file").exists().then_some(()));
        std::fs::write(at.join("mark"), "").unwrap();
        units(&administrator)
            .restart_unit(job("kept"))
            .await
            .unwrap();
        let marked = at.join("mark").exists();
        assert_eq!(marked, after_restart, "{preserve}");
        stop(&administrator, "kept").await;
        assert_eq!(at.exists(), after_stop, "{preserve}");
    }
    machine.node.stop();
}

#[tokio::test]
async fn credentials_are_the_units_users_and_nobody_elses() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    open_to_all(&machine);
    std::fs::write(machine.at("secret"), "s3cret").unwrap();
    let made: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(machine.at("secret"), made).unwrap();
    let secret = machine.at("secret").display().to_string();
    let script = "cat $CREDENTIALS_DIRECTORY/key %d/set > OUT; \
                  touch $CREDENTIALS_DIRECTORY/x && echo written >> OUT; \
                  test -e $CREDENTIALS_DIRECTORY/absent || echo absent >> OUT; exec sleep 1000";
    machine.service(
        "cred-one.service",
        &format!(
            "User=daemon\nPrivateMounts=yes\nLoadCredential=key:{secret}\nLoadCredential=absent\n\
             SetCredential=set:\\x2dgiven\\n\nExecStart=/bin/sh -c '{script}'"
        ),
    );
    machine.service(
        "cred-other.service",
        "Type=oneshot\nPrivateTmp=yes\nExecStart=/bin/sh -c 'ls /run/credentials/* && exit 1 || exit 0'",
    );
    let started = start(&administrator, "cred-one").await;
    assert_eq!(started.result, "done", "{started:#?}");
    soon("what it was given", || {
        (machine.out().len() == 2).then_some(())
    });
    assert_eq!(machine.out(), ["s3cret-given", "absent"]);
    let at = Path::new("/run/credentials/cred-one.service");
    let mode = |path: &Path| {
        let of = std::fs::metadata(path).unwrap();
        (of.uid(), of.mode() & 0o777)
    };
    assert_eq!(mode(at), (1, 0o500));
    assert_eq!(mode(&at.join("key")), (1, 0o400));
    // Another unit's view hasn't got them, and the machine's are gone with the unit.
    assert_eq!(start(&administrator, "cred-other").await.result, "done");
    stop(&administrator, "cred-one").await;
    assert!(!at.exists());
    machine.service(
        "cred-none.service",
        "Type=oneshot\nLoadCredential=key:/no/such/file\nExecStart=/bin/true",
    );
    assert_eq!(start(&administrator, "cred-none").await.result, "failed");
    let failed = status(&administrator, "cred-none").await;
    assert_eq!(failed.exit_status, "243");
    assert!(
        failed.message.contains("LoadCredential=key"),
        "{}",
        failed.message
    );
    machine.node.stop();
}

#[tokio::test]
async fn standard_streams_lead_to_files_and_input_comes_from_the_unit() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "reads.service",
        "Type=oneshot\nStandardInput=data\nStandardInputText=one\nStandardInputData=dHdvCg==\n\
         StandardOutput=append:OUT\nStandardError=truncate:OUT.err\n\
         ExecStart=/bin/cat\nExecStart=/bin/sh -c 'cat; echo wrong >&2'\nIOSchedulingClass=idle\n\
         CPUSchedulingPolicy=batch\nTimerSlackNSec=1ms\nKeyringMode=shared",
    );
    let started = start(&administrator, "reads").await;
    assert_eq!(started.result, "done", "{started:#?}");
    assert_eq!(machine.out(), ["one", "two", "one", "two"]);
    let errors = std::fs::read_to_string(machine.at("out.err")).unwrap();
    assert_eq!(errors, "wrong\n");
    assert_eq!(
        status(&administrator, "reads").await.findings,
        Vec::<String>::new()
    );
    machine.node.stop();
}

#[tokio::test]
async fn what_a_service_says_while_no_daemon_listens_is_heard_by_the_next_one() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    open_to_all(&machine);
    let go = machine.at("go").display().to_string();
    let text = format!(
        "use Socket; while (! -e '{go}') {{ select(undef, undef, undef, 0.02); }}\n\
         socket(my $s, AF_UNIX, SOCK_DGRAM, 0);\n\
         send($s, \"READY=1\\nSTATUS=early\", 0, pack_sockaddr_un($ENV{{NOTIFY_SOCKET}})) or exit 9;\n\
         open(my $f, '>', '{go}.said'); close($f); sleep 1000;\n"
    );
    std::fs::write(machine.at("says.pl"), text).unwrap();
    let program = machine.at("says.pl").display().to_string();
    machine.service(
        "says.service",
        &format!("Type=notify\nExecStart=/usr/bin/perl {program}"),
    );
    let request = wire::UnitJobRequest {
        no_wait: true,
        ..job("says")
    };
    units(&administrator).start_unit(request).await.unwrap();
    let starts = until(&administrator, "says", "starting", |it| {
        it.sub == "start" && it.main_pid.is_some()
    });
    let pid = starts.await.main_pid;
    // The daemon stands still while it says so, and is killed then.
    let daemon = machine.node.daemon().parse().unwrap();
    let daemon = rustix::process::Pid::from_raw(daemon).unwrap();
    rustix::process::kill_process(daemon, rustix::process::Signal::STOP).unwrap();
    std::fs::write(&go, "").unwrap();
    let said = PathBuf::from(format!("{go}.said"));
    soon("it has said so", || said.exists().then_some(()));
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    let up = until(&administrator, "says", "up", |it| it.sub == "running").await;
    assert_eq!((up.main_pid, &*up.message), (pid, "early"));
    kill(pid.unwrap());
    machine.node.stop();
}

/// A bus of the test's own.
struct Bus(Child);

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bus(folder: &Path) -> Option<Bus> {
    let program = "/usr/bin/dbus-daemon";
    if !Path::new(program).exists() {
        testkit::skip("dbus-daemon is not installed");
        return None;
    }
    let config = folder.join("bus.conf");
    let text = format!(
        "<busconfig><listen>unix:path={}/bus</listen><auth>EXTERNAL</auth>\
         <policy context=\"default\"><allow send_destination=\"*\"/>\
         <allow receive_sender=\"*\"/><allow own=\"*\"/></policy></busconfig>",
        folder.display()
    );
    std::fs::write(&config, text).unwrap();
    let child = Command::new(program)
        .arg(format!("--config-file={}", config.display()))
        .args(["--nofork", "--nopidfile"])
        .spawn()
        .unwrap();
    soon("the bus", || folder.join("bus").exists().then_some(()));
    Some(Bus(child))
}

/// A program that takes a name on a bus, and keeps it: `SOCKET NAME`.
const OWNER: &str = r#"
use Socket;
my ($path, $name) = @ARGV;
socket(my $s, AF_UNIX, SOCK_STREAM, 0);
connect($s, pack_sockaddr_un($path)) or exit 8;
select($s); $| = 1;
sub say_it { syswrite($s, $_[0]) }
sub line { my $l = ''; while ($l !~ /\n/) { sysread($s, my $c, 1) or exit 9; $l .= $c } }
sub text { pack('V', length $_[0]) . $_[0] . "\0" }
sub pad { my ($b, $n) = @_; $b . "\0" x (-length($b) % $n) }
sub call {
    my ($number, $method, $signature, $body) = @_;
    my $fields = '';
    for ([1, 'o', '/org/freedesktop/DBus'], [2, 's', 'org.freedesktop.DBus'],
         [3, 's', $method], [6, 's', 'org.freedesktop.DBus']) {
        $fields = pad($fields, 8) . chr($_->[0]) . "\1$_->[1]\0" . text($_->[2]);
    }
    $fields = pad($fields, 8) . "\10\1g\0" . chr(length $signature) . "$signature\0" if $signature;
    say_it(pad("l\1\0\1" . pack('VVV', length $body, $number, length $fields) . $fields, 8) . $body);
}
say_it("\0AUTH EXTERNAL " . unpack('H*', "$<") . "\r\n"); line();
say_it("BEGIN\r\n");
call(1, 'Hello', '', '');
call(2, 'RequestName', 'su', pad(text($name), 4) . pack('V', 0));
sleep 1000;
"#;

#[tokio::test]
async fn a_service_of_the_bus_is_up_with_its_name_and_down_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_bus) = bus(folder.path()) else {
        return;
    };
    let at = format!("units.bus={}/bus", folder.path().display());
    let Some(mut machine) = Machine::start_with(&[&at]) else {
        return;
    };
    let administrator = machine.node.administrator().await;
    std::fs::write(machine.at("owner.pl"), OWNER).unwrap();
    let program = machine.at("owner.pl").display().to_string();
    let socket = folder.path().join("bus").display().to_string();
    machine.unit(
        "named.service",
        &format!(
            "[Unit]\nDefaultDependencies=no\n[Service]\nType=dbus\nBusName=org.aurae.Test\n\
             ExecStart=/bin/sh -c 'sleep 0.5; exec perl {program} {socket} org.aurae.Test'\n"
        ),
    );
    machine.unit(
        "nameless.service",
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=dbus\nBusName=org.aurae.Other\n\
         TimeoutStartSec=1\nExecStart=/bin/sleep 1000\n",
    );
    machine.unit(
        "dbus.socket",
        "[Socket]\nListenStream=OUT.unused\n[Unit]\nDefaultDependencies=no\n",
    );
    machine.service("dbus.service", "Type=oneshot\nExecStart=/bin/true");
    let begun = Instant::now();
    let started = start(&administrator, "named").await;
    assert_eq!(started.result, "done", "{started:#?}");
    assert!(begun.elapsed() >= Duration::from_millis(500));
    let up = status(&administrator, "named").await;
    assert_eq!(up.sub, "running");
    let failed = start(&administrator, "nameless").await;
    assert_eq!(failed.result, "failed");
    assert_eq!(status(&administrator, "nameless").await.result, "timeout");
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    let same = status(&administrator, "named").await;
    assert_eq!((same.main_pid, &*same.sub), (up.main_pid, "running"));
    kill(up.main_pid.unwrap());
    until(&administrator, "named", "down", |it| {
        !it.active.starts_with("activ")
    })
    .await;
    machine.node.stop();
}
