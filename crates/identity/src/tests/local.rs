// SPDX-License-Identifier: Apache-2.0
//! Callers by a socket of the machine's own.

use super::*;

fn process(uid: u32) -> SocketCredentials {
    SocketCredentials { uid, pid: 77 }
}

#[tokio::test]
async fn a_local_caller_is_root_or_a_reader_and_on_record() {
    let world = World::new().await;
    let ask = async |uid, action: &'static str| {
        let permit = world
            .identity
            .local_permit(process(uid), action, "a.service", "a socket");
        permit.await
    };
    for action in ["runtime.Run", "runtime.Get", "identity.CreateUser"] {
        ask(0, action).await.unwrap();
    }
    ask(1000, "runtime.Get").await.unwrap();
    for action in ["runtime.Run", "identity.CreateUser"] {
        let denied = ask(1000, action).await.unwrap_err();
        assert!(matches!(denied, Denied::Forbidden { .. }), "{denied}");
    }
    assert!(matches!(ask(0, "x.Y").await, Err(Denied::Defect(_))));
    let permit = world.permit("identity.Audit", Target::own()).await;
    let page = world.identity.read_audit(permit, Filter::default()).await;
    let page = page.unwrap();
    let seen: Vec<_> = page
        .lines
        .iter()
        .filter(|(it, _)| it.actor.starts_with("uid:"))
        .map(|(it, _)| (it.uid, it.action.as_str(), it.allowed))
        .collect();
    let wanted = [
        (Some(0), "runtime.Run", true),
        (Some(0), "runtime.Get", true),
        (Some(0), "identity.CreateUser", true),
        (Some(1000), "runtime.Get", true),
        (Some(1000), "runtime.Run", false),
        (Some(1000), "identity.CreateUser", false),
    ];
    assert_eq!(seen, wanted);
    let first = page
        .lines
        .iter()
        .find(|(it, _)| it.uid == Some(1000))
        .unwrap();
    assert_eq!(
        (first.0.about.as_str(), first.0.note.as_str()),
        ("a.service", "pid 77, by a socket")
    );
}
