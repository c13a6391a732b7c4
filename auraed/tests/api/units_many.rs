// SPDX-License-Identifier: Apache-2.0
//! Many units at once: those that take long to begin hold up no other, and the time that a unit has
//! for its start doesn't pass while others are started.

use api::schedule::v0 as wire;

use crate::units::{Machine, get, job, start, status, stop, units, until};

/// More than begin at the same time.
const MANY: usize = 100;

async fn begin(administrator: &crate::caller::Person, name: &str) {
    let request = wire::UnitJobRequest {
        no_wait: true,
        ..job(name)
    };
    units(administrator).start_unit(request).await.unwrap();
}

#[tokio::test]
async fn starts_that_take_long_hold_up_no_other() {
    let Some(machine) = Machine::start() else {
        return;
    };
    // It never puts itself in the background: as a broken daemon.
    let hangs = "Type=forking\nTimeoutStartSec=infinity\nExecStart=/bin/sleep 1000";
    machine.service("hangs@.service", hangs);
    machine.service("web.service", "ExecStart=/bin/sleep 1000");
    let ann = machine.node.administrator().await;
    for number in 0..MANY {
        begin(&ann, &format!("hangs@{number}.service")).await;
    }
    begin(&ann, "web").await;
    until(&ann, "web", "active", |it| it.active == "active").await;
    assert_eq!(status(&ann, "hangs@0").await.active, "activating");
    machine.node.stop();
}

#[tokio::test]
async fn a_start_that_waits_for_room_has_its_whole_time_and_can_be_called_off() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let quick = "Type=oneshot\nTimeoutStartSec=60\nRemainAfterExit=yes\nExecStart=/bin/true";
    machine.service("quick@.service", quick);
    machine.unit(
        "all.target",
        &format!(
            "[Unit]\nWants={0}\nAfter={0}\n",
            (0..3 * MANY)
                .map(|number| format!("quick@{number}.service"))
                .collect::<Vec<_>>()
                .join(" ")
        ),
    );
    let ann = machine.node.administrator().await;
    begin(&ann, "all.target").await;
    // Whichever are still to begin are waiting jobs, and no start that has begun.
    stop(&ann, "quick@299").await;
    until(&ann, "all.target", "active", |it| it.active == "active").await;
    assert_eq!(status(&ann, "quick@298").await.active, "active");
    assert_eq!(status(&ann, "quick@299").await.active, "inactive");
    assert_eq!(start(&ann, "quick@299").await.result, "done");
    let why = get(&ann, "quick@299.service").await.why.unwrap();
    assert_eq!(why.cause(), wire::reason::Cause::Succeeded);
    machine.node.stop();
}
