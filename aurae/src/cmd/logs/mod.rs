// SPDX-License-Identifier: Apache-2.0
//! `aurae logs`: what executables have printed, line by line, several side by side, followed over a
//! restart of the node's daemon. A gap is shown in its place.

mod lines;
mod render;

use std::collections::BTreeMap;

use api::observe::v0::{LogsRequest, LogsResponse, logs_response};
use api::runtime::v0::{Kind, ListRequest, ObjectRef, Stream};
use client::Node;
use prost_types::Timestamp;
use tonic::{Request, Streaming};

use super::ps::list;
use crate::failure::Failure;
use crate::output::reference;
use crate::quantity::parse_instant;
use crate::session::Session;
pub(crate) use lines::Lines;
use render::Renderer;

const EXAMPLES: &str = "\
Examples:
  aurae logs web/nginx
  aurae logs -f --tail 10 web              of every executable in the cell
  aurae logs --since 10m --stream stderr web/nginx web/php
  aurae logs --timestamps web/nginx
  aurae logs -o raw web/job > output       the bytes as they were printed

Lines of several executables have their names before them. The program's standard error goes to
ours. With -o json, each line is an object.";

/// `aurae logs`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogsArgs {
    /// Go on until the executables have ended
    #[arg(short, long)]
    follow: bool,
    /// Only output since: 10m, 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    since: Option<Timestamp>,
    /// Only output until
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    until: Option<Timestamp>,
    /// Only the last lines
    #[arg(short = 'n', long, visible_alias = "lines", value_name = "NUMBER")]
    tail: Option<u64>,
    /// Only one stream
    #[arg(long, value_enum, value_name = "STREAM", default_value = "all")]
    stream: StreamChoice,
    /// With the time before each line
    #[arg(long)]
    timestamps: bool,
    /// Without names before lines
    #[arg(long)]
    no_prefix: bool,
    /// How to print it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: LogFormat,
    /// Executables or cells
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum StreamChoice {
    Stdout,
    Stderr,
    All,
}

/// How lines are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Each line as it was printed, with the name and the time where asked for
    Text,
    /// An object per line: name, uid, stream, time, line (or base64, where it isn't UTF-8)
    Json,
    /// The bytes as they were printed
    Raw,
}

/// Runs `aurae logs`.
pub(crate) async fn run(session: &Session, args: &LogsArgs) -> Result<u8, Failure> {
    let mut refs = Vec::with_capacity(args.names.len());
    for name in &args.names {
        refs.push(reference(&session.find_or_suggest(name, "logs").await?));
    }
    let prefix = !args.no_prefix && have_several(session, &refs).await?;
    let renderer = Renderer::new(session, args.output, args.timestamps, prefix);
    let mut reader = Reader {
        session,
        node: session.node.clone(),
        request: args.request(refs),
        renderer,
        cursors: BTreeMap::new(),
    };
    let done = reader.read(args.follow).await;
    // Lines without an end, too, are lines.
    reader.renderer.finish()?;
    done.map(|()| 0)
}

/// Whether the output of more than one executable is shown.
async fn have_several(session: &Session, refs: &[ObjectRef]) -> Result<bool, Failure> {
    match refs {
        [cell] if cell.kind() == Kind::Cell => {
            let request = ListRequest {
                tenant: cell.tenant.clone(),
                kinds: vec![Kind::Executable.into()],
                below: cell.path.clone(),
                ..Default::default()
            };
            Ok(list(session, request).await?.objects.len() > 1)
        }
        refs => Ok(refs.len() > 1),
    }
}

impl LogsArgs {
    fn request(&self, refs: Vec<ObjectRef>) -> LogsRequest {
        let streams = match self.stream {
            StreamChoice::Stdout => vec![Stream::Stdout.into()],
            StreamChoice::Stderr => vec![Stream::Stderr.into()],
            StreamChoice::All => Vec::new(),
        };
        LogsRequest {
            refs,
            streams,
            since: self.since,
            until: self.until,
            tail: self.tail,
            follow: self.follow,
            cursor: String::new(),
        }
    }
}

struct Reader<'a> {
    session: &'a Session,
    node: Node,
    request: LogsRequest,
    renderer: Renderer,
    /// The cursor of each executable that has printed something and has not ended.
    cursors: BTreeMap<String, (ObjectRef, String)>,
}

impl Reader<'_> {
    async fn read(&mut self, follow: bool) -> Result<(), Failure> {
        let mut lost = match self.read_from_start().await {
            Ok(()) => return Ok(()),
            Err(problem) => problem,
        };
        while follow && lost.is_transient() {
            self.node = self.session.reconnect(lost).await?;
            match self.read_on().await {
                Ok(()) => return Ok(()),
                Err(problem) => lost = problem,
            }
        }
        Err(lost.into())
    }

    async fn read_from_start(&mut self) -> Result<(), client::Error> {
        let mut stream = self.ask(self.request.clone()).await?;
        while let Some(answer) = stream.message().await? {
            if !self.take(answer) {
                break;
            }
        }
        Ok(())
    }

    async fn ask(&self, request: LogsRequest) -> Result<Streaming<LogsResponse>, client::Error> {
        let answer = self.node.observe().logs(Request::new(request)).await?;
        Ok(answer.into_inner())
    }

    /// Shows an answer; `false`: the reader of our output has gone.
    fn take(&mut self, answer: LogsResponse) -> bool {
        let reference = answer.r#ref.clone().unwrap_or_default();
        if matches!(answer.message, Some(logs_response::Message::End(_))) {
            self.cursors.remove(&reference.uid);
        } else {
            self.cursors
                .insert(reference.uid.clone(), (reference, answer.cursor.clone()));
        }
        self.renderer.show(answer)
    }

    /// Goes on with each executable at its cursor; from the beginning, when none has printed
    /// anything yet.
    async fn read_on(&mut self) -> Result<(), client::Error> {
        if self.cursors.is_empty() {
            return self.read_from_start().await;
        }
        let mut streams = Vec::new();
        for (reference, cursor) in self.cursors.values() {
            let request = LogsRequest {
                refs: vec![reference.clone()],
                cursor: cursor.clone(),
                tail: None,
                since: None,
                ..self.request.clone()
            };
            streams.push(self.ask(request).await?);
        }
        let mut merged = futures_util::stream::select_all(streams);
        while let Some(answer) = futures_util::StreamExt::next(&mut merged).await {
            if !self.take(answer?) {
                break;
            }
        }
        Ok(())
    }
}
