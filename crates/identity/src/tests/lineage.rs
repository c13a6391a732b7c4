// SPDX-License-Identifier: Apache-2.0
//! Certificates have a lineage: what descends from a revoked one is revoked with it, also after the
//! database was lost. Users are enabled again; an administrator is disabled while another is left.

use super::*;

/// A certificate that `peer` renews for itself.
async fn renewed(identity: &Identity, peer: &Peer) -> Peer {
    let permit = identity.authorize(peer, "identity.Renew", Target::own());
    let permit = permit.await.unwrap();
    let issued = identity.renew(permit, &csr(), None).await.unwrap();
    identity
        .peer(&der(&issued.certificate_pem), NOBODY)
        .unwrap()
}

fn of(tenant_name: &str) -> Target {
    Target::of(Some(tenant(tenant_name)), None)
}

fn lose_the_database(dir: &Path) {
    for name in ["aurae.db", "aurae.db-wal", "aurae.db-shm"] {
        let _not_each_is_there = std::fs::remove_file(dir.join(name));
    }
}

fn is_revoked(identity: &Identity, peer: &Peer) -> bool {
    matches!(identity.check(peer), Err(Unauthenticated::Revoked { .. }))
}

#[tokio::test]
async fn what_descends_from_a_revoked_certificate_is_revoked_with_it() {
    let world = World::new().await;
    let identity = &world.identity;
    // The thief renews, twice; the owner once, from the same certificate.
    let first = renewed(identity, &world.ann).await;
    let second = renewed(identity, &first).await;
    let beside = renewed(identity, &world.ann).await;
    let permit = world.permit("identity.ListCertificates", of("a")).await;
    let listed = identity.certificates(permit, "ann".parse().unwrap()).await;
    let listed = listed.unwrap();
    let parent = |peer: &Peer| {
        let view = listed.iter().find(|view| view.serial == peer.serial());
        view.unwrap().parent.clone()
    };
    assert_eq!(listed.len(), 4);
    assert!(
        listed
            .iter()
            .all(|view| view.live && view.revoked.is_none())
    );
    assert_eq!(parent(&world.ann), None);
    assert_eq!(parent(&first).as_deref(), Some(world.ann.serial()));
    assert_eq!(parent(&second).as_deref(), Some(first.serial()));

    let permit = world.permit("identity.Revoke", Target::own()).await;
    let gone = identity.revoke(permit, first.serial(), "stolen").await;
    assert_eq!(gone.unwrap(), [first.serial(), second.serial()]);
    assert!(is_revoked(identity, &first) && is_revoked(identity, &second));
    identity.check(&world.ann).unwrap();
    identity.check(&beside).unwrap();
    let permit = world.permit("identity.ListCertificates", of("a")).await;
    let listed = identity.certificates(permit, "ann".parse().unwrap()).await;
    let live = listed.unwrap().iter().filter(|view| view.live).count();
    assert_eq!(live, 2);

    let permit = world.permit("identity.Audit", Target::own()).await;
    let page = identity
        .read_audit(permit, Filter::default())
        .await
        .unwrap();
    let named = page
        .lines
        .iter()
        .any(|(line, _)| line.action == "identity.Revoke" && line.note.contains(second.serial()));
    assert!(named, "the audit names what was revoked along");
}

#[tokio::test]
async fn a_lineage_outlives_the_database() {
    let world = World::new().await;
    let child = renewed(&world.identity, &world.ann).await;
    let World {
        dir,
        identity,
        admin,
        ann,
        ..
    } = world;
    drop(identity);
    for _ in 0..2 {
        lose_the_database(dir.path());
        drop(start(dir.path()).await);
    }
    let identity = start(dir.path()).await;
    let permit = identity.authorize(&admin, "identity.Revoke", Target::own());
    let permit = permit.await.unwrap();
    let gone = identity.revoke(permit, ann.serial(), "").await.unwrap();
    assert_eq!(gone, [ann.serial(), child.serial()]);
    assert!(is_revoked(&identity, &child));
}

#[tokio::test]
async fn a_user_s_certificates_up_to_a_moment_are_revoked_known_or_not() {
    let world = World::new().await;
    let identity = &world.identity;
    let known = renewed(identity, &world.ann).await;
    let name: Label = "ann".parse().unwrap();
    let permit = world.permit("identity.Revoke", of("a")).await;
    let future = now_ns() + 3_600_000_000_000;
    let error = identity
        .revoke_before(permit, name.clone(), future, "")
        .await;
    assert_eq!(error.unwrap_err().field.as_deref(), Some("before"));
    let permit = world.permit("identity.Revoke", of("a")).await;
    let gone = identity
        .revoke_before(permit, name.clone(), now_ns(), "")
        .await;
    assert_eq!(gone.unwrap().len(), 2);
    assert!(is_revoked(identity, &world.ann) && is_revoked(identity, &known));
    // What is issued from now on is good, in the same second as well.
    let permit = world.permit("identity.Issue", of("a")).await;
    let issued = identity.issue(permit, name, &csr(), None).await.unwrap();
    let new = identity
        .peer(&der(&issued.certificate_pem), NOBODY)
        .unwrap();
    identity.check(&new).unwrap();
    identity.check(&world.bob).unwrap();
    let World {
        dir, identity, ann, ..
    } = world;
    drop(identity);
    lose_the_database(dir.path());
    let identity = start(dir.path()).await;
    // By the moment alone: no row of it is needed.
    assert!(is_revoked(&identity, &ann));
}

/// Certificates count in whole seconds.
async fn next_second() {
    let second = || now_ns() / 1_000_000_000;
    let now = second();
    while second() == now {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_descends_from_a_certificate_before_the_moment_is_revoked_however_late_it_came() {
    let world = World::new().await;
    let identity = &world.identity;
    next_second().await;
    let moment = now_ns();
    next_second().await;
    let late = renewed(identity, &world.ann).await;
    let name: Label = "ann".parse().unwrap();
    let permit = world.permit("identity.Issue", of("a")).await;
    let issued = identity.issue(permit, name.clone(), &csr(), None).await;
    let independent = der(&issued.unwrap().certificate_pem);
    let independent = identity.peer(&independent, NOBODY).unwrap();
    let permit = world.permit("identity.Revoke", of("a")).await;
    let gone = identity.revoke_before(permit, name, moment, "stolen").await;
    assert_eq!(gone.unwrap(), [world.ann.serial(), late.serial()]);
    assert!(is_revoked(identity, &world.ann) && is_revoked(identity, &late));
    identity.check(&independent).unwrap();
    let permit = world.permit("identity.Audit", Target::own()).await;
    let page = identity.read_audit(permit, Filter::default()).await;
    let both = |note: &str| note.contains(world.ann.serial()) && note.contains(late.serial());
    let lines = page.unwrap().lines;
    let named = lines
        .iter()
        .any(|(line, _)| line.action == "identity.Revoke" && both(&line.note));
    assert!(named, "the audit names both: {lines:?}");
}

#[tokio::test]
async fn a_serial_that_the_node_does_not_know_is_refused() {
    let world = World::new().await;
    let permit = world.permit("identity.Revoke", Target::own()).await;
    let error = world.identity.revoke(permit, "0123456789", "").await;
    assert_eq!(error.unwrap_err().reason, Reason::NotFound);
}

#[tokio::test]
async fn a_disabled_user_is_enabled_again() {
    let world = World::new().await;
    let name: Label = "bob".parse().unwrap();
    let permit = world.permit("identity.DisableUser", of("b")).await;
    world
        .identity
        .disable_user(permit, name.clone())
        .await
        .unwrap();
    world.identity.check(&world.bob).unwrap_err();
    let permit = world.permit("identity.EnableUser", of("b")).await;
    let view = world.identity.enable_user(permit, name).await.unwrap();
    assert!(!view.disabled);
    world.identity.check(&world.bob).unwrap();
    let World {
        dir, identity, bob, ..
    } = world;
    drop(identity);
    start(dir.path()).await.check(&bob).unwrap();
}

#[tokio::test]
async fn an_administrator_is_disabled_while_another_is_left() {
    let world = World::new().await;
    let identity = &world.identity;
    let permit = world.permit("identity.CreateUser", Target::own()).await;
    let ops: Label = "ops".parse().unwrap();
    identity
        .create_user(permit, ops.clone(), true)
        .await
        .unwrap();
    let permit = world.permit("identity.CreateUser", of("a")).await;
    let elsewhere = identity.create_user(permit, ops.clone(), true).await;
    assert_eq!(
        elsewhere.unwrap_err().field.as_deref(),
        Some("administrator")
    );
    let permit = world.permit("identity.Issue", Target::own()).await;
    let issued = identity
        .issue(permit, ops.clone(), &csr(), None)
        .await
        .unwrap();
    let other = identity
        .peer(&der(&issued.certificate_pem), NOBODY)
        .unwrap();

    let permit = identity.authorize(&other, "identity.DisableUser", Target::own());
    let permit = permit.await.unwrap();
    let admin: Label = "admin".parse().unwrap();
    identity.disable_user(permit, admin).await.unwrap();
    identity.check(&world.admin).unwrap_err();
    // The last one stays.
    let permit = identity.authorize(&other, "identity.DisableUser", Target::own());
    let error = identity.disable_user(permit.await.unwrap(), ops).await;
    assert_eq!(error.unwrap_err().reason, Reason::PermissionDenied);

    // And root on the node has the way back.
    let World { dir, identity, .. } = world;
    let minted = mint_offline(dir.path(), Duration::from_secs(3600)).unwrap();
    assert!(minted.enabled_at_start);
    drop(identity);
    let identity = start(dir.path()).await;
    let pem = std::fs::read_to_string(minted.certificate).unwrap();
    let admin = identity.peer(&der(&pem), ROOT).unwrap();
    identity.check(&admin).unwrap();
    identity
        .authorize(&admin, "runtime.List", Target::own())
        .await
        .unwrap();
}
