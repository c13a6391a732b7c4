// SPDX-License-Identifier: Apache-2.0
//! `aurae schedule logs`: those of a run.

use api::schedule::v0::work::Run;
use api::schedule::v0::{GetRequest, ScheduleStatus};

use super::schedules;
use crate::cmd::logs::{self, LogsArgs};
use crate::failure::Failure;
use crate::session::Session;

/// `aurae schedule logs`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  aurae schedule logs -f web\n  aurae schedule logs --run 3 web"
)]
pub(super) struct ScheduleLogsArgs {
    /// The number of the run. Default: the last one
    #[arg(long, value_name = "NUMBER")]
    run: Option<u64>,
    #[command(flatten)]
    logs: LogsArgs,
}

pub(super) async fn run(session: &Session, args: &ScheduleLogsArgs) -> Result<u8, Failure> {
    let mut of_runs = args.logs.clone();
    of_runs.names.clear();
    for name in &args.logs.names {
        let request = GetRequest {
            tenant: session.tenant(),
            name: name.clone(),
        };
        let get =
            async |node: &client::Node| schedules(node).get(node.unary(request.clone())).await;
        let status = session.ask(get).await?;
        let number = args.run.unwrap_or(status.number);
        if number == 0 {
            let message = format!("{name} has had no run yet");
            let hint = format!("`aurae schedule why {name}` says what it waits for");
            return Err(Failure::new(message).with_hint(hint));
        }
        of_runs.names.push(path(&status, number));
    }
    logs::run(session, &of_runs).await
}

/// The cell of a run, or the executable where the cell has gone with it.
fn path(status: &ScheduleStatus, number: u64) -> String {
    let run = format!("{}-{number}", status.name);
    let work = status.spec.as_ref().and_then(|spec| spec.work.as_ref());
    let Some(Run::Executable(request)) = work.and_then(|work| work.run.as_ref()) else {
        return run;
    };
    let reference = request.executable.as_ref().and_then(|it| it.r#ref.as_ref());
    let name = reference.and_then(|it| it.path.split_once('/'));
    name.map_or(run.clone(), |(_, name)| format!("{run}/{name}"))
}
