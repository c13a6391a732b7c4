// SPDX-License-Identifier: Apache-2.0
//! Attacks through the API, by the hostile tenant's user. A refusal ends none of them: what was
//! refused is asked for again. What counts as done is a call that was answered, and one that was
//! refused for a limit: not one that was refused for who asks, or never came to the node.

use std::io::Write;
use std::time::Duration;

use anyhow::{Error, Result};
use api::observe::v0::LogsRequest;
use api::runtime::v0::{self as runtime, ListRequest};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tonic::{Code, Status};

use super::evidence::Done;
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
pub(super) async fn streams<C>(connect: impl Fn() -> C, done: &Done) -> Result<()>
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
            readers.spawn(read_again_and_again(subject.clone(), done.clone()));
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

/// A stream that was opened counts, and so does each message of it.
async fn read_again_and_again(subject: Subject, done: Done) {
    let mut again = interval(AGAIN);
    loop {
        again.tick().await;
        let request = LogsRequest {
            refs: vec![named(&format!("{CELL}/streams"))],
            follow: true,
            ..Default::default()
        };
        if let Ok(answer) = subject.node().observe().logs(request).await {
            done.one();
            let mut stream = answer.into_inner();
            while let Ok(Some(_)) = stream.message().await {
                done.one();
            }
        }
    }
}

/// Makes cells in a slow cell and takes them away.
pub(super) async fn creations(subject: Subject, done: &Done) -> Result<()> {
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
    let made = subject.make_cell_as(named(SLOW), slow).await;
    let made = match made {
        Ok(_) => made,
        Err(_) => subject.make_cell(SLOW).await,
    };
    count(done, &made);
    let mut makers = JoinSet::new();
    for number in 0..CREATIONS {
        let (subject, done) = (subject.clone(), done.clone());
        makers.spawn(async move {
            let path = format!("{SLOW}/{number}");
            let mut again = interval(AGAIN);
            loop {
                again.tick().await;
                count(&done, &subject.make_cell(&path).await);
                count(&done, &subject.remove(&path).await);
            }
        });
    }
    while makers.join_next().await.is_some() {}
    Ok(())
}

/// Asks for whole lists, and for programs with an argument of a mebibyte.
pub(super) async fn requests<C>(connect: impl Fn() -> C, done: &Done) -> Result<()>
where
    C: Future<Output = Result<Subject>>,
{
    let mut callers = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let Ok(subject) = connect().await else {
            continue;
        };
        for number in 0..AT_ONCE {
            let (subject, done) = (subject.clone(), done.clone());
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
                        let answer = node.runtime().list(node.unary(request)).await;
                        count(&done, &answer.map_err(Error::from));
                    } else {
                        let words = ["/bin/true", &large];
                        let started = runtime::WaitFor::Started;
                        count(&done, &subject.run(&path, &words, started).await);
                    }
                }
            });
        }
    }
    while callers.join_next().await.is_some() {}
    Ok(())
}

fn count<T>(done: &Done, outcome: &Result<T>) {
    if is_answer(outcome) {
        done.one();
    }
}

fn is_answer<T>(outcome: &Result<T>) -> bool {
    let answers = [Code::ResourceExhausted, Code::AlreadyExists];
    match outcome {
        Ok(_) => true,
        Err(error) => error
            .downcast_ref::<Status>()
            .is_some_and(|status| answers.contains(&status.code())),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_refusal_counts_for_a_limit_and_not_for_who_asks() {
        let refused = |code| Err::<(), _>(Status::new(code, "no")).context("RunCell a");
        assert!(is_answer(&Ok(1)));
        assert!(is_answer(&refused(Code::ResourceExhausted)));
        assert!(!is_answer(&refused(Code::Unauthenticated)));
        assert!(!is_answer(&refused(Code::PermissionDenied)));
        assert!(!is_answer(&Err::<(), _>(anyhow::anyhow!("no socket"))));
    }
}
