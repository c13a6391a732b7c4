// SPDX-License-Identifier: Apache-2.0
//! Cells that have namespaces of another cell: what they share with it and what they may do there,
//! whose can't be had, and what stays when one of the two ends.

use api::identity::v0 as identity;
use api::runtime::v0 as wire;
use api::status::{Failure, Reason, from_status};
use wire::Namespace::{Ipc, Net, Pid, Uts};

use crate::caller::Person;
use crate::containers::{WELL, at, cast, cell_of, container, request, script};
use crate::pods::until_logged;
use crate::requests::shared_cell;

fn joins(kinds: &[wire::Namespace], cell: &str) -> wire::CellSpec {
    let join = |kind: &wire::Namespace| wire::Join {
        namespace: (*kind).into(),
        cell: cell.to_owned(),
    };
    wire::CellSpec {
        join: kinds.iter().map(join).collect(),
        ..cell_of(container())
    }
}

/// One whose programs have a name of their own for a host.
fn named() -> wire::CellSpec {
    let alias = wire::HostAlias {
        address: "192.0.2.9".to_owned(),
        names: vec!["kept.by.box".to_owned()],
    };
    wire::CellSpec {
        network: Some(wire::Network {
            hosts: vec![alias],
            ..Default::default()
        }),
        ..cell_of(container())
    }
}

async fn begin(
    person: &Person,
    path: &str,
    cell: wire::CellSpec,
    spec: wire::ExecutableSpec,
) -> Result<(), Failure> {
    let mut asked = request(path, spec);
    asked.own_cell = Some(cell);
    asked.wait_for = wire::WaitFor::Started.into();
    let begun = person.node.runtime().run_executable(asked).await;
    begun.map(drop).map_err(|status| from_status(&status))
}

async fn exits(
    person: &Person,
    path: &str,
    cell: Option<wire::CellSpec>,
    spec: wire::ExecutableSpec,
) -> wire::exit::How {
    let mut asked = request(path, spec);
    asked.own_cell = cell;
    let ended = person.node.runtime().run_executable(asked).await;
    ended.unwrap().into_inner().exit.unwrap().how.unwrap()
}

/// Serves a word, and says which namespaces it has.
fn serves() -> wire::ExecutableSpec {
    script(
        "echo word > /tmp/word; busybox httpd -p 127.0.0.1:8080 -h /tmp; \
         for it in net ipc uts pid; do busybox readlink /proc/self/ns/$it; done > /tmp/spaces; \
         busybox httpd -p 127.0.0.1:8081 -h /tmp; while :; do busybox sleep 0.1; done",
    )
}

/// With all rights that a member may ask for: over what is another cell's they are none.
fn with_rights(text: &str) -> wire::ExecutableSpec {
    wire::ExecutableSpec {
        capabilities: Some(wire::Capabilities {
            bounding: ["SYS_ADMIN", "NET_ADMIN"].map(str::to_owned).to_vec(),
            ambient: Vec::new(),
        }),
        ..script(text)
    }
}

const LOOKS: &str = "until busybox wget -qO /tmp/theirs http://127.0.0.1:8081/spaces 2>/dev/null; \
    do busybox sleep 0.1; done
    [ \"$(busybox wget -qO- http://127.0.0.1:8080/word)\" = word ] || exit 2
    for it in net ipc uts pid; do busybox readlink /proc/self/ns/$it; done > /tmp/ours
    busybox grep -v pid /tmp/theirs > /tmp/a; busybox grep -v pid /tmp/ours > /tmp/b
    busybox cmp /tmp/a /tmp/b || exit 3
    busybox cmp -s /tmp/theirs /tmp/ours && exit 4
    [ \"$(busybox hostname)\" = box ] || exit 5
    busybox grep -q 'kept.by.box$' /etc/hosts || exit 6
    [ -e /sys/class/net/lo ] || exit 7
    busybox ip link set lo down 2>/dev/null && exit 8
    busybox hostname evil 2>/dev/null && exit 9
    busybox ip link add x type dummy 2>/dev/null && exit 10
    [ -e /tmp/word ] && exit 11
    exit 0";

#[tokio::test]
async fn a_cell_has_what_it_joins_and_no_rights_over_it() {
    let Some((mut node, _, ann)) = cast().await else {
        return;
    };
    begin(&ann, "box/main", named(), serves()).await.unwrap();
    let all = [Net, Ipc, Uts];
    let near = Some(joins(&all, "box"));
    assert_eq!(
        exits(&ann, "near/main", near, with_rights(LOOKS)).await,
        WELL
    );
    // From within another cell as well, of whose users it is.
    let outer = wire::RunCellRequest {
        cell: Some(wire::Cell {
            r#ref: at("outer"),
            spec: Some(cell_of(container())),
            ..Default::default()
        }),
        ..Default::default()
    };
    ann.node.runtime().run_cell(outer).await.unwrap();
    let near = Some(joins(&all, "box"));
    let within = exits(&ann, "outer/near/main", near, with_rights(LOOKS)).await;
    assert_eq!(within, WELL);
    // It stays so for the next daemon, and where the other cell ends.
    let stays = "echo up; while ! [ -e /tmp/go ]; do busybox sleep 0.1; done; \
        busybox wget -qO- http://127.0.0.1:8080/word 2>/dev/null; busybox ip link show lo | busybox grep -c UP";
    begin(&ann, "stays/main", joins(&[Net], "box"), script(stays))
        .await
        .unwrap();
    until_logged(&ann, "stays/main", "up\n").await;
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    let touch = wire::ExecutableSpec {
        argv: ["/bin/busybox", "touch", "/tmp/go"]
            .map(str::to_owned)
            .to_vec(),
        ..Default::default()
    };
    let stop = wire::StopRequest {
        r#ref: at("box"),
        grace: Some(prost_types::Duration::default()),
    };
    ann.node.runtime().stop(stop).await.unwrap();
    assert_eq!(exits(&ann, "stays/touch", None, touch).await, WELL);
    // Nothing serves there any more, and its loopback is there.
    until_logged(&ann, "stays/main", "up\n1\n").await;
}

#[tokio::test]
async fn whose_namespaces_cant_be_had_is_refused_by_field() {
    let Some((node, administrator, ann)) = cast().await else {
        return;
    };
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    begin(&ann, "box/main", cell_of(container()), serves())
        .await
        .unwrap();
    begin(&ann, "third/main", joins(&[Net], "box"), serves())
        .await
        .unwrap();
    let mut runtime = administrator.node.runtime();
    // A cell of the tenant's that an administrator has put among the node's namespaces.
    runtime.run_cell(shared_cell("shared")).await.unwrap();
    let asks = async |person: &Person, spec| {
        let refused = begin(person, "near/main", spec, script("exit 0")).await;
        let why = refused.unwrap_err();
        (why.reason, why.field.clone().unwrap_or_default(), why)
    };
    let net = "own_cell.join[net]";
    let (reason, field, _) = asks(&ann, joins(&[Net], "shared")).await;
    assert_eq!((reason, field.as_str()), (Some(Reason::InvalidField), net));
    let (reason, field, why) = asks(&ann, joins(&[Net], "third")).await;
    assert_eq!((reason, field.as_str()), (Some(Reason::InvalidField), net));
    assert!(why.message.contains("name that cell"), "{why:?}");
    let (reason, field, _) = asks(&ann, joins(&[Net], "none")).await;
    assert_eq!((reason, field.as_str()), (Some(Reason::NotFound), net));
    // Another tenant's has no name here.
    let (reason, ..) = asks(&eve, joins(&[Net], "box")).await;
    assert_eq!(reason, Some(Reason::NotFound));
    let (reason, field, _) = asks(&ann, joins(&[Pid], "box")).await;
    let pid = "own_cell.join[pid]";
    assert_eq!((reason, field.as_str()), (Some(Reason::InvalidField), pid));
    let mut twice = joins(&[Net], "box");
    twice.share = vec![Net.into()];
    let (reason, ..) = asks(&ann, twice).await;
    assert_eq!(reason, Some(Reason::InvalidField));
    // Below a cell that is to have no network.
    let none = wire::Network {
        mode: wire::network::Mode::None.into(),
        ..Default::default()
    };
    let jail = wire::RunCellRequest {
        cell: Some(wire::Cell {
            r#ref: at("jail"),
            spec: Some(wire::CellSpec {
                network: Some(none),
                ..cell_of(container())
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    ann.node.runtime().run_cell(jail).await.unwrap();
    let below = begin(&ann, "jail/x/main", joins(&[Net], "box"), script("exit 0"));
    let why = below.await.unwrap_err();
    assert_eq!(why.reason, Some(Reason::PermissionDenied), "{why:?}");
    assert_eq!(why.field.as_deref(), Some(net));
    // Who may run nothing there has nothing of it.
    let deny = identity::DenyRequest {
        tenant: "acme".to_owned(),
        user: "ann".to_owned(),
        action: "runtime.RunCell".to_owned(),
        path: "box".to_owned(),
        ..Default::default()
    };
    administrator.deny(deny).await;
    let (reason, ..) = asks(&ann, joins(&[Net], "box")).await;
    assert_eq!(reason, Some(Reason::PermissionDenied));
}
