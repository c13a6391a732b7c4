// SPDX-License-Identifier: Apache-2.0
//! Escapes that are known of container runtimes, each really attempted by root of a container with
//! every capability and no filter of system calls. Afterwards the node is looked at; and each
//! attempt has a control, which shows that it works where nothing stands against it.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use api::runtime::v0 as wire;

use crate::caller::Person;
use crate::containers::{
    BOX, WELL, beside, cast, cell_of, container, layer, request, run_in, script, start, with_image,
};
use crate::hardening::with_everything;
use crate::images::{archive, import};
use crate::node::TestNode;

/// What an escape would change on the node, read before and after.
fn node_files() -> Vec<(String, String)> {
    let files = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/panic",
        "/proc/sys/vm/swappiness",
        "/proc/sys/fs/file-max",
        "/proc/sys/net/core/somaxconn",
        "/proc/sys/kernel/hostname",
    ];
    // A kernel without modules has no modprobe.
    let read = |path: &&str| Some(((*path).to_owned(), std::fs::read_to_string(path).ok()?));
    files.iter().filter_map(read).collect()
}

async fn attempt(person: &Person, cell: wire::CellSpec, text: &str) -> wire::exit::How {
    let spec = with_everything(script(&format!("exec 2>/dev/null; {text}")));
    run_in(person, cell, spec).await.unwrap()
}

/// A perl program and its libraries, by a read-only mount of the node: it can make any system call.
fn with_perl() -> wire::CellSpec {
    let mount = wire::Mount {
        source: "/usr".to_owned(),
        access: wire::mount::Access::Read.into(),
        ..Default::default()
    };
    wire::CellSpec {
        mounts: vec![mount],
        ..cell_of(container())
    }
}

/// A path, what it is, where a link leads, and a device's numbers.
type Entry<'a> = (&'a str, tar::EntryType, &'a str, Option<(u32, u32)>);

/// The image with more in it: links, and nodes of devices.
fn layer_with(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = layer();
    // Without the two empty blocks at its end.
    bytes.truncate(bytes.len() - 1024);
    let mut tar = tar::Builder::new(bytes);
    for (path, kind, link, device) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o666);
        header.set_size(0);
        if let Some((major, minor)) = device {
            header.set_device_major(*major).unwrap();
            header.set_device_minor(*minor).unwrap();
        }
        if link.is_empty() {
            tar.append_data(&mut header, path, &b""[..]).unwrap();
        } else {
            tar.append_link(&mut header, path, link).unwrap();
        }
    }
    tar.into_inner().unwrap()
}

async fn administrator() -> Option<(TestNode, Person)> {
    let (node, administrator, _) = cast().await?;
    with_image(&administrator).await;
    Some((node, administrator))
}

/// `release_agent`, `core_pattern`, `modprobe`, the rest of `/proc/sys` and `sysrq-trigger`, from
/// the container and from a user namespace in it, with and without what masks them.
#[tokio::test]
async fn nothing_of_the_node_is_steered_by_its_proc_and_cgroups() {
    let Some((_node, administrator)) = administrator().await else {
        return;
    };
    let before = node_files();
    // The control: where there is a group of version 1, root of the node may set its agent.
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let of_memory = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    for words in of_memory.filter(|words| words[2] == "cgroup" && words[3].contains("memory")) {
        let agent = format!("{}/release_agent", words[1]);
        std::fs::OpenOptions::new().write(true).open(agent).unwrap();
    }
    for (file, value) in &before {
        let written = std::fs::write(file, value.trim());
        assert!(
            written.is_ok(),
            "the control: the node's root writes {file}: {written:?}"
        );
    }
    // Help is all that this prints. Not every kernel has it.
    if std::path::Path::new("/proc/sysrq-trigger").exists() {
        std::fs::write("/proc/sysrq-trigger", "h").unwrap();
    }
    let each = before.iter().map(|(file, _)| file.as_str());
    // A host name is the container's own.
    let each: Vec<_> = each
        .filter(|file| !file.contains("host") && !file.contains("/net/"))
        .collect();
    let files = each.join(" ");
    let writes = format!(
        "for f in {files} /proc/sysrq-trigger; do echo 1 > $f && exit 1; done; \
         busybox umount /proc/sys; busybox umount /proc/sysrq-trigger; \
         for f in {files} /proc/sysrq-trigger; do echo h > $f && exit 2; done; \
         busybox mkdir -p /tmp/p; busybox mount -t proc proc /tmp/p && \
         for f in {files}; do echo 1 > /tmp/p/${{f#/proc/}} && exit 3; done; \
         busybox mkdir -p /tmp/c; \
         busybox mount -t cgroup -o memory c /tmp/c && {{ busybox mkdir /tmp/c/own && exit 4; \
         echo /x > /tmp/c/release_agent && exit 5; \
         echo 1 > /tmp/c/notify_on_release && exit 6; }}; \
         busybox mount -t cgroup2 c /tmp/c && echo /x > /tmp/c/release_agent && exit 7; true"
    );
    for unmasked in [false, true] {
        let cell = cell_of(wire::Container {
            unmasked,
            ..container()
        });
        assert_eq!(attempt(&administrator, cell.clone(), &writes).await, WELL);
        let nested = "busybox unshare -Urm /bin/busybox true || exit 9; \
                      busybox unshare -Urm /bin/busybox sh -c '";
        let nested = format!("{nested}{writes}'");
        assert_eq!(
            attempt(&administrator, cell, &nested).await,
            WELL,
            "{unmasked}"
        );
    }
    assert_eq!(node_files(), before);
}

/// CVE-2019-5736: a handle of the program that starts what runs beside, held open until nothing
/// executes it, and then written.
#[tokio::test]
async fn the_nodes_program_can_not_be_written_by_what_starts_in_a_container() {
    let Some((_node, administrator)) = administrator().await else {
        return;
    };
    let program = env!("CARGO_BIN_EXE_auraed");
    let digest = || {
        let sum = Command::new("sha256sum").arg(program).output().unwrap();
        String::from_utf8(sum.stdout).unwrap()
    };
    let before = digest();
    // The control: the same way leads to a program of the container's own.
    let control = "busybox cp /bin/busybox /tmp/busybox; /tmp/busybox sleep 1 & \
                   until [ \"$(busybox readlink /proc/$!/exe)\" = /tmp/busybox ]; do true; done; \
                   exec 9</proc/$!/exe; wait; echo x > /proc/self/fd/9 && \
                   [ $(busybox stat -c %s /tmp/busybox) = 2 ]";
    assert_eq!(
        attempt(&administrator, cell_of(container()), control).await,
        WELL
    );
    // Whatever runs here and isn't the image's is written down, and written to.
    let hunts = "while true; do for p in /proc/[0-9]*; do \
                 case $(busybox readlink $p/exe) in /bin/busybox|'') ;; \
                 *) echo $p >> /found; (exec 9<$p/exe; echo x > /proc/self/fd/9 && echo > /wrote); \
                 (echo x > $p/exe) && echo > /wrote;; esac; echo x >> /looked; done; done";
    start(
        &administrator,
        with_everything(script(&format!("exec 2>/dev/null; {hunts}"))),
    )
    .await;
    let asks = "PATH=/bin; until [ -s /looked ]; do busybox sleep 0.1; done";
    // What begins as the very file that started it: the runtime's own.
    let itself = wire::ExecutableSpec {
        argv: vec!["/proc/self/exe".to_owned(), "--version".to_owned()],
        auto_remove: true,
        ..with_everything(wire::ExecutableSpec::default())
    };
    for _ in 0..20 {
        assert_eq!(beside(&administrator, asks).await, WELL);
        let asked = request("box/self", itself.clone());
        let _it_may_be_refused = administrator.node.runtime().run_executable(asked).await;
    }
    let found = beside(&administrator, "[ -s /found ]").await;
    println!(
        "    a handle of the node's program was had: {}",
        found == WELL
    );
    assert_eq!(beside(&administrator, "[ ! -e /wrote ]").await, WELL);
    assert_eq!(digest(), before);
}

/// CVE-2024-21626: a working directory by way of a descriptor that the runtime has left open, given
/// by the request and by the image.
#[tokio::test]
async fn no_descriptor_of_the_runtime_is_a_way_out() {
    let Some((node, administrator)) = administrator().await else {
        return;
    };
    let control = "exec 9</srv; cd /proc/self/fd/9 && [ \"$(busybox pwd -P)\" = /srv ]";
    assert_eq!(
        attempt(&administrator, cell_of(container()), control).await,
        WELL
    );
    let marker = node.folder().join("log").to_str().unwrap().to_owned();
    assert!(std::path::Path::new(&marker).exists());
    let up = "../../../../../../../..";
    let looks = format!("[ -e {up}{marker} ] || [ -e ./{up}/usr/bin/env ] && exit 7; exit 0");
    for number in 0..40 {
        let mut spec = with_everything(script(&looks));
        spec.cwd = format!("/proc/self/fd/{number}");
        let mut asked = request("box/main", spec);
        asked.own_cell = Some(cell_of(container()));
        if let Ok(ended) = administrator.node.runtime().run_executable(asked).await {
            let how = ended.into_inner().exit.unwrap().how.unwrap();
            assert_eq!(how, WELL, "{number}");
        }
    }
    let links: Vec<_> = (3..30)
        .map(|n| (format!("wd{n}"), format!("/proc/self/fd/{n}")))
        .collect();
    let entries: Vec<_> = links
        .iter()
        .map(|(path, to)| (path.as_str(), tar::EntryType::Symlink, to.as_str(), None))
        .collect();
    import(&administrator, &archive(BOX, &[layer_with(&entries)]))
        .await
        .unwrap();
    for (path, _) in &links {
        let mut spec = with_everything(script(&looks));
        spec.cwd = format!("/{path}");
        let mut asked = request("box/main", spec);
        asked.own_cell = Some(cell_of(container()));
        if let Ok(ended) = administrator.node.runtime().run_executable(asked).await {
            let how = ended.into_inner().exit.unwrap().how.unwrap();
            assert_eq!(how, WELL, "{path}");
        }
    }
}

/// A folder, a link to the root, a folder, and so on, under one name. Says how often.
fn swap(shared: &std::path::Path, swapping: &AtomicBool) -> u32 {
    let (folder, link) = (shared.join("folder"), shared.join("link"));
    let at = shared.join("t");
    let mut swaps = 0;
    while swapping.load(Ordering::Relaxed) {
        let _ = std::fs::create_dir(&folder);
        let _ = std::os::unix::fs::chown(&folder, Some(4242), Some(4242));
        let _ = std::fs::rename(&folder, &at);
        let _ = std::fs::remove_dir_all(&at);
        let _ = std::os::unix::fs::symlink("/", &link);
        let _ = std::fs::rename(&link, &at);
        let _ = std::fs::remove_file(&at);
        swaps += 1;
    }
    swaps
}

/// CVE-2021-30465: the place of a mount is a link, or becomes one while the mount is on its way.
#[tokio::test]
async fn a_mount_onto_a_link_stays_in_its_container_however_the_link_moves() {
    let Some((node, administrator)) = administrator().await else {
        return;
    };
    let shared = node.folder().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::os::unix::fs::chown(&shared, Some(4242), Some(4242)).unwrap();
    let place = format!("aurae-escape-{}", std::process::id());
    let victim = wire::CellSpec {
        mounts: vec![
            wire::Mount {
                source: shared.to_str().unwrap().to_owned(),
                target: "/shared".to_owned(),
                access: wire::mount::Access::Write.into(),
                owner_uid: Some(4242),
                ..Default::default()
            },
            wire::Mount {
                source: "/usr/share".to_owned(),
                target: format!("/shared/t/{place}"),
                access: wire::mount::Access::Read.into(),
                ..Default::default()
            },
        ],
        ..cell_of(container())
    };
    // The control: a link that stands still is followed, in the container.
    std::os::unix::fs::symlink("/", shared.join("t")).unwrap();
    let inside = format!("[ -n \"$(busybox ls /{place})\" ]");
    assert_eq!(attempt(&administrator, victim.clone(), &inside).await, WELL);
    std::fs::remove_file(shared.join("t")).unwrap();
    let swapping = Arc::new(AtomicBool::new(true));
    let swapper = std::thread::spawn({
        let (shared, swapping) = (shared.clone(), swapping.clone());
        move || swap(&shared, &swapping)
    });
    let node_place = std::path::Path::new("/").join(&place);
    let mut made = 0;
    for _ in 0..40 {
        let spec = with_everything(script("true"));
        // What is swapped may be gone at the wrong moment: a refusal is no escape.
        made += u32::from(run_in(&administrator, victim.clone(), spec).await.is_ok());
        assert!(!node_place.exists(), "{} was made", node_place.display());
    }
    swapping.store(false, Ordering::Relaxed);
    println!(
        "    {made} of 40 were made, {} swaps",
        swapper.join().unwrap()
    );
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&place), "{mounts}");
}

/// CVE-2025-31133, 52565 and 52881: what masks, what terminals and what parameters are written by
/// are places that the image has filled first.
#[tokio::test]
async fn an_image_redirects_nothing_that_is_written_or_mounted_for_it() {
    let Some((_node, administrator)) = administrator().await else {
        return;
    };
    let before = node_files();
    let link = tar::EntryType::Symlink;
    let hostile = layer_with(&[
        ("dev/null", link, "/proc/sys/kernel/core_pattern", None),
        ("dev/console", link, "/proc/sysrq-trigger", None),
        ("dev/pts", link, "/proc/sys/kernel", None),
        ("proc", link, "/srv", None),
        ("sys", link, "/srv", None),
        (
            "srv/sys/net/core/somaxconn",
            tar::EntryType::Regular,
            "",
            None,
        ),
    ]);
    import(&administrator, &archive(BOX, &[hostile]))
        .await
        .unwrap();
    let cell = wire::CellSpec {
        sysctls: [("net.core.somaxconn".to_owned(), "1234".to_owned())].into(),
        ..cell_of(container())
    };
    let looks = "[ -c /dev/null ] && [ -d /dev/pts ] && [ ! -L /proc ] && \
                 [ \"$(busybox cat /proc/sys/net/core/somaxconn)\" = 1234 ] && \
                 [ ! -s /srv/sys/net/core/somaxconn ] && [ ! -s /proc/kcore ] && \
                 [ -f /srv/sys/net/core/somaxconn ]";
    let mut spec = with_everything(script(looks));
    for terminal in [None, Some(wire::Terminal::default())] {
        // The control: it has one, and it isn't the image's.
        let own = match terminal {
            Some(_) => " && [ \"$(busybox tty)\" = /dev/pts/0 ] && echo x > /dev/tty",
            None => "",
        };
        spec.argv = vec![format!(
            "export PATH=/bin; {looks}{own} && [ ! -e /dev/console ]"
        )];
        spec.terminal = terminal;
        let how = run_in(&administrator, cell.clone(), spec.clone()).await;
        assert_eq!(how.unwrap(), WELL, "{terminal:?}");
    }
    assert_eq!(node_files(), before);
}

#[tokio::test]
async fn a_device_of_an_image_and_one_that_is_made_are_of_no_use() {
    let Some((_node, administrator)) = administrator().await else {
        return;
    };
    let (character, block) = (tar::EntryType::Char, tar::EntryType::Block);
    let nodes = layer_with(&[
        ("nothing", character, "", Some((1, 3))),
        ("kmsg", character, "", Some((1, 11))),
        ("disk", block, "", Some((8, 0))),
        ("loop", block, "", Some((7, 0))),
    ]);
    import(&administrator, &archive(BOX, &[nodes]))
        .await
        .unwrap();
    let tries = "[ -c /nothing ] && [ -b /disk ] && ! true < /nothing && ! true < /kmsg && \
                 ! true < /disk && ! true < /loop && true < /dev/null && \
                 ! busybox mount -o remount,dev / && ! busybox mknod /tmp/n c 1 3 && \
                 ! busybox mknod /tmp/b b 7 0";
    assert_eq!(
        attempt(&administrator, cell_of(container()), tries).await,
        WELL
    );
    // With the node's own users the nodes can be made, and used where they are harmless.
    let cell = wire::CellSpec {
        share: vec![wire::Namespace::User.into()],
        ..cell_of(container())
    };
    let tries = "busybox mkdir /tmp/d; busybox mount -t tmpfs none /tmp/d && cd /tmp/d && \
                 busybox mknod n c 1 3 && true < n && \
                 ! busybox mknod k c 1 11 && ! busybox mknod b b 7 0";
    assert_eq!(attempt(&administrator, cell, tries).await, WELL);
    // The control: the node's root opens it.
    std::fs::File::open("/dev/kmsg").unwrap();
}

/// System calls that no shell has: `bpf`, `perf_event_open`, and the node's keys.
#[tokio::test]
async fn no_program_counter_or_key_of_the_node_is_within_reach() {
    let Some((_node, administrator)) = administrator().await else {
        return;
    };
    if !std::path::Path::new("/usr/bin/perl").exists() || !cfg!(target_arch = "x86_64") {
        testkit::skip("these calls are made by a perl of x86_64");
        return;
    }
    let name = format!("aurae-escape-{}", std::process::id());
    // BPF_PROG_LOAD of `return 1` for sockets.
    let bpf = "my $i=pack('CCsl',0xb7,0,0,1).pack('CCsl',0x95,0,0,0);my $l=\"GPL\\0\";\
               my $a=pack('LLQQ',1,2,unpack('Q',pack('p',$i)),unpack('Q',pack('p',$l))).\"\\0\"x48;\
               exit(syscall(321,5,$a,length $a)<0?1:0)";
    // The CPU's clock, for all processes of CPU 0.
    let perf = "my $a=pack('LLQ',1,112,0).\"\\0\"x96;\
                exit(syscall(298,$a,-1,0,-1,0)<0?1:0)";
    let search = format!(
        "my $n=\"{name}\\0\";my $u=\"user\\0\";\
                          exit(syscall(250,10,-4,$u,$n,0)<0?1:0)"
    );
    let add = format!(
        "my $n=\"{name}\\0\";my $u=\"user\\0\";my $d='x';\
                       exit(syscall(248,$u,$n,$d,1,-4)<0?1:0)"
    );
    let on_the_node = |program: &str| {
        let status = Command::new("/usr/bin/perl").args(["-e", program]).status();
        status.unwrap().success()
    };
    let _its_key_or_none = on_the_node(&add);
    let image = layer_with(&[
        ("lib", tar::EntryType::Symlink, "usr/lib", None),
        ("lib64", tar::EntryType::Symlink, "usr/lib64", None),
    ]);
    import(&administrator, &archive(BOX, &[image]))
        .await
        .unwrap();
    for (what, program) in [("bpf", bpf), ("perf", perf), ("keys", &search)] {
        // The control: the node's root may.
        if !on_the_node(program) {
            testkit::skip(&format!("this kernel has no {what}"));
            continue;
        }
        let spec = wire::ExecutableSpec {
            entrypoint: ["/usr/bin/perl", "-e"].map(str::to_owned).to_vec(),
            argv: vec![program.to_owned()],
            main: true,
            ..with_everything(wire::ExecutableSpec::default())
        };
        let mut runs = spec.clone();
        runs.argv = vec!["exit 0".to_owned()];
        let how = run_in(&administrator, with_perl(), runs).await.unwrap();
        assert_eq!(how, WELL, "the control: perl runs in the container");
        let how = run_in(&administrator, with_perl(), spec).await.unwrap();
        assert_eq!(how, wire::exit::How::Code(1), "{what}");
    }
    let forget = format!(
        "my $n=\"{name}\\0\";my $u=\"user\\0\";\
                          my $k=syscall(250,10,-4,$u,$n,0);syscall(250,9,$k,-4)"
    );
    let _ = on_the_node(&forget);
}
