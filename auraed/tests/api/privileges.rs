// SPDX-License-Identifier: Apache-2.0
//! What reaches out of a tenant's own cells, field by field: refused to its members by name,
//! whatever method it comes with, and open to administrators.

use api::runtime::v0 as wire;
use api::runtime::v0::Namespace;
use api::status::{Reason, from_status};
use tonic::{Code, Status};

use crate::caller::Person;
use crate::containers::{cast, script, start, with_image};
use crate::node::TestNode;
use crate::requests::{cell, executable};
use crate::table::Whom::{Administrator, Owner};
use crate::table::at;

/// A field, and a cell that has it.
struct Row {
    field: &'static str,
    spec: fn() -> wire::CellSpec,
}

fn sharing(namespace: Namespace) -> wire::CellSpec {
    wire::CellSpec {
        share: vec![namespace.into()],
        ..Default::default()
    }
}

fn mounting(access: wire::mount::Access) -> wire::CellSpec {
    let mount = wire::Mount {
        source: "/usr".to_owned(),
        target: "/tmp/usr".to_owned(),
        access: access.into(),
        owner_uid: (access == wire::mount::Access::Write).then_some(4242),
        ..Default::default()
    };
    wire::CellSpec {
        mounts: vec![mount],
        ..Default::default()
    }
}

fn container(container: wire::Container) -> wire::CellSpec {
    wire::CellSpec {
        container: Some(wire::Container {
            image: "nosuch".to_owned(),
            pull: wire::container::Pull::Never.into(),
            ..container
        }),
        ..Default::default()
    }
}

const SHARE: &str = "cell.spec.share";
const MOUNTS: &str = "cell.spec.mounts";
const DEVICES: &str = "cell.spec.container.devices";
const FILE_LABEL: &str = "cell.spec.container.selinux_file_label";
const LABEL: &str = "executable.spec.selinux_label";
const UNMASKED: &str = "cell.spec.container.unmasked";

const CELLS: &[Row] = &[
    row(SHARE, || sharing(Namespace::User)),
    row(SHARE, || sharing(Namespace::Mount)),
    row(SHARE, || sharing(Namespace::Pid)),
    row(SHARE, || sharing(Namespace::Net)),
    row(SHARE, || sharing(Namespace::Ipc)),
    row(SHARE, || sharing(Namespace::Uts)),
    row(SHARE, || sharing(Namespace::Cgroup)),
    row(MOUNTS, || mounting(wire::mount::Access::Read)),
    row(MOUNTS, || mounting(wire::mount::Access::Write)),
    row(DEVICES, || {
        container(wire::Container {
            devices: vec![wire::Device {
                path: "/dev/fuse".to_owned(),
                ..Default::default()
            }],
            ..Default::default()
        })
    }),
    row(FILE_LABEL, || {
        container(wire::Container {
            selinux_file_label: "u:object_r:web_file_t:s0".to_owned(),
            ..Default::default()
        })
    }),
    row(UNMASKED, || {
        container(wire::Container {
            unmasked: true,
            ..Default::default()
        })
    }),
];

const fn row(field: &'static str, spec: fn() -> wire::CellSpec) -> Row {
    Row { field, spec }
}

fn program(oom_score_adj: Option<i32>) -> wire::ExecutableSpec {
    wire::ExecutableSpec {
        argv: vec!["/bin/true".to_owned()],
        oom_score_adj,
        ..Default::default()
    }
}

fn assert_refused(what: &str, field: &str, status: Status) {
    let refused = from_status(&status);
    assert_eq!(refused.code, Code::PermissionDenied, "{what}: {refused:?}");
    assert_eq!(refused.reason, Some(Reason::PermissionDenied), "{what}");
    assert_eq!(refused.field.as_deref(), Some(field), "{what}");
    assert!(refused.message.contains("administrators"), "{refused:?}");
}

/// Nothing runs without the label that it asks for. Where there is SELinux, a story tells the rest.
async fn a_label_needs_selinux(administrator: &Person, spec: wire::ExecutableSpec) {
    let systems = std::fs::read_to_string("/proc/filesystems").unwrap();
    if systems.contains("selinuxfs") {
        return;
    }
    let mut run = executable("web/labelled", spec);
    if let Some(executable) = &mut run.executable {
        executable.r#ref = at(Administrator, "web/labelled");
    }
    let refused = administrator.node.runtime().run_executable(run).await;
    let refused = from_status(&refused.unwrap_err());
    assert_eq!(refused.reason, Some(Reason::Unsupported), "{refused:?}");
    assert_eq!(refused.field.as_deref(), Some(LABEL), "{refused:?}");
}

/// The three ways to a cell: made, made with an executable, changed.
async fn a_member_is_refused(ann: &Person, row: &Row) {
    let mut runtime = ann.node.runtime();
    let made = runtime.run_cell(cell(Owner, "new", (row.spec)())).await;
    assert_refused("RunCell", row.field, made.unwrap_err());
    let mut with_cell = executable("own/main", program(None));
    with_cell.own_cell = Some((row.spec)());
    let run = runtime.run_executable(with_cell).await;
    let field = row.field.replacen("cell.spec", "own_cell", 1);
    assert_refused("RunExecutable", &field, run.unwrap_err());
    if row.field != MOUNTS {
        return;
    }
    let change = wire::UpdateCellRequest {
        r#ref: at(Owner, "web"),
        spec: Some((row.spec)()),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["spec.mounts".to_owned()],
        }),
        ..Default::default()
    };
    let changed = runtime.update_cell(change).await;
    assert_refused("UpdateCell", row.field, changed.unwrap_err());
}

#[tokio::test]
async fn what_reaches_out_of_a_cell_is_for_administrators_field_by_field() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let mut runtime = ann.node.runtime();
    let web = cell(Owner, "web", wire::CellSpec::default());
    runtime.run_cell(web).await.unwrap();
    for row in CELLS {
        a_member_is_refused(&ann, row).await;
    }
    let protected = executable("web/a", program(Some(-1)));
    let refused = runtime.run_executable(protected).await.unwrap_err();
    assert_refused("oom", "executable.spec.oom_score_adj", refused);
    let seccomp = |profile: wire::seccomp::Profile, custom: &str| wire::ExecutableSpec {
        seccomp: Some(wire::Seccomp {
            profile: profile.into(),
            custom: custom.to_owned(),
            ..Default::default()
        }),
        ..program(None)
    };
    let open = r#"{"defaultAction":"SCMP_ACT_LOG"}"#;
    for (spec, field) in [
        (seccomp(wire::seccomp::Profile::Unconfined, ""), "profile"),
        (seccomp(wire::seccomp::Profile::Unspecified, open), "custom"),
    ] {
        let refused = runtime.run_executable(executable("web/a", spec)).await;
        let field = format!("executable.spec.seccomp.{field}");
        assert_refused("seccomp", &field, refused.unwrap_err());
    }
    let labelled = || wire::ExecutableSpec {
        selinux_label: "u:r:web_t:s0".to_owned(),
        ..program(None)
    };
    let refused = runtime
        .run_executable(executable("web/a", labelled()))
        .await;
    assert_refused("label", LABEL, refused.unwrap_err());
    // Nothing of all that is there, and what is the tenant's own is not refused.
    let listed = runtime.list(wire::ListRequest::default()).await.unwrap();
    assert_eq!(listed.into_inner().objects.len(), 1);
    let harmless = executable("web/a", program(Some(1)));
    runtime.run_executable(harmless).await.unwrap();
    let nested = cell(Owner, "web/in", sharing(Namespace::Net));
    runtime.run_cell(nested).await.unwrap();

    // The administrator may, in the tenant as well.
    let mut runtime = administrator.node.runtime();
    for (n, row) in CELLS.iter().enumerate() {
        let path = format!("a{n}");
        let made = runtime.run_cell(cell(Administrator, &path, (row.spec)()));
        match made.await {
            Ok(_) => {}
            // By the kernel and the file system, not by who asks.
            Err(status) => assert_ne!(status.code(), Code::PermissionDenied, "{status}"),
        }
    }
    a_label_needs_selinux(&administrator, labelled()).await;
    let all = wire::RemoveRequest {
        recursive: true,
        force: true,
        ..Default::default()
    };
    let made = (0..CELLS.len()).map(|n| format!("a{n}"));
    for path in std::iter::once("web".to_owned()).chain(made) {
        let gone = wire::RemoveRequest {
            r#ref: at(Administrator, &path),
            ..all.clone()
        };
        let _some_were_not_made = runtime.remove(gone).await;
    }
    node.stop();
}

#[tokio::test]
async fn a_plain_member_of_the_nodes_tenant_runs_nothing_in_its_shared_cell() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let at = |path: &str| {
        Some(wire::ObjectRef {
            tenant: "system".to_owned(),
            path: path.to_owned(),
            ..Default::default()
        })
    };
    let run = |path: &str| {
        let mut request = executable(path, program(None));
        if let Some(executable) = &mut request.executable {
            executable.r#ref = at(path);
        }
        request
    };
    let mut shared = crate::requests::shared_cell("system");
    if let Some(cell) = &mut shared.cell {
        cell.r#ref = at("system");
    }
    let mut by_administrator = administrator.node.runtime();
    by_administrator.run_cell(shared).await.unwrap();
    let eve = administrator.introduce(&node, "system", "eve", None).await;
    let mut by_eve = eve.node.runtime();
    let refused = by_eve.run_executable(run("system/a")).await.unwrap_err();
    assert_refused("RunExecutable", "ref.path", refused);
    let mut below = cell(Owner, "system/in", wire::CellSpec::default());
    if let Some(cell) = &mut below.cell {
        cell.r#ref = at("system/in");
    }
    let refused = by_eve.run_cell(below).await.unwrap_err();
    assert_refused("RunCell", "ref.path", refused);
    let stop = wire::StopRequest {
        r#ref: at("system"),
        ..Default::default()
    };
    let refused = by_eve.stop(stop.clone()).await.unwrap_err();
    assert_refused("Stop", "ref.path", refused);
    by_administrator
        .run_executable(run("system/a"))
        .await
        .unwrap();
    by_administrator.stop(stop).await.unwrap();
    node.stop();
}

/// Programs whose ids a container has may set set-id bits, and the node's own root may do anything:
/// a folder of the node is written from neither.
#[tokio::test]
async fn what_shares_ids_with_the_node_or_a_container_writes_no_folder_of_the_node() {
    let Some((node, administrator, _)) = cast().await else {
        return;
    };
    let nina = administrator.introduce_administrator(&node, "nina").await;
    with_image(&nina).await;
    start(&nina, script("busybox sleep 1000")).await;
    let run = async |path: &str, spec: wire::CellSpec| {
        let request = wire::RunCellRequest {
            cell: Some(wire::Cell {
                r#ref: crate::containers::at(path),
                spec: Some(spec),
                ..Default::default()
            }),
            ..Default::default()
        };
        nina.node.runtime().run_cell(request).await
    };
    let writing = || mounting(wire::mount::Access::Write);
    let among = || wire::CellSpec {
        share: vec![Namespace::User.into()],
        ..writing()
    };
    // What the node mounts there later may be written, whatever the mount is.
    let following = |mut spec: wire::CellSpec| {
        spec.mounts[0].access = wire::mount::Access::Read.into();
        spec.mounts[0].owner_uid = None;
        spec.mounts[0].propagation = wire::mount::Propagation::Rslave.into();
        spec
    };
    for (path, spec, by) in [
        ("own", among(), "access"),
        ("box/in", among(), "access"),
        ("box/in", writing(), "access"),
        ("own", following(among()), "propagation"),
        ("box/in", following(writing()), "propagation"),
    ] {
        let error = from_status(&run(path, spec).await.unwrap_err());
        let field = format!("cell.spec.mounts[0].{by}");
        assert_eq!(error.field.as_deref(), Some(&*field), "{path}: {error:?}");
    }
    // The control: what is refused is the two together.
    run("own", writing()).await.unwrap();
    run("own/in", among()).await.unwrap();
}
