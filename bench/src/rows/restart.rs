// SPDX-License-Identifier: Apache-2.0
//! Row `restart`: the daemon dies among the crowd's cells (`crowd`), how long it takes until the
//! next one lists them all, and what is lost meanwhile: workloads, exits and logs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::observe::v0 as observe;
use api::runtime::v0::{self as runtime, object::Object as Kind};
use rustix::process::{Pid, Signal, kill_process};

use super::Bench;
use super::crowd::{PREFIX, member, path};
use crate::reference::PROGRAM;
use crate::stats::{Figure, Goal, Samples};
use crate::subject::{micros, named};

const DEATHS: usize = 3;
/// Node-init starts a daemon at once that has served for ten seconds, and others with a growing
/// pause.
const STABLE: Duration = Duration::from_secs(11);
/// Executables that end while there is no daemon, in a cell each, and what each prints.
pub(super) const ENDING: usize = 20;
const PRINTED: usize = 10_000;
/// A daemon that isn't back by then is lost.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Bench {
    /// Row `restart`: the daemon dies, and who notices.
    pub(super) async fn deaths(&mut self, cells: usize) -> Result<Vec<Figure>> {
        let mut times = Samples::default();
        let mut lost = 0.0;
        for turn in 0..DEATHS {
            // Init doesn't say when it counts a daemon as stable.
            tokio::time::sleep(STABLE).await;
            let before = self.running().await?;
            let ending = self.start_ending(turn).await?;
            let (daemon, _) = self.subject.processes()?;
            let daemon = Pid::from_raw(i32::try_from(daemon)?).context("the daemon's pid")?;
            let died = Instant::now();
            kill_process(daemon, Signal::KILL)?;
            let after = self.first_list(died).await?;
            times.add(micros(died) / 1000.0);
            let gone = before
                .iter()
                .filter(|(path, pid)| after.get(*path) != Some(pid))
                .count();
            #[expect(clippy::cast_precision_loss, reason = "a count of cells")]
            let (gone, unheard) = (gone as f64, self.unheard(&ending).await? as f64);
            lost += gone + unheard;
        }
        let goal = match cells == self.cells {
            true => Goal::AtMost(self.either(60.0, 400.0)),
            false => Goal::None,
        };
        let row = format!("restart, kill -9 to the first correct List, {cells} cells");
        let worst = format!("restart, the slowest of {DEATHS}, {cells} cells");
        let losses = format!("restart, workloads, exits and logs lost in all, {cells} cells");
        Ok(vec![
            Figure::alone(&row, "ms", times.median(), goal),
            Figure::alone(&worst, "ms", times.percentile(1.0), Goal::None),
            Figure::alone(&losses, "", lost, Goal::AtMost(0.0)),
        ])
    }

    /// Every member that runs, and its pid.
    async fn running(&self) -> Result<BTreeMap<String, u32>> {
        let mut found = BTreeMap::new();
        for object in self.subject.list(true).await? {
            if let Some(Kind::Executable(one)) = object.object {
                let path = path(one.meta.as_ref());
                if path.starts_with(PREFIX) {
                    found.insert(path, one.pid);
                }
            }
        }
        Ok(found)
    }

    /// Asks again and again until a daemon answers.
    async fn first_list(&mut self, since: Instant) -> Result<BTreeMap<String, u32>> {
        let mut again = tokio::time::interval(Duration::from_millis(1));
        loop {
            if self.subject.reconnect().await.is_ok()
                && let Ok(found) = self.running().await
            {
                return Ok(found);
            }
            ensure!(
                since.elapsed() < TIMEOUT,
                "no daemon answered for {TIMEOUT:?}"
            );
            again.tick().await;
        }
    }

    /// Programs that print and end a little later, when the daemon is dead.
    async fn start_ending(&self, turn: usize) -> Result<Vec<runtime::ObjectRef>> {
        let mut refs = Vec::new();
        for number in 0..ENDING {
            let path = format!("{}/ending-{turn}", member(number));
            let script = format!(
                "usleep {}; head -c {PRINTED} /dev/zero; exit 7",
                number * 4000
            );
            let words = [PROGRAM, "sh", "-c", &script];
            self.subject
                .run(&path, &words, runtime::WaitFor::Started)
                .await?;
            let node = self.subject.node();
            let request = runtime::GetRequest {
                r#ref: Some(named(&path)),
            };
            let answer = node.runtime().get(node.unary(request)).await?.into_inner();
            let Some(Kind::Executable(status)) = answer.object else {
                continue;
            };
            refs.extend(status.meta.and_then(|meta| meta.r#ref));
        }
        ensure!(refs.len() == ENDING, "some executables have no reference");
        Ok(refs)
    }

    /// How many of them were not heard of as they should.
    async fn unheard(&self, refs: &[runtime::ObjectRef]) -> Result<usize> {
        let mut wrong = 0;
        for one in refs {
            let node = self.subject.node();
            let request = runtime::WaitRequest {
                r#ref: Some(one.clone()),
            };
            let answer = node.runtime().wait(node.unary(request)).await?.into_inner();
            let exit = match answer.object {
                Some(Kind::Executable(status)) => status.exit,
                _ => None,
            };
            let how = exit.and_then(|exit| exit.how);
            let code = matches!(how, Some(runtime::exit::How::Code(7)));
            if !code || self.logged(one).await? != PRINTED {
                wrong += 1;
            }
        }
        Ok(wrong)
    }

    /// Bytes in its log.
    async fn logged(&self, one: &runtime::ObjectRef) -> Result<usize> {
        let node = self.subject.node();
        let request = observe::LogsRequest {
            refs: vec![one.clone()],
            ..Default::default()
        };
        let mut stream = node.observe().logs(request).await?.into_inner();
        let mut bytes = 0;
        while let Some(answer) = stream.message().await? {
            if let Some(observe::logs_response::Message::Data(data)) = answer.message {
                bytes += data.data.len();
            }
        }
        Ok(bytes)
    }
}
