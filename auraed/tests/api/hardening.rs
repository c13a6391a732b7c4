// SPDX-License-Identifier: Apache-2.0
//! What the runtime specification's Linux part gives containers, on a real node: rules of devices,
//! filters in Docker's form, parameters of namespaces, masked and read-only paths, tmpfs. Each
//! refusal stands beside the same attempt where it works.

use api::runtime::v0 as wire;
use api::status::{Reason, from_status};

use crate::caller::Person;
use crate::containers::{
    BOX, WELL, at, beside, cast, cell_of, container, layer, refused, request, run_in, script,
    start, with_image,
};
use crate::images::{archive, import};
use crate::node::TestNode;

/// Every capability: what a filter and a namespace leave is looked at, not what these do.
pub(crate) fn with_everything(mut spec: wire::ExecutableSpec) -> wire::ExecutableSpec {
    spec.capabilities = Some(wire::Capabilities {
        bounding: vec!["ALL".to_owned()],
        ambient: Vec::new(),
    });
    spec.seccomp = Some(wire::Seccomp {
        profile: wire::seccomp::Profile::Unconfined.into(),
        ..Default::default()
    });
    spec
}

fn custom(text: &str) -> Option<wire::Seccomp> {
    Some(wire::Seccomp {
        custom: text.to_owned(),
        ..Default::default()
    })
}

/// With the node's own users: what its root may make, this root may.
fn among_node_users(container: Option<wire::Container>) -> wire::CellSpec {
    wire::CellSpec {
        share: vec![wire::Namespace::User.into()],
        container,
        ..Default::default()
    }
}

/// The rules are asked where no flag of a mount is in the way: a tmpfs of root's own, with root's
/// own nodes on it.
#[tokio::test]
async fn only_the_devices_that_were_asked_for_can_be_used_whatever_nodes_there_are() {
    let Some((_node, administrator, _)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    let own = "busybox mkdir /tmp/d && busybox mount -t tmpfs none /tmp/d && cd /tmp/d";
    let usual = "busybox mknod z c 1 5 && busybox head -c 1 z >/dev/null && echo x >/dev/null";
    let open = "busybox mknod f c 10 229 && true <f";
    let bare = with_everything(script(&format!("{own} && {usual} && ! {{ {open}; }}")));
    let cell = among_node_users(Some(container()));
    let how = run_in(&administrator, cell, bare).await.unwrap();
    assert_eq!(how, WELL, "fuse by a node of its own");
    // The same where the device is the container's.
    let asked = wire::Container {
        devices: vec![wire::Device {
            path: "/dev/fuse".to_owned(),
            ..Default::default()
        }],
        ..container()
    };
    let given =
        format!("{own} && {usual} && {open} && true </dev/fuse && ! busybox mknod k c 1 11");
    let cell = among_node_users(Some(asked));
    let how = run_in(&administrator, cell, with_everything(script(&given)));
    assert_eq!(
        how.await.unwrap(),
        WELL,
        "fuse as a device of the container"
    );
    // And where the cell is no container: what the rules refuse is what the node's root may.
    let mut spec = with_everything(wire::ExecutableSpec {
        argv: ["/bin/busybox", "sh", "-c"].map(str::to_owned).to_vec(),
        ..Default::default()
    });
    spec.argv.push(format!("{own} && {open}"));
    let how = run_in(&administrator, among_node_users(None), spec).await;
    assert_eq!(how.unwrap(), WELL, "the control: without rules it works");
}

#[tokio::test]
async fn a_device_is_given_in_users_of_the_containers_own_with_the_access_that_was_asked() {
    let Some((mut node, administrator, ann)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    let devices = |access: &str, path: &str| wire::Container {
        devices: vec![wire::Device {
            path: path.to_owned(),
            target: "/dev/own".to_owned(),
            access: access.to_owned(),
        }],
        ..container()
    };
    let run = async |container, text: &str| {
        let how = run_in(&administrator, cell_of(container), script(text)).await;
        how.map_err(|status| from_status(&status))
    };
    let both =
        "[ -c /dev/own ] && true <>/dev/own && [ \"$(busybox stat -c %u:%g /dev/own)\" = 0:0 ]";
    assert_eq!(run(devices("rw", "/dev/fuse"), both).await.unwrap(), WELL);
    let reads = "true </dev/own && ! true >/dev/own";
    assert_eq!(run(devices("r", "/dev/fuse"), reads).await.unwrap(), WELL);
    for wrong in ["/etc/passwd", "/dev/nosuch"] {
        let error = run(devices("r", wrong), "true").await.unwrap_err();
        let field = "own_cell.container.devices[0].path";
        assert_eq!(error.field.as_deref(), Some(field), "{error:?}");
    }
    // Not for members, whatever the device.
    let refusal = run_in(&ann, cell_of(devices("r", "/dev/fuse")), script("true")).await;
    let error = from_status(&refusal.unwrap_err());
    assert_eq!(error.reason, Some(Reason::PermissionDenied), "{error:?}");
    assert_eq!(error.field.as_deref(), Some("own_cell.container.devices"));
    // The rules stay with the group, whoever watches over it; nothing is said where they are there.
    start(&administrator, script("busybox sleep 1000")).await;
    node.kill_daemon();
    let administrator = node.administrator().await;
    let get = wire::GetRequest { r#ref: at("box") };
    let found = administrator.node.runtime().get(get).await.unwrap();
    let Some(wire::object::Object::Cell(cell)) = found.into_inner().object else {
        panic!("no cell");
    };
    assert_eq!(cell.conditions, Vec::new());
    drop(node);
}

/// By the Container Device Interface.
#[tokio::test]
async fn a_device_with_a_name_is_what_its_file_says() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data"), "of the node").unwrap();
    let spec = serde_json::json!({
        "cdiVersion": "0.6.0", "kind": "example.com/disk",
        "containerEdits": {"env": ["DISK=own", "A=device"]},
        "devices": [
            {"name": "own", "containerEdits": {
                "deviceNodes": [{"path": "/dev/own", "hostPath": "/dev/fuse", "permissions": "rw"}],
                "mounts": [{"hostPath": folder.path(), "containerPath": "/opt/disk",
                            "options": ["ro", "bind"]}]}},
            {"name": "hooked", "containerEdits": {
                "hooks": [{"hookName": "someday", "path": "/bin/true"}]}}],
    });
    std::fs::write(folder.path().join("disk.json"), spec.to_string()).unwrap();
    let cdi = format!("runtime.cdi=[{:?}]", folder.path());
    let Some(mut node) = TestNode::start_with(&["cell_network.enabled=false", &cdi]) else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    with_image(&administrator).await;
    with_image(&ann).await;
    let named = |name: &str| wire::Container {
        devices: vec![wire::Device {
            path: format!("example.com/disk={name}"),
            ..Default::default()
        }],
        ..container()
    };
    // A shell's `<>` makes a file where there is none.
    let text = "[ -c /dev/own ] && true <>/dev/own && [ $DISK$A = owndevice ] && \
                [ \"$(busybox cat /opt/disk/data)\" = \"of the node\" ] && \
                ! busybox touch /opt/disk/new && [ ! -e /dev/kmsg ]";
    let how = run_in(&administrator, cell_of(named("own")), script(text)).await;
    assert_eq!(how.unwrap(), WELL);
    for (name, word) in [("hooked", "someday"), ("none", "no file")] {
        let refusal = run_in(&administrator, cell_of(named(name)), script("true")).await;
        let error = from_status(&refusal.unwrap_err());
        let field = "own_cell.container.devices[0].path";
        assert_eq!(error.field.as_deref(), Some(field), "{error:?}");
        assert!(error.message.contains(word), "{error:?}");
    }
    let refusal = run_in(&ann, cell_of(named("own")), script("true")).await;
    let error = from_status(&refusal.unwrap_err());
    assert_eq!(error.reason, Some(Reason::PermissionDenied), "{error:?}");
    // What it brought stays, whatever becomes of the daemon and of the file.
    let mut started = request("box/main", script("busybox sleep 1000"));
    started.own_cell = Some(cell_of(named("own")));
    started.wait_for = wire::WaitFor::Started.into();
    let mut runtime = administrator.node.runtime();
    runtime.run_executable(started).await.unwrap();
    std::fs::remove_file(folder.path().join("disk.json")).unwrap();
    node.kill_daemon();
    let administrator = node.administrator().await;
    let how = beside(
        &administrator,
        "[ $DISK = own ] && [ -c /dev/own ] && true <>/dev/own",
    )
    .await;
    assert_eq!(how, WELL);
    drop(node);
}

/// What the rules of the container around refuse can't be given in it.
#[tokio::test]
async fn a_device_of_a_nested_container_is_one_of_the_container_around() {
    let Some((_node, administrator, _)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    let fuse = || {
        vec![wire::Device {
            path: "/dev/fuse".to_owned(),
            ..Default::default()
        }]
    };
    let cell = |path: &str, container| wire::RunCellRequest {
        cell: Some(wire::Cell {
            r#ref: at(path),
            spec: Some(cell_of(container)),
            ..Default::default()
        }),
        ..Default::default()
    };
    let inner = wire::Container {
        devices: fuse(),
        ..container()
    };
    let mut runtime = administrator.node.runtime();
    for (path, devices) in [("without", Vec::new()), ("with", fuse())] {
        let around = wire::Container {
            devices,
            ..Default::default()
        };
        runtime.run_cell(cell(path, around)).await.unwrap();
        let nested = cell(&format!("{path}/in"), inner.clone());
        let made = runtime.run_cell(nested).await;
        if path == "without" {
            let (_, message) = refused(&made.unwrap_err());
            let said = "/dev/fuse isn't a device of the container without";
            assert!(message.contains(said), "{message}");
            continue;
        }
        made.unwrap();
        let opens = request("with/in/main", script("true <>/dev/fuse"));
        let ended = runtime.run_executable(opens).await.unwrap().into_inner();
        assert_eq!(ended.exit.unwrap().how.unwrap(), WELL);
    }
}

/// A program of 32-bit x86 that ends with status 7: `exit(7)` by `int 0x80`.
fn program_of_32_bits() -> Vec<u8> {
    let code = [0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80];
    let (at, header, entry) = (0x0804_8000_u32, 52_u32, 32_u32);
    let size = header + entry + code.len() as u32;
    let mut elf = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let halves = |list: &[u16], elf: &mut Vec<u8>| {
        list.iter().for_each(|half| elf.extend(half.to_le_bytes()));
    };
    let words = |list: &[u32], elf: &mut Vec<u8>| {
        list.iter().for_each(|word| elf.extend(word.to_le_bytes()));
    };
    halves(&[2, 3], &mut elf);
    words(&[1, at + header + entry, header, 0, 0], &mut elf);
    halves(&[52, 32, 1, 0, 0, 0], &mut elf);
    words(&[1, 0, at, at, size, size, 5, 0x1000], &mut elf);
    elf.extend(code);
    elf
}

#[tokio::test]
async fn a_filter_in_dockers_form_decides_by_arguments_and_by_architecture() {
    let Some((node, administrator, ann)) = cast().await else {
        return;
    };
    let mut files = layer();
    // Without the two empty blocks at its end.
    files.truncate(files.len() - 1024);
    let mut more = tar::Builder::new(files);
    let mut header = tar::Header::new_gnu();
    let old = program_of_32_bits();
    header.set_mode(0o755);
    header.set_size(old.len() as u64);
    more.append_data(&mut header, "old", &old[..]).unwrap();
    let layers = [more.into_inner().unwrap()];
    for person in [&administrator, &ann] {
        import(person, &archive(BOX, &layers)).await.unwrap();
    }
    let run = async |person: &Person, seccomp, entrypoint: Option<&str>, text: &str| {
        let mut spec = script(text);
        spec.seccomp = seccomp;
        if let Some(program) = entrypoint {
            spec.entrypoint = vec![program.to_owned()];
            spec.argv = Vec::new();
        }
        let how = run_in(person, cell_of(container()), spec).await;
        how.map_err(|status| from_status(&status))
    };
    let by_argument = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["kill"],
        "action":"SCMP_ACT_ERRNO","errnoRet":95,
        "args":[{"index":1,"value":10,"op":"SCMP_CMP_EQ"}]}]}"#;
    let signals = "busybox sleep 100 & busybox kill -0 $! && ! busybox kill -10 $! && \
                   busybox kill -9 $!";
    let how = run(&administrator, custom(by_argument), None, signals).await;
    assert_eq!(how.unwrap(), WELL);
    let how = run(&administrator, None, None, signals).await.unwrap();
    assert_ne!(how, WELL, "the control: by itself the signal arrives");
    // 32-bit calls end a program, unless the profile is for them.
    let old_file = node.folder().join("old");
    std::fs::write(&old_file, program_of_32_bits()).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&old_file, mode).unwrap();
    match std::process::Command::new(&old_file).status() {
        Ok(status) if status.code() == Some(7) => {
            let how = run(&administrator, None, Some("/old"), "").await.unwrap();
            assert_eq!(how, wire::exit::How::Signal(31));
            let both = r#"{"defaultAction":"SCMP_ACT_ALLOW","archMap":[
                {"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86"]}]}"#;
            let how = run(&administrator, custom(both), Some("/old"), "").await;
            assert_eq!(how.unwrap(), wire::exit::How::Code(7));
        }
        // The control says that there are no 32-bit programs on this kernel.
        other => testkit::skip(&format!("no 32-bit programs here: {other:?}")),
    }
    a_filter_of_a_tenant_names_what_it_allows(&ann, &run).await;
}

async fn a_filter_of_a_tenant_names_what_it_allows(
    ann: &Person,
    run: &impl AsyncFn(
        &Person,
        Option<wire::Seccomp>,
        Option<&str>,
        &str,
    ) -> Result<wire::exit::How, api::status::Failure>,
) {
    use kernel::seccomp::Arch;
    let numbers = Arch::NATIVE.numbers();
    let names: Vec<_> = numbers
        .iter()
        .filter_map(|n| Arch::NATIVE.name(*n))
        .collect();
    let names: Vec<_> = names.into_iter().filter(|name| *name != "mkdir").collect();
    let listed = serde_json::json!({
        "defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1,
        "syscalls": [
            { "names": names, "action": "SCMP_ACT_ALLOW" },
            { "names": ["mkdir"], "action": "SCMP_ACT_ALLOW", "includes": { "caps": ["CAP_BPF"] } }
        ]
    });
    let how = run(ann, custom(&listed.to_string()), None, "! busybox mkdir /x").await;
    assert_eq!(how.unwrap(), WELL);
    let open = custom(r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#);
    let unconfined = with_everything(wire::ExecutableSpec::default()).seccomp;
    for (seccomp, field) in [(open, "custom"), (unconfined, "profile")] {
        let error = run(ann, seccomp, None, "true").await.unwrap_err();
        let field = format!("executable.spec.seccomp.{field}");
        assert_eq!(error.reason, Some(Reason::PermissionDenied), "{error:?}");
        assert_eq!(error.field, Some(field));
    }
    let beside_others = wire::Seccomp {
        custom: listed.to_string(),
        deny: vec!["mount".to_owned()],
        ..Default::default()
    };
    let error = run(ann, Some(beside_others), None, "true")
        .await
        .unwrap_err();
    assert_eq!(
        error.field.as_deref(),
        Some("executable.spec.seccomp.custom")
    );
}

#[tokio::test]
async fn parameters_are_those_of_the_cells_own_namespaces() {
    let Some((_node, _, ann)) = cast().await else {
        return;
    };
    let read = || std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let before = read();
    let cell = |name: &str, value: &str| wire::CellSpec {
        sysctls: [(name.to_owned(), value.to_owned())].into(),
        ..cell_of(container())
    };
    let shown = "[ $(busybox cat /proc/sys/net/core/somaxconn) = 1234 ]";
    let how = run_in(&ann, cell("net.core.somaxconn", "1234"), script(shown)).await;
    assert_eq!(how.unwrap(), WELL);
    let how = run_in(&ann, cell_of(container()), script(&format!("! {shown}"))).await;
    assert_eq!(how.unwrap(), WELL, "the control: it isn't so by itself");
    assert_eq!(read(), before);
    for (name, value) in [
        ("kernel.core_pattern", "|/x"),
        ("vm.swappiness", "1"),
        ("net.core.nosuch", "1"),
        ("net.core.somaxconn", "moon"),
    ] {
        let refusal = run_in(&ann, cell(name, value), script("true")).await;
        let error = from_status(&refusal.unwrap_err());
        let field = error.field.clone().unwrap_or_default();
        assert!(field.starts_with("own_cell.sysctls"), "{name}: {error:?}");
    }
    // The cell around it has no part in it.
    let shared = wire::CellSpec {
        share: vec![wire::Namespace::Net.into()],
        ..cell("net.core.somaxconn", "1234")
    };
    start(&ann, script("busybox sleep 1000")).await;
    let nested = wire::RunCellRequest {
        cell: Some(wire::Cell {
            r#ref: at("box/in"),
            spec: Some(shared),
            ..Default::default()
        }),
        ..Default::default()
    };
    let refusal = ann.node.runtime().run_cell(nested).await.unwrap_err();
    let (reason, message) = refused(&refusal);
    assert_eq!(reason, Some(Reason::InvalidField), "{message}");
    assert!(message.contains("shares"), "{message}");
}

#[tokio::test]
async fn paths_are_masked_and_read_only_where_it_was_asked_for() {
    let Some((_node, administrator, ann)) = cast().await else {
        return;
    };
    let hidden = wire::Container {
        masked_paths: ["/etc", "/srv", "/proc/uptime", "/nosuch"]
            .map(str::to_owned)
            .to_vec(),
        read_only_paths: vec!["/tmp".to_owned()],
        ..container()
    };
    let text = "[ ! -e /etc/passwd ] && [ -z \"$(busybox ls /srv)\" ] && ! echo x > /srv/x && \
                [ -z \"$(busybox cat /proc/uptime)\" ] && ! echo x > /tmp/x && echo x > /x";
    let how = run_in(&ann, cell_of(hidden), script(text)).await.unwrap();
    assert_eq!(how, WELL);
    let control = "[ -s /etc/passwd ] && echo x > /srv/x && echo x > /tmp/x && \
                   [ -n \"$(busybox cat /proc/uptime)\" ] && \
                   [ -z \"$(busybox cat /proc/interrupts)\" ]";
    let how = run_in(&ann, cell_of(container()), script(control)).await;
    assert_eq!(how.unwrap(), WELL, "the control: by itself it is there");
    // All of the kernel's is for administrators.
    let unmasked = wire::Container {
        unmasked: true,
        ..container()
    };
    let refusal = run_in(&ann, cell_of(unmasked.clone()), script("true")).await;
    let error = from_status(&refusal.unwrap_err());
    assert_eq!(error.field.as_deref(), Some("own_cell.container.unmasked"));
    with_image(&administrator).await;
    let all = script("[ -n \"$(busybox cat /proc/interrupts)\" ]");
    let how = run_in(&administrator, cell_of(unmasked), all).await;
    assert_eq!(how.unwrap(), WELL);
}

/// A main process puts something in the place of what masks; the next one must not be shown that.
#[tokio::test]
async fn what_masks_is_looked_at_each_time() {
    let Some((_node, administrator, _)) = cast().await else {
        return;
    };
    with_image(&administrator).await;
    let made = wire::RunCellRequest {
        cell: Some(wire::Cell {
            r#ref: at("box"),
            spec: Some(cell_of(container())),
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut runtime = administrator.node.runtime();
    runtime.run_cell(made).await.unwrap();
    let masked = "[ -z \"$(busybox cat /proc/interrupts)\" ]";
    let first = request("box/main", with_everything(script(masked)));
    let first = runtime.run_executable(first).await.unwrap().into_inner();
    assert_eq!(first.exit.unwrap().how.unwrap(), WELL);
    let replaces = "busybox umount /dev/null; busybox rm /dev/null && \
                    busybox ln -s /proc/interrupts /dev/null && [ -L /dev/null ]";
    let second = request("box/main", with_everything(script(replaces)));
    let second = runtime.run_executable(second).await.unwrap().into_inner();
    let how = second.exit.unwrap().how.unwrap();
    assert_eq!(how, WELL, "the control: it can be replaced");
    let third = request("box/main", with_everything(script(masked)));
    let (_, message) = refused(&runtime.run_executable(third).await.unwrap_err());
    assert!(message.contains("/dev/null"), "{message}");
}

#[tokio::test]
async fn a_tmpfs_has_an_owner_and_may_forbid_programs() {
    let Some((_node, _, ann)) = cast().await else {
        return;
    };
    let cell = |no_exec: bool| wire::CellSpec {
        volumes: vec![wire::Volume {
            path: "/v".to_owned(),
            uid: Some(1000),
            gid: Some(2000),
            no_exec,
            ..Default::default()
        }],
        ..cell_of(container())
    };
    let runs = "[ \"$(busybox stat -c %u:%g /v)\" = 1000:2000 ] && \
                busybox cp /bin/busybox /v/busybox && /v/busybox true";
    let how = run_in(&ann, cell(false), script(runs)).await.unwrap();
    assert_eq!(how, WELL);
    let how = run_in(&ann, cell(true), script(&format!("! {{ {runs}; }}"))).await;
    assert_eq!(how.unwrap(), WELL);
}
