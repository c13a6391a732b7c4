// SPDX-License-Identifier: Apache-2.0
//! Attacks through the API, by the hostile tenant's user. A refusal ends none of them: what was
//! refused is asked for again.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use api::observe::v0::LogsRequest;
use api::runtime::v0::{self as runtime, ListRequest};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::subject::{Subject, named};

/// The cell that the attacker has, and in it the one that has hardly any CPU.
pub(crate) const CELL: &str = "bench-worst";
const SLOW: &str = "bench-worst/slow";
/// Log streams, and over how many connections.
const STREAMS: usize = 1000;
const CONNECTIONS: usize = 16;
/// Cells that are being made at the same time.
const CREATIONS: usize = 30;
/// Requests of one connection at the same time, and bytes of the large ones.
const AT_ONCE: usize = 32;
const LARGE: usize = 1 << 20;
/// Before what was refused is asked for again.
const AGAIN: Duration = Duration::from_millis(10);

/// Follows the log of this very program, and writes to it.
pub(super) async fn streams<C>(connect: impl Fn() -> C) -> Result<()>
where
    C: Future<Output = Result<Subject>>,
{
    let mut readers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        // A refused connection is one attack less.
        let Ok(subject) = connect().await else {
            continue;
        };
        for _ in 0..STREAMS.div_ceil(CONNECTIONS) {
            let node = subject.node().clone();
            readers.spawn(async move {
                let mut again = interval(AGAIN);
                loop {
                    again.tick().await;
                    let request = LogsRequest {
                        refs: vec![named(&format!("{CELL}/streams"))],
                        follow: true,
                        ..Default::default()
                    };
                    if let Ok(answer) = node.observe().logs(request).await {
                        let mut stream = answer.into_inner();
                        while let Ok(Some(_)) = stream.message().await {}
                    }
                }
            });
        }
    }
    let mut lines = interval(AGAIN);
    lines.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        lines.tick().await;
        writeln!(
            std::io::stdout(),
            "one more line for every reader of this log"
        )?;
    }
}

/// Makes cells in a slow cell and takes them away.
pub(super) async fn creations(subject: Subject) -> Result<()> {
    let hundredth = runtime::Cpu {
        quota: Some(prost_types::Duration {
            seconds: 0,
            nanos: 1_000_000,
        }),
        ..Default::default()
    };
    let resources = runtime::Resources {
        cpu: Some(hundredth),
        ..Default::default()
    };
    let slow = runtime::CellSpec {
        resources: Some(resources),
        ..Default::default()
    };
    // It is there already, or the node has no controller of CPU: both are fine.
    if subject.make_cell_as(named(SLOW), slow).await.is_err() {
        let _ = subject.make_cell(SLOW).await;
    }
    let mut makers = JoinSet::new();
    for number in 0..CREATIONS {
        let subject = subject.clone();
        makers.spawn(async move {
            let path = format!("{SLOW}/{number}");
            let mut again = interval(AGAIN);
            loop {
                again.tick().await;
                let _ = subject.make_cell(&path).await;
                let _ = subject.remove(&path).await;
            }
        });
    }
    while makers.join_next().await.is_some() {}
    Ok(())
}

/// Asks for whole lists, and for programs with an argument of a mebibyte.
pub(super) async fn requests<C>(connect: impl Fn() -> C) -> Result<()>
where
    C: Future<Output = Result<Subject>>,
{
    let mut callers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let Ok(subject) = connect().await else {
            continue;
        };
        for number in 0..AT_ONCE {
            let subject = subject.clone();
            callers.spawn(async move {
                let large = "x".repeat(LARGE);
                let path = format!("{CELL}/no/{number}");
                let mut again = interval(AGAIN);
                loop {
                    again.tick().await;
                    let node = subject.node();
                    if number % 2 == 0 {
                        let request = ListRequest {
                            page_size: 1000,
                            ..Default::default()
                        };
                        let _ = node.runtime().list(node.unary(request)).await;
                    } else {
                        let words = ["/bin/true", &large];
                        let started = runtime::WaitFor::Started;
                        let _ = subject.run(&path, &words, started).await;
                    }
                }
            });
        }
    }
    while callers.join_next().await.is_some() {}
    Ok(())
}
