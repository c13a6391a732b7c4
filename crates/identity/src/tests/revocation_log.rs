// SPDX-License-Identifier: Apache-2.0
//! Refusals that outlive the database.

use super::*;

/// Lines that refuse something.
fn refusals(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap();
    let refuses = |line: &&str| !line.starts_with("{\"issued\"");
    text.lines().filter(refuses).count()
}

#[tokio::test]
async fn a_lost_database_keeps_revoked_certificates_refused() {
    let world = World::new().await;
    let permit = world.permit("identity.Revoke", Target::own()).await;
    let serial = world.ann.serial();
    world
        .identity
        .revoke(permit, serial, "lost laptop")
        .await
        .unwrap();
    let of_b = Target::of(Some(tenant("b")), None);
    let permit = world.permit("identity.DisableUser", of_b).await;
    let bob = "bob".parse().unwrap();
    world.identity.disable_user(permit, bob).await.unwrap();
    let World {
        dir,
        identity,
        admin,
        ann,
        bob,
    } = world;
    drop(identity);
    let log = dir.path().join("pki/refused.jsonl");
    for _ in 0..2 {
        for name in ["aurae.db", "aurae.db-wal", "aurae.db-shm"] {
            let _not_each_is_there = std::fs::remove_file(dir.path().join(name));
        }
        // And a line that a power loss has torn.
        let torn = std::fs::read_to_string(&log).unwrap() + "{\"revoked\":{\"ser";
        std::fs::write(&log, torn).unwrap();
        let identity = start(dir.path()).await;
        let why = identity.check(&ann).unwrap_err();
        assert!(matches!(&why, Unauthenticated::Revoked { reason, .. } if reason == "lost laptop"));
        let why = identity.check(&bob).unwrap_err();
        assert!(matches!(why, Unauthenticated::Disabled { .. }));
        identity.check(&admin).unwrap();
        assert_eq!(refusals(&log), 2);
    }
    // The other way round: a revocation log that is lost is written again from the database.
    std::fs::remove_file(&log).unwrap();
    drop(start(dir.path()).await);
    assert_eq!(refusals(&log), 2);
}
