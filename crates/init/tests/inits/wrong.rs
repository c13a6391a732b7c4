// SPDX-License-Identifier: Apache-2.0
//! Node-init as PID 1 of a machine on which something is wrong: a root that can't be written, a
//! clock that shows local time, daemons that end at once. In QEMU, as in [`crate::machine`].

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use testkit::machine::Disk;

use crate::Story;
use crate::machine::{Bed, disk_of, root_folder, step, steps};

pub(crate) const STORIES: &[Story] = &[
    (
        "a_root_that_can_not_be_written_has_an_id_and_a_state_for_this_boot",
        a_root_that_can_not_be_written_has_an_id_and_a_state_for_this_boot,
    ),
    (
        "where_no_daemon_comes_up_there_is_a_shell_on_the_console",
        where_no_daemon_comes_up_there_is_a_shell_on_the_console,
    ),
    (
        "without_a_root_the_initramfs_asks_for_its_password_and_goes_on_by_hand",
        without_a_root_the_initramfs_asks_for_its_password_and_goes_on_by_hand,
    ),
];

/// Says that a disk is that of the first story.
const READ_ONLY: &str = "/etc/read-only";
/// Of the machine of the second story.
const SULOGIN: &str = "sbin/sulogin";
/// As long as it is there, daemons end at once.
const BROKEN: &str = "/etc/broken";
/// The machine's clock shows UTC, and is taken as that of a zone two hours behind it.
const ZONE: &str = "/usr/share/zoneinfo/Etc/GMT+2";

/// What a daemon does before anything else.
pub(crate) fn end_at_once() {
    if Path::new(BROKEN).exists() {
        println!("this daemon can't serve");
        std::process::exit(1);
    }
}

/// What a daemon says of its machine; `true`: that is all.
pub(crate) fn look() -> bool {
    if Path::new("/").join(SULOGIN).exists() {
        step("serves");
        return true;
    }
    if !Path::new(READ_ONLY).exists() {
        return false;
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    step(&format!("root {}", std::fs::write("/x", "").is_err()));
    let id = read("/etc/machine-id");
    step(&format!(
        "id {} {}",
        id.len(),
        id == read("/run/machine-id")
    ));
    step(&format!(
        "fixed {}",
        std::fs::write("/etc/machine-id", "x").is_err()
    ));
    let state = Path::new("/var/lib/aurae");
    let kept = std::fs::read_to_string(state.join("kept")).unwrap_or_default();
    let written = std::fs::write(state.join("new"), "").is_ok();
    step(&format!("state {kept} {written}"));
    let rtc: u64 = read("/sys/class/rtc/rtc0/since_epoch")
        .trim()
        .parse()
        .unwrap();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    step(&format!("ahead {}", (now.abs_diff(rtc) + 60) / 3600));
    true
}

fn a_root_that_can_not_be_written_has_an_id_and_a_state_for_this_boot() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let folder = bed.folder.path();
    let root = root_folder(folder, "sbin/auraed");
    std::os::unix::fs::symlink("sbin/auraed", root.join("init")).unwrap();
    let write = |path: &str, text: &str| {
        std::fs::write(root.join(path.trim_start_matches('/')), text).unwrap();
    };
    write(READ_ONLY, "");
    write("/etc/machine-id", "");
    write("/etc/adjtime", "0.0 0 0.0\n0\nLOCAL\n");
    std::fs::copy(ZONE, root.join("etc/localtime")).unwrap();
    std::fs::create_dir_all(root.join("var/lib/aurae")).unwrap();
    write("/var/lib/aurae/kept", "kept");
    let disk = disk_of(folder, &root);
    let first = root_folder(&folder.join("first"), "init");
    bed.add_modules(&first);
    let shown = bed.boot(bed.pack(&first), "root=/dev/vda ro", Some(Disk::Kept(disk)));
    let expected = [
        "welcome Machine Ok(())",
        "root true",
        "id 33 true",
        "fixed true",
        "state kept true",
        "ahead 2",
    ];
    assert_eq!(steps(&shown), expected, "{shown}");
    for words in [
        "/var/lib/aurae can't be written: what changes there is kept until the next boot alone",
        "the machine's clock shows local time, -120 minutes ahead of UTC",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
}

fn where_no_daemon_comes_up_there_is_a_shell_on_the_console() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let root = root_folder(bed.folder.path(), "init");
    std::fs::write(root.join("etc/broken"), "").unwrap();
    let sulogin = root.join(SULOGIN);
    let script = "#!/bin/busybox sh\n\
        echo root is asked, $(/bin/busybox cat /proc/self/oom_score_adj)\n\
        /bin/busybox grep SigBlk /proc/self/status\n\
        /bin/busybox rm /etc/broken\n";
    std::fs::write(&sulogin, script).unwrap();
    std::fs::set_permissions(&sulogin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let shown = bed.boot(bed.pack(&root), "", None);
    for words in [
        "this daemon can't serve",
        "no daemon comes up (8 have ended, and said why above)",
        "root is asked, 0",
        "SigBlk:\t0000000000000000",
        "the shell has ended; a daemon is started",
        "the end",
    ] {
        assert!(shown.contains(words), "{words:?} isn't in {shown}");
    }
    assert_eq!(
        steps(&shown),
        ["welcome Machine Ok(())", "serves"],
        "{shown}"
    );
}

/// `rescue-me`, by crypt(5)'s SHA-512.
const HASH: &str = "$6$aurae$JpKdN44wXUtcQ3X9mKyS0fZfqiE//FQgz1XWhFtnWLRX/jiDfYmZJ1fgbA4095xUkCLosK\
    2AdM41xcRkvyOpj.";

fn without_a_root_the_initramfs_asks_for_its_password_and_goes_on_by_hand() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let folder = bed.folder.path();
    let root = root_folder(folder, "sbin/auraed");
    std::fs::write(root.join(SULOGIN), "").unwrap();
    let disk = disk_of(folder, &root);
    let first = root_folder(&folder.join("first"), "init");
    bed.add_modules(&first);
    std::os::unix::fs::symlink("/bin/busybox", first.join(SULOGIN)).unwrap();
    std::os::unix::fs::symlink("busybox", first.join("bin/sh")).unwrap();
    std::fs::write(first.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    let append = "root=/dev/vda rootfstype=iso9660 ro panic=0";
    let boot = |shadow: &str, append: &str, talk: &[(&str, &str)]| {
        std::fs::write(first.join("etc/shadow"), shadow).unwrap();
        let disk = Some(Disk::Kept(disk.clone()));
        bed.boot_and_type(bed.pack(&first), append, disk, talk)
    };
    let talk = [
        ("startup):", "wrong\n"),
        ("incorrect", "rescue-me\n"),
        (
            "# ",
            "/bin/busybox mount -t ext4 -o ro /dev/vda /sysroot && echo by $((40 + 2)) hands\n",
        ),
        // What a terminal has not shown yet goes with its session.
        ("by 42 hands", "no-such-command; exit\n"),
    ];
    let shown = boot(&format!("root:{HASH}:1::::::\n"), append, &talk);
    for words in [
        "from the initramfs to the root: mount",
        "the shell has ended; the root is tried again",
    ] {
        assert!(shown.contains(words), "{words:?} isn't in {shown}");
    }
    assert_eq!(
        steps(&shown),
        ["welcome Machine Ok(())", "serves"],
        "{shown}"
    );
    // No hash, no shell; nor where the machine is to restart by itself.
    for (shadow, append) in [
        ("root:*:1::::::\n".to_owned(), append.to_owned()),
        (
            format!("root:{HASH}:1::::::\n"),
            format!("{append} panic=1"),
        ),
    ] {
        let shown = boot(&shadow, &append, &[]);
        assert!(shown.contains("from the initramfs to the root"), "{shown}");
        assert!(!shown.contains("a shell is on the console"), "{shown}");
    }
}
