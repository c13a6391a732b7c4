// SPDX-License-Identifier: Apache-2.0
//! Terminals: the same log, by read and write.

use std::io::Write;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::*;

#[tokio::test]
async fn what_a_terminal_shows_is_stored() {
    let root = folder();
    let logs = Logs::start(root.path(), LogsConfig::default()).unwrap();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let open = || File::options().read(true).write(true).open(&name).unwrap();
    let mut slave = open();
    let sources = vec![(Stream::Stdout, master.try_clone().unwrap())];
    logs.attach(key(1), sources, &small()).await.unwrap();
    let mut bytes = 0;
    for i in 0..2_000 {
        let line = format!("{i}\n");
        slave.write_all(line.as_bytes()).unwrap();
        // The line discipline adds a carriage return.
        bytes += line.len() as u64 + 1;
    }
    settled(&logs, &key(1), bytes).await;
    // Every process closes it, then one of the session opens it again.
    drop(slave);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut slave = open();
    slave.write_all(b"back\n").unwrap();
    settled(&logs, &key(1), bytes + 6).await;
    let drained = logs.drained(key(1).uid).await.unwrap();
    assert_eq!(drained.stdout_bytes, bytes + 6);
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert!(seen.stdout.starts_with(b"0\r\n1\r\n2\r\n"));
    assert!(seen.stdout.ends_with(b"1999\r\nback\r\n"));
}
