// SPDX-License-Identifier: Apache-2.0
//! `Runtime.Attach` on the wire: output comes from the log, so that every attacher sees all of it
//! and a slow one delays no other; input comes from the one attacher that holds it. Output that
//! leads to its attacher comes from the program itself, as fast as the client takes it.
//!
//! ```text
//! start ──► output, gap … (the log) ──► its end ──► exit, always the last message
//!   └─────► stdin, eof, resize ──► the executable         (the client's half-close is no eof)
//! ```

use std::time::Duration;

use api::action::observe::LOGS;
use api::convert::observe::to_stream;
use api::convert::{request as convert, status};
use api::runtime::v0 as wire;
use api::runtime::v0::attach_request::Message as Asked;
use api::runtime::v0::attach_response::Message as Answer;
use api::status::to_status;
use client::Node;
use futures_util::{Stream, StreamExt, stream};
use identity::{Effect, Reach};
use model::error::Error;
use model::observe::LogMessage;
use model::request::AttachFrom;
use model::status::Object;
use observe::{LogKey, LogReader, Logs, ReadOptions};
use runtime::{Direct, End, Input, Kept, Runtime};
use tenants::Share;
use tonic::{Response, Status, Streaming};

use super::away::{Away, Itself, one};
use super::caller::Caller;
use super::stream::{Answers, Beside, first, until_expelled};

/// The subsystems and bounds that attaching needs.
pub(super) struct Attaching {
    pub(super) runtime: Runtime,
    pub(super) logs: Logs,
    /// Where some executables run.
    pub(super) away: Away,
    /// How long the first message may take.
    pub(super) timeout: Duration,
    /// The caller's, of the daemon's time.
    pub(super) share: Share,
}

impl Attaching {
    /// Attaches as the first message says.
    pub(super) async fn attach(
        self,
        caller: Caller,
        mut asked: Streaming<wire::AttachRequest>,
    ) -> Result<Response<Answers<wire::AttachResponse>>, Status> {
        let start = caller
            .unless_expelled(first(&mut asked, self.timeout, "start", start))
            .await?;
        let away = &self.away;
        let own = caller.tenant();
        let aside = away.set_aside(own, &start, Itself::Place, |it| one(&mut it.r#ref));
        let start = convert::attach_start(caller.tenant(), start).map_err(to_status)?;
        // Earlier output is in the log.
        let also = match start.from {
            AttachFrom::Offset(_) => vec![Effect::on(LOGS, &start.target.path)],
            AttachFrom::Now => Vec::new(),
        };
        let (tenant, path) = (&start.target.tenant, &start.target.path);
        let permit = caller
            .permit_effects(tenant, path, Reach::Object, also)
            .await?;
        if let Some(aside) = aside.map_err(to_status)? {
            let call = async |node: Node, call| node.runtime().attach(call).await;
            let aside = aside.map(|start| whole(start, asked));
            return aside.pass_stream(&caller, &permit, call).await;
        }
        let attachment = self
            .runtime
            .attach(permit, &start)
            .await
            .map_err(to_status)?;
        let source = match attachment.output {
            Some(direct) => Source::Program(direct),
            None => {
                let reader = self.reader(&attachment.object, start.from).await;
                Source::Log(reader.map_err(to_status)?)
            }
        };
        let input = Beside::start(&self.share, feed(asked, attachment.input));
        let output = Output {
            source,
            end: attachment.end,
            _kept: attachment.kept,
            _input: input,
            over: false,
        };
        Ok(Response::new(until_expelled(
            output.into_stream(),
            caller.expelled(),
        )))
    }

    async fn reader(&self, object: &Object, from: AttachFrom) -> Result<LogReader, Error> {
        let meta = object.meta();
        let key = LogKey {
            tenant: meta.tenant.clone(),
            uid: meta.uid,
        };
        let from = match from {
            AttachFrom::Offset(offset) => offset,
            AttachFrom::Now => self.logs.end_offset(&key).await?,
        };
        let options = ReadOptions {
            follow: true,
            from: Some(from),
            ..ReadOptions::default()
        };
        self.logs.read_attached(&key, options)
    }
}

fn start(message: wire::AttachRequest) -> Option<wire::AttachStart> {
    match message.message {
        Some(Asked::Start(start)) => Some(start),
        _ => None,
    }
}

/// The client's messages as another daemon is to get them. A client that goes away ends the call.
fn whole(
    start: wire::AttachStart,
    asked: Streaming<wire::AttachRequest>,
) -> impl Stream<Item = wire::AttachRequest> {
    let start = wire::AttachRequest {
        message: Some(Asked::Start(start)),
    };
    let rest = asked.take_while(|message| std::future::ready(message.is_ok()));
    let rest = rest.filter_map(|message| std::future::ready(message.ok()));
    stream::once(std::future::ready(start)).chain(rest)
}

/// Hands the client's messages to the executable until one of the two is done. The client's
/// half-close is no end of file for the executable: the client may have no input at all.
async fn feed(mut asked: Streaming<wire::AttachRequest>, input: Option<Input>) {
    let Some(mut input) = input else {
        // Read and drop them, so that a client that sends input nevertheless is not blocked for
        // ever.
        while let Ok(Some(_)) = asked.message().await {}
        return;
    };
    while let Ok(Some(message)) = asked.message().await {
        let done = match message.message {
            Some(Asked::Stdin(bytes)) => input.write(&bytes).await,
            Some(Asked::Eof(_)) => input.close().await,
            Some(Asked::Resize(size)) => resize(&input, size),
            Some(Asked::Start(_)) | None => Ok(()),
        };
        if let Err(error) = done {
            // It has ended, or closed its standard input: the client learns by the exit, or not at
            // all, as with a shell's pipe.
            tracing::debug!(%error, "input went nowhere");
            return;
        }
    }
}

fn resize(input: &Input, size: wire::Terminal) -> Result<(), Error> {
    let size = api::convert::executable::terminal(size)?;
    input.resize(size)
}

/// Where output comes from.
enum Source {
    Log(LogReader),
    Program(Direct),
}

impl Source {
    /// The next of it; none at its end.
    async fn next(&mut self, end: &mut End) -> Result<Option<Answer>, Error> {
        Ok(match self {
            Self::Log(reader) => reader
                .next()
                .await?
                .and_then(|(message, _)| logged(message)),
            Self::Program(direct) => direct.next(end).await?.map(|piece| {
                Answer::Output(wire::AttachOutput {
                    stream: to_stream(piece.stream).into(),
                    data: piece.data,
                    offset: piece.offset,
                })
            }),
        })
    }
}

fn logged(message: LogMessage) -> Option<Answer> {
    match message {
        LogMessage::Data(data) => Some(Answer::Output(wire::AttachOutput {
            stream: to_stream(data.stream).into(),
            data: data.data,
            offset: data.offset,
        })),
        LogMessage::Gap(gap) => Some(Answer::Gap(wire::AttachGap {
            bytes: gap.bytes,
            reason: gap.reason.as_str().to_owned(),
        })),
        LogMessage::End => None,
    }
}

/// The answers of one attachment.
struct Output {
    source: Source,
    end: End,
    _kept: Option<Kept>,
    _input: Beside,
    over: bool,
}

impl Output {
    fn into_stream(self) -> impl Stream<Item = Result<wire::AttachResponse, Status>> + Send {
        stream::try_unfold(self, |mut output| async move {
            let next = output.next().await.map_err(to_status)?;
            let answer = |message| wire::AttachResponse {
                message: Some(message),
            };
            Ok(next.map(|message| (answer(message), output)))
        })
    }

    async fn next(&mut self) -> Result<Option<Answer>, Error> {
        if self.over {
            return Ok(None);
        }
        if let Some(answer) = self.source.next(&mut self.end).await? {
            return Ok(Some(answer));
        }
        self.over = true;
        Ok(Some(Answer::Exit(self.exit().await?)))
    }

    async fn exit(&mut self) -> Result<wire::Exit, Error> {
        let ended = self.end.wait().await?;
        match &*ended {
            Object::Executable(executable) => {
                let unknown = model::exit::Exit::unknown();
                Ok(status::to_exit(
                    executable.exit.as_ref().unwrap_or(&unknown),
                ))
            }
            Object::Cell(_) => Err(Error::internal("a cell was attached to")),
        }
    }
}
