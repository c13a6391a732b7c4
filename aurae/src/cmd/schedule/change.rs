// SPDX-License-Identifier: Apache-2.0
//! `aurae schedule trigger`, `pause`, `resume` and `rm`.

use std::time::Duration;

use api::schedule::v0::{PauseRequest, RemoveRequest, ResumeRequest, TriggerRequest};

use super::schedules;
use crate::cmd::for_each;
use crate::failure::Failure;
use crate::output::{Progress, print_line};
use crate::session::Session;

/// How long a removal may take: the longest grace of what runs, an hour, and a minute more.
pub(super) const LONGEST: Duration = Duration::from_secs(3600 + 60);

/// Names of schedules.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae schedule pause web\n  aurae schedule resume web backup")]
pub(super) struct NamesArgs {
    /// Schedules
    #[arg(required = true, value_name = "SCHEDULE")]
    names: Vec<String>,
}

macro_rules! each {
    ($function:ident, $request:ident, $method:ident, $verb:literal) => {
        /// All of them at once.
        pub(super) async fn $function(session: &Session, args: &NamesArgs) -> Result<u8, Failure> {
            let progress = Progress::start(format!(concat!($verb, " {}"), args.names.join(", ")));
            let change = async |name: &str| {
                let request = $request {
                    tenant: session.tenant(),
                    name: name.to_owned(),
                };
                let request = session.node.within(request, LONGEST);
                let answer = schedules(&session.node).$method(request).await;
                answer.map_err(client::Error::from)?;
                Ok(name.to_owned())
            };
            let (changed, status) = for_each(session, &args.names, change).await;
            drop(progress);
            changed.iter().try_for_each(|name| print_line(name))?;
            Ok(status)
        }
    };
}

each!(trigger, TriggerRequest, trigger, "starting");
each!(pause, PauseRequest, pause, "pausing");
each!(resume, ResumeRequest, resume, "resuming");
each!(rm, RemoveRequest, remove, "removing");
