// SPDX-License-Identifier: Apache-2.0
//! `aurae pod watch` and `pod ls --watch`: the pods that there are, then a line for each change.
//! For programs each event is one line of JSON. When the node's daemon was away, it goes on with
//! what has changed meanwhile, or with a new snapshot.

use api::pod::v0::watch_event::Type;
use api::pod::v0::{PodStatus, WatchEvent, WatchRequest};
use tonic::{Request, Status, Streaming};

use super::{pods, show};
use crate::failure::Failure;
use crate::output::{Format, OutputArgs, print, print_line, to_value};
use crate::session::Session;

/// `aurae pod watch`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae pod watch\n  aurae pod watch -l app=web -o json")]
pub(super) struct WatchArgs {
    /// Of every tenant (administrators)
    #[arg(short = 'A', long)]
    all_tenants: bool,
    /// Only pods with such labels
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "")]
    selector: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Watches until it is interrupted.
pub(super) async fn run(session: &Session, args: &WatchArgs) -> Result<u8, Failure> {
    all(session, args.all_tenants, &args.selector, args.output).await
}

/// The same for `ls`.
pub(super) async fn all(
    session: &Session,
    all_tenants: bool,
    selector: &str,
    output: OutputArgs,
) -> Result<u8, Failure> {
    let tenant = match all_tenants {
        true => "*".to_owned(),
        false => session.tenant(),
    };
    let mut watching = Watching {
        session,
        all_tenants,
        format: output.output,
        request: WatchRequest {
            tenant,
            selector: selector.to_owned(),
            resume_token: String::new(),
        },
        snapshot: Some(Vec::new()),
    };
    let mut node = session.node.clone();
    loop {
        let asked = Request::new(watching.request.clone());
        let lost = match pods(&node).watch(asked).await {
            Ok(events) => watching.events(&mut events.into_inner()).await?,
            Err(status) => Some(status),
        };
        match lost {
            Some(status) => node = session.reconnect(status.into()).await?,
            None => return Ok(0),
        }
    }
}

struct Watching<'a> {
    session: &'a Session,
    all_tenants: bool,
    format: Format,
    request: WatchRequest,
    /// Of the snapshot that is coming.
    snapshot: Option<Vec<PodStatus>>,
}

impl Watching<'_> {
    /// Shows events until there are no more, or the connection is lost.
    async fn events(
        &mut self,
        events: &mut Streaming<WatchEvent>,
    ) -> Result<Option<Status>, Failure> {
        loop {
            let event = match events.message().await {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(None),
                Err(status) => return Ok(Some(status)),
            };
            self.request.resume_token.clone_from(&event.resume_token);
            match self.format {
                format if format.is_machine() => print_line(&to_value(&event)?.to_string())?,
                _ => self.show(event)?,
            }
        }
    }

    /// The snapshot is printed as a table, what comes afterwards as lines.
    fn show(&mut self, event: WatchEvent) -> Result<(), Failure> {
        match (event.r#type(), event.pod) {
            (Type::Reset, _) => self.snapshot = Some(Vec::new()),
            (Type::SnapshotEnd, _) => {
                let pods = self.snapshot.take().unwrap_or_default();
                print(&self.table(&pods))?;
            }
            (kind, Some(pod)) => match &mut self.snapshot {
                Some(pods) => pods.push(pod),
                None => self.show_change(kind, &pod)?,
            },
            _ => {}
        }
        Ok(())
    }

    fn table(&self, pods: &[PodStatus]) -> String {
        show::table(pods, self.all_tenants, self.format == Format::Wide).render(self.session.style)
    }

    fn show_change(&self, kind: Type, pod: &PodStatus) -> Result<(), Failure> {
        if kind == Type::Removed {
            return print_line(&format!("{} was removed", show::name(pod)));
        }
        let text = self.table(std::slice::from_ref(pod));
        // Without the headings, which stand above already.
        print(text.split_inclusive('\n').nth(1).unwrap_or_default())
    }
}
