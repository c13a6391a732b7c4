// SPDX-License-Identifier: Apache-2.0
//! Containers on a real node: an image's words and a request's, PID 1 and what runs beside it, the
//! daemon's death, a root of bounded size, and a tenant that means harm.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::identity::v0 as identity;
use api::image::v0 as images;
use api::image::v0::images_client::ImagesClient;
use api::runtime::v0 as wire;
use api::status::{Reason, from_status};
use tonic::Status;

use crate::caller::Person;
use crate::images::{archive, import};
use crate::node::TestNode;

/// What is begun is there by then.
const SOON: Duration = Duration::from_secs(30);
pub(crate) const BOX: &str = "registry.test/demo/box:v1";

/// A layer with busybox, two users and a folder.
pub(crate) fn layer() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut put = |kind: tar::EntryType, path: &str, mode: u32, data: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(data.len() as u64);
        tar.append_data(&mut header, path, data).unwrap();
    };
    let (folder, file) = (tar::EntryType::Directory, tar::EntryType::Regular);
    for path in ["bin/", "etc/", "srv/"] {
        put(folder, path, 0o755, b"");
    }
    put(folder, "tmp/", 0o1777, b"");
    put(
        file,
        "bin/busybox",
        0o755,
        &std::fs::read("/bin/busybox").unwrap(),
    );
    put(
        file,
        "etc/passwd",
        0o644,
        b"root:x:0:0::/:/bin/sh\napp:x:1000:1000::/srv:/bin/sh\n",
    );
    put(
        file,
        "etc/group",
        0o644,
        b"root:x:0:\napp:x:1000:\nextra:x:2000:app\n",
    );
    put(
        file,
        "app",
        0o755,
        b"#!/bin/busybox sh\nexec /bin/busybox sh -c \"$@\"\n",
    );
    tar.into_inner().unwrap()
}

pub(crate) async fn with_image(person: &Person) {
    import(person, &archive(BOX, &[layer()])).await.unwrap();
}

pub(crate) fn container() -> wire::Container {
    wire::Container {
        image: BOX.to_owned(),
        pull: wire::container::Pull::Never.into(),
        ..Default::default()
    }
}

pub(crate) fn cell_of(container: wire::Container) -> wire::CellSpec {
    wire::CellSpec {
        container: Some(container),
        ..Default::default()
    }
}

/// The main process of the image, whose argument is a script.
pub(crate) fn script(text: &str) -> wire::ExecutableSpec {
    wire::ExecutableSpec {
        argv: vec![format!("export PATH=/bin; {text}")],
        main: true,
        ..Default::default()
    }
}

pub(crate) fn at(path: &str) -> Option<wire::ObjectRef> {
    Some(wire::ObjectRef {
        path: path.to_owned(),
        ..Default::default()
    })
}

pub(crate) fn request(path: &str, spec: wire::ExecutableSpec) -> wire::RunExecutableRequest {
    wire::RunExecutableRequest {
        executable: Some(wire::Executable {
            r#ref: at(path),
            labels: BTreeMap::new(),
            spec: Some(spec),
        }),
        wait_for: wire::WaitFor::Exited.into(),
        ..Default::default()
    }
}

/// Runs to its end in a container of its own.
pub(crate) async fn run_in(
    person: &Person,
    cell: wire::CellSpec,
    spec: wire::ExecutableSpec,
) -> Result<wire::exit::How, Status> {
    let mut request = request("box/main", spec);
    request.own_cell = Some(cell);
    let mut runtime = person.node.runtime();
    let ended = runtime.run_executable(request).await?.into_inner();
    let again = wire::RemoveRequest {
        r#ref: at("box"),
        recursive: true,
        force: true,
    };
    let _removed = runtime.remove(again).await;
    Ok(ended.exit.unwrap().how.unwrap())
}

async fn run(person: &Person, text: &str) -> wire::exit::How {
    run_in(person, cell_of(container()), script(text))
        .await
        .unwrap()
}

/// Runs beside what runs in the cell `box`.
pub(crate) async fn beside(person: &Person, text: &str) -> wire::exit::How {
    let argv = ["/bin/busybox", "sh", "-c", text].map(str::to_owned);
    let spec = wire::ExecutableSpec {
        argv: argv.to_vec(),
        auto_remove: true,
        ..Default::default()
    };
    let ended = person
        .node
        .runtime()
        .run_executable(request("box/beside", spec))
        .await;
    ended.unwrap().into_inner().exit.unwrap().how.unwrap()
}

pub(crate) async fn start(person: &Person, spec: wire::ExecutableSpec) -> wire::ExecutableStatus {
    let mut request = request("box/main", spec);
    request.own_cell = Some(cell_of(container()));
    request.wait_for = wire::WaitFor::Started.into();
    let started = person.node.runtime().run_executable(request).await;
    started.unwrap().into_inner()
}

pub(crate) fn refused(status: &Status) -> (Option<Reason>, String) {
    let refused = from_status(status);
    (refused.reason, refused.message)
}

pub(crate) const WELL: wire::exit::How = wire::exit::How::Code(0);

pub(crate) async fn cast() -> Option<(TestNode, Person, Person)> {
    let node = TestNode::start()?;
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    with_image(&ann).await;
    Some((node, administrator, ann))
}

#[tokio::test]
async fn a_container_is_what_its_image_says_and_the_request_overrides() {
    let Some((_node, _, ann)) = cast().await else {
        return;
    };
    let said = "[ $$ = 1 ] && [ \"$A\" = 1 ] && [ \"$(busybox pwd)\" = /srv ] && \
                [ \"$(busybox id -u)\" = 0 ] && [ \"$HOSTNAME\" = box ]";
    assert_eq!(run(&ann, said).await, WELL);
    // And so does the request.
    let spec = wire::ExecutableSpec {
        entrypoint: ["/bin/busybox", "sh", "-c"].map(str::to_owned).to_vec(),
        argv: vec![
            "[ $$ = 1 ] && [ \"$A$B\" = 23 ] && [ $PWD = / ] && \
             [ \"$(/bin/busybox id -un):$(/bin/busybox id -G)\" = app:1000\\ 2000 ]"
                .to_owned(),
        ],
        env: [("A", "2"), ("B", "3")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        user: "app".to_owned(),
        cwd: "/".to_owned(),
        main: true,
        ..Default::default()
    };
    let how = run_in(&ann, cell_of(container()), spec).await.unwrap();
    assert_eq!(how, WELL);
}

#[tokio::test]
async fn what_runs_beside_has_what_the_main_process_has_and_ends_with_it() {
    let Some((_node, _, ann)) = cast().await else {
        return;
    };
    let mut main = script("");
    main.entrypoint = vec!["/bin/busybox".to_owned()];
    main.argv = ["sleep", "1000"].map(str::to_owned).to_vec();
    main.env.insert("B".to_owned(), "2".to_owned());
    main.user = "app".to_owned();
    start(&ann, main.clone()).await;
    let sees = "[ \"$A$B\" = 12 ] && [ \"$(busybox id -un)\" = app ] && \
                busybox grep -q sleep /proc/1/cmdline";
    let sees = format!("PATH=/bin; {sees}");
    assert_eq!(beside(&ann, &sees).await, WELL);
    // There is one main process.
    let second = ann
        .node
        .runtime()
        .run_executable(request("box/second", main))
        .await;
    let (reason, message) = refused(&second.unwrap_err());
    assert_eq!(reason, Some(Reason::WrongState), "{message}");
    assert!(message.contains("box/main"), "{message}");
    // PID 1 ends, and with it all.
    let beside = tokio::spawn({
        let ann = ann.clone();
        async move { beside(&ann, "PATH=/bin; busybox kill -TERM 1; busybox sleep 1000").await }
    });
    let at_work = wire::ListRequest {
        below: "box".to_owned(),
        running_only: true,
        ..Default::default()
    };
    let begun = Instant::now();
    let mut runtime = ann.node.runtime();
    while runtime
        .list(at_work.clone())
        .await
        .unwrap()
        .into_inner()
        .objects
        .len()
        < 2
    {
        assert!(begun.elapsed() < SOON, "nothing runs beside");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // PID 1 of a namespace gets only the signals that it has handlers for; a stop kills it.
    let stop = wire::StopRequest {
        r#ref: at("box/main"),
        grace: Some(prost_types::Duration::default()),
    };
    ann.node.runtime().stop(stop).await.unwrap();
    assert_eq!(beside.await.unwrap(), wire::exit::How::Signal(9));
}

#[tokio::test]
async fn a_container_outlives_the_daemon_and_its_image_stays_with_it() {
    let Some((mut node, _, _)) = cast().await else {
        return;
    };
    let ann = node.administrator().await;
    with_image(&ann).await;
    start(&ann, script("while :; do busybox sleep 0.1; done")).await;
    node.kill_daemon();
    let ann = node.administrator().await;
    let get = wire::GetRequest { r#ref: at("box") };
    let found = ann.node.runtime().get(get).await.unwrap().into_inner();
    let Some(wire::object::Object::Cell(cell)) = found.object else {
        panic!("{found:?}");
    };
    assert!(cell.image_digest.starts_with("sha256:"), "{cell:?}");
    assert_eq!(beside(&ann, "[ \"$A\" = 1 ]").await, WELL);
    // It is in use: neither removed nor pruned.
    let mut images = ImagesClient::new(ann.node.channel());
    let remove = images::RemoveRequest {
        reference: BOX.to_owned(),
        ..Default::default()
    };
    let (reason, message) = refused(&images.remove(remove.clone()).await.unwrap_err());
    assert_eq!(reason, Some(Reason::WrongState), "{message}");
    let pruned = images.prune(images::PruneRequest::default()).await.unwrap();
    assert_eq!(pruned.into_inner().removed, Vec::<String>::new());
    // With the container's end it isn't any more.
    let stop = wire::StopRequest {
        r#ref: at("box"),
        grace: Some(prost_types::Duration::default()),
    };
    ann.node.runtime().stop(stop).await.unwrap();
    images.remove(remove).await.unwrap();
}

#[tokio::test]
async fn a_root_has_a_size_or_is_read_only_and_goes_with_its_container() {
    let Some((_node, _, ann)) = cast().await else {
        return;
    };
    let small = wire::Container {
        root_bytes: Some(1 << 20),
        shared_memory_bytes: Some(1 << 20),
        ..container()
    };
    let fills = "! busybox dd if=/dev/zero of=/fill bs=64k count=32 2>/dev/null && \
                 ! busybox dd if=/dev/zero of=/dev/shm/fill bs=64k count=32 2>/dev/null && \
                 busybox rm /fill && echo again > /again";
    let how = run_in(&ann, cell_of(small), script(fills)).await.unwrap();
    assert_eq!(how, WELL);
    // The next one begins with the image.
    assert_eq!(run(&ann, "[ ! -e /again ] && [ ! -e /fill ]").await, WELL);
    let fixed = wire::Container {
        read_only: true,
        ..container()
    };
    let writes = "! echo x > /x && ! echo x > /srv/x && echo x > /dev/shm/x && \
                  ! busybox mount -o remount,rw /";
    let how = run_in(&ann, cell_of(fixed), script(writes)).await.unwrap();
    assert_eq!(how, WELL);
}

#[tokio::test]
async fn another_tenants_image_is_not_there_by_name_nor_by_digest() {
    let Some((node, administrator, ann)) = cast().await else {
        return;
    };
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    let get = images::GetRequest {
        reference: BOX.to_owned(),
        ..Default::default()
    };
    let mut images = ImagesClient::new(ann.node.channel());
    let digest = images.get(get).await.unwrap().into_inner().digest;
    for image in [BOX.to_owned(), digest] {
        let container = wire::Container {
            image,
            ..container()
        };
        let refusal = run_in(&eve, cell_of(container), script("true"))
            .await
            .unwrap_err();
        let (reason, message) = refused(&refusal);
        assert_eq!(reason, Some(Reason::NotFound), "{message}");
    }
    // Nothing is left of what was refused.
    let left = eve
        .node
        .runtime()
        .list(wire::ListRequest::default())
        .await
        .unwrap();
    assert_eq!(left.into_inner().objects, Vec::new());
}

#[tokio::test]
async fn a_run_that_pulls_takes_permission_to_pull() {
    let Some((_node, administrator, ann)) = cast().await else {
        return;
    };
    let denial = identity::DenyRequest {
        tenant: "acme".into(),
        user: "ann".into(),
        action: "image.Pull".to_owned(),
        ..Default::default()
    };
    administrator.deny(denial).await;
    // What is there needs none.
    let present = wire::Container {
        pull: wire::container::Pull::IfNotPresent.into(),
        ..container()
    };
    let how = run_in(&ann, cell_of(present.clone()), script("true"))
        .await
        .unwrap();
    assert_eq!(how, WELL);
    let always = wire::Container {
        pull: wire::container::Pull::Always.into(),
        ..present.clone()
    };
    let absent = wire::Container {
        image: "registry.test/demo/other:v1".to_owned(),
        ..present
    };
    for container in [always, absent] {
        let refusal = run_in(&ann, cell_of(container), script("true"))
            .await
            .unwrap_err();
        let (reason, message) = refused(&refusal);
        assert_eq!(reason, Some(Reason::PermissionDenied), "{message}");
    }
}

/// Where no file of the node can be written, a package manager may set the bits of `su`.
#[tokio::test]
async fn set_id_bits_are_for_containers_without_writable_files_of_the_node() {
    let Some((node, administrator, ann)) = cast().await else {
        return;
    };
    let sets = "busybox cp /bin/busybox /srv/su && busybox chmod 4755 /srv/su && [ -u /srv/su ]";
    assert_eq!(run(&ann, sets).await, WELL);
    with_image(&administrator).await;
    let folder = node.folder().join("shared");
    std::fs::create_dir(&folder).unwrap();
    let mount = wire::Mount {
        source: folder.to_str().unwrap().to_owned(),
        target: "/mnt".to_owned(),
        access: wire::mount::Access::Write.into(),
        owner_uid: Some(4242),
        ..Default::default()
    };
    let cell = wire::CellSpec {
        mounts: vec![mount.clone()],
        ..cell_of(container())
    };
    let how = run_in(&administrator, cell, script(&format!("! {{ {sets}; }}"))).await;
    assert_eq!(how.unwrap(), WELL);
    // One without such a mount gets none later.
    start(&administrator, script("busybox sleep 1000")).await;
    let update = wire::UpdateCellRequest {
        r#ref: at("box"),
        spec: Some(wire::CellSpec {
            mounts: vec![mount],
            ..Default::default()
        }),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["spec.mounts".to_owned()],
        }),
        ..Default::default()
    };
    let refusal = administrator
        .node
        .runtime()
        .update_cell(update)
        .await
        .unwrap_err();
    let (reason, message) = refused(&refusal);
    assert_eq!(reason, Some(Reason::InvalidField), "{message}");
}

/// What is known of container escapes, as root of the container with every capability.
#[tokio::test]
async fn a_root_with_every_capability_stays_in_its_container() {
    let Some((_node, administrator, _)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    let tries = [
        "! echo x > /proc/sysrq-trigger",
        "! echo '|/x' > /proc/sys/kernel/core_pattern",
        // Its own view of them is its to change; what they steer isn't.
        "busybox umount /proc/sys",
        "! echo '|/x' > /proc/sys/kernel/core_pattern",
        "{ busybox umount /proc/kcore; [ $(busybox head -c 1 /proc/kcore | busybox wc -c) = 0 ]; }",
        "busybox mkdir /tmp/c",
        "{ busybox mount -t cgroup -o memory c /tmp/c; ! echo /x > /tmp/c/release_agent; }",
        "! { busybox mknod /tmp/disk b 254 0 && busybox dd if=/tmp/disk of=/dev/null count=1; }",
        "! { busybox mknod /tmp/mem c 1 1 && busybox dd if=/tmp/mem of=/dev/null count=1; }",
        "[ ! -e /proc/1/root/usr/bin ]",
        "! busybox cat /proc/1/root/etc/shadow",
        // By the shell itself: a child would see both ends of the pipe to it for a moment. The
        // fourth is the folder.
        "{ set -- /proc/$$/fd/*; [ $# -le 4 ]; }",
        "! echo -1000 > /proc/1/oom_score_adj",
    ];
    let mut spec = script(&format!("exec 2>/dev/null; {}", tries.join(" && ")));
    let more = [
        "SYS_ADMIN",
        "SYS_PTRACE",
        "SYS_MODULE",
        "SYS_RAWIO",
        "DAC_READ_SEARCH",
    ];
    let more = more
        .iter()
        .chain(&["NET_ADMIN", "MKNOD", "SYS_BOOT", "SYS_RESOURCE", "SYSLOG"]);
    let usual = [
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "SETUID",
        "SETGID",
        "SETFCAP",
        "KILL",
    ];
    spec.capabilities = Some(wire::Capabilities {
        bounding: more.chain(&usual).map(|name| (*name).to_owned()).collect(),
        ambient: Vec::new(),
    });
    spec.seccomp = Some(wire::Seccomp {
        profile: wire::seccomp::Profile::Unconfined.into(),
        ..Default::default()
    });
    let run = run_in(&administrator, cell_of(container()), spec);
    assert_eq!(run.await.unwrap(), WELL);
}

/// Containers come and go, and nothing of them stays with the node.
#[tokio::test]
async fn a_hundred_containers_leave_nothing_behind() {
    let Some((mut node, _, _)) = cast().await else {
        return;
    };
    let ann = node.administrator().await;
    with_image(&ann).await;
    let below = node.folder().to_str().unwrap().to_owned();
    let mounts = || {
        let all = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let own = all.lines().filter(|line| line.contains(&below));
        own.count()
    };
    for round in 0..100 {
        assert_eq!(run(&ann, "echo x > /x").await, WELL, "{round}");
    }
    assert_eq!(mounts(), 0);
    node.kill_daemon();
    let ann = node.administrator().await;
    let living = wire::ListRequest {
        running_only: true,
        ..Default::default()
    };
    let list = ann.node.runtime().list(living).await.unwrap();
    assert_eq!(list.into_inner().objects.len(), 0);
    // A folder for the names that containers are told may be there, with nothing in it.
    let cells = std::fs::read_dir(node.folder().join("run/cells")).unwrap();
    for entry in cells {
        let left = std::fs::read_dir(entry.unwrap().path()).expect("a folder, no socket");
        assert_eq!(left.count(), 0);
    }
}

#[tokio::test]
async fn what_has_no_meaning_is_refused_by_its_field() {
    let Some((_node, _, ann)) = cast().await else {
        return;
    };
    let mut runtime = ann.node.runtime();
    let spec = wire::ExecutableSpec {
        argv: vec!["/bin/true".to_owned()],
        main: true,
        ..Default::default()
    };
    let mut plain = request("plain/main", spec.clone());
    plain.own_cell = Some(wire::CellSpec::default());
    let error = from_status(&runtime.run_executable(plain).await.unwrap_err());
    assert_eq!(
        error.field.as_deref(),
        Some("executable.spec.main"),
        "{error:?}"
    );
    let mut bare = request(
        "bare/main",
        wire::ExecutableSpec {
            argv: Vec::new(),
            ..spec
        },
    );
    bare.own_cell = Some(cell_of(wire::Container::default()));
    let error = from_status(&runtime.run_executable(bare).await.unwrap_err());
    assert_eq!(
        error.field.as_deref(),
        Some("executable.spec.argv"),
        "{error:?}"
    );
    let sizes = wire::Container {
        read_only: true,
        root_bytes: Some(1 << 20),
        ..container()
    };
    let error = run_in(&ann, cell_of(sizes), script("true"))
        .await
        .unwrap_err();
    let error = from_status(&error);
    assert_eq!(
        error.field.as_deref(),
        Some("own_cell.container.root_bytes"),
        "{error:?}"
    );
}
