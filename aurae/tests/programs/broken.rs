// SPDX-License-Identifier: Apache-2.0
//! Stories of programs that are broken off: by a signal, by their time, by the daemon's death, by a
//! certificate that is revoked.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Folder, node, read_line, user};

#[test]
fn a_loop_without_an_end_is_stopped_by_ctrl_c_and_by_its_time() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file(
        "loop.ts",
        "print('begun');\nawait sleep(1);\n[1].forEach(() => { for (;;) {} });\n",
    );
    // Long enough for the loop to have begun.
    let timed = node.aurae(&["--timeout", "5s", &file]).fails(1);
    assert!(
        timed.contains("--timeout") && timed.contains("loop.ts:3:"),
        "{timed}"
    );

    let mut looping = node.command(&[&file]);
    let mut looping = looping
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(read_line(looping.stdout.as_mut().unwrap()), "begun");
    let pid = rustix::process::Pid::from_child(&looping);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let asked = Instant::now();
    assert_eq!(looping.wait().unwrap().code(), Some(130));
    // The promise is 100 ms; the rest is for a machine that has something else to do.
    assert!(
        asked.elapsed() < Duration::from_secs(20),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn a_daemon_killed_in_the_middle_of_a_call_is_caught_by_its_code() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file(
        "watch.ts",
        r#"
await runtime.Run([new Cell({ name: "w" }), new Executable({ name: "w/x", argv: ["sleep", "1000"] })]);
let open = false;
try {
  for await (const _ of runtime.Watch({})) {
    if (!open) print("open");
    open = true;
  }
} catch (error) {
  if (!(error instanceof AuraeError)) throw error;
  print(error.code, error.hint !== undefined);
}
print((await runtime.Get("w/x")).executable?.state);
"#,
    );
    let mut waiting = node.command(&[&file]);
    let mut waiting = waiting.stdout(Stdio::piped()).spawn().unwrap();
    let out = waiting.stdout.as_mut().unwrap();
    assert_eq!(read_line(out), "open");
    node.kill_daemon();
    assert_eq!(read_line(out), "UNAVAILABLE true");
    assert_eq!(read_line(out), "running", "the next call connects again");
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
    node.aurae(&["rm", "-rf", "w"]).ok();
}

#[test]
fn a_revoked_certificate_is_caught_by_its_code() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let follower = user(&node, "follower", &["runtime"]);
    node.configure("follower.toml", &follower, "follower");
    let file = folder.file(
        "watch.ts",
        r#"
print((await identity.WhoAmI()).serial);
try {
  for await (const { type } of runtime.Watch({})) print(type);
  print("ended");
} catch (error) {
  print(error instanceof AuraeError ? error.code : error);
}
"#,
    );
    let mut watching = node.command_as("follower.toml", &[&file]);
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let out = watching.stdout.as_mut().unwrap();
    let serial = read_line(out);
    assert_eq!(read_line(out), "snapshot_end");
    node.aurae(&["identity", "revoke", &serial]).ok();
    assert_eq!(read_line(out), "CERT_REVOKED");
    assert_eq!(watching.wait().unwrap().code(), Some(0));
}
