// SPDX-License-Identifier: Apache-2.0
//! `aurae image import` and `export`: archives for nodes without a registry. The archive goes over
//! the API, so the file is on this machine, not on the node.

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;

use api::image::v0::{ExportRequest, ImportBegin, ImportRequest, import_request};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;

use super::images;
use crate::failure::Failure;
use crate::output::{OutputArgs, Progress, print_line, print_message};
use crate::session::Session;

/// Bytes of one message.
const PIECE: usize = 256 << 10;
/// Messages that are read ahead.
const AHEAD: usize = 4;

/// `aurae image import`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae image import nginx.tar\n  \
                        docker save nginx | aurae image import -\n  \
                        aurae image import --name app:v2 layout.tar")]
pub(super) struct ImportArgs {
    /// The image's name, whatever the archive calls it
    #[arg(long, value_name = "IMAGE")]
    name: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    /// An archive; `-`: standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// `aurae image export`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae image export nginx > nginx.tar\n  \
                        aurae image export -f nginx.tar nginx\n\n\
                        The archive is an OCI layout: skopeo reads it, and `docker load` since 25.")]
pub(super) struct ExportArgs {
    /// Where to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The image's name
    #[arg(value_name = "IMAGE")]
    reference: String,
}

/// Sends an archive.
pub(super) async fn import(session: &Session, args: &ImportArgs) -> Result<u8, Failure> {
    let mut source: Box<dyn Read + Send> = match args.file.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(&args.file).map_err(|problem| {
            Failure::new(format!("can't read {}: {problem}", args.file.display()))
        })?),
    };
    let begin = ImportBegin {
        tenant: session.tenant(),
        reference: args.name.clone().unwrap_or_default(),
    };
    let (sender, receiver) = mpsc::channel(AHEAD);
    let progress = Progress::start(format!("importing {}", args.file.display()));
    let reading = tokio::task::spawn_blocking(move || {
        let first = import_request::Of::Begin(begin);
        let mut next = ImportRequest { of: Some(first) };
        // A closed channel means that the node has answered: its answer says why.
        while sender.blocking_send(next).is_ok() {
            let mut data = Vec::with_capacity(PIECE);
            let piece = u64::try_from(PIECE).unwrap_or(u64::MAX);
            if source.by_ref().take(piece).read_to_end(&mut data)? == 0 {
                break;
            }
            next = ImportRequest {
                of: Some(import_request::Of::Data(data)),
            };
        }
        Ok::<_, std::io::Error>(())
    });
    let request = Request::new(ReceiverStream::new(receiver));
    let answer = images(&session.node).import(request).await;
    let read = reading.await;
    drop(progress);
    let answer = answer.map_err(client::Error::from)?.into_inner();
    if let Ok(Err(problem)) = read {
        let file = args.file.display();
        return Err(Failure::new(format!("can't read {file}: {problem}")));
    }
    if args.output.output.is_machine() {
        print_message(args.output.output, &answer)?;
        return Ok(0);
    }
    for image in &answer.images {
        print_line(&format!("{}@{}", image.reference, image.digest))?;
    }
    Ok(0)
}

/// Receives an archive.
pub(super) async fn export(session: &Session, args: &ExportArgs) -> Result<u8, Failure> {
    if args.file.is_none() && std::io::stdout().is_terminal() {
        return Err(Failure::usage("an archive doesn't go to a terminal")
            .with_hint("write `> FILE`, or -f FILE"));
    }
    let request = ExportRequest {
        tenant: session.tenant(),
        reference: args.reference.clone(),
    };
    let progress = Progress::start(format!("exporting {}", args.reference));
    let answers = images(&session.node).export(Request::new(request)).await;
    let mut answers = answers.map_err(client::Error::from)?.into_inner();
    let mut sink = Sink::open(args.file.as_deref())?;
    while let Some(answer) = answers.message().await.map_err(client::Error::from)? {
        sink.write(&answer.data)?;
    }
    drop(progress);
    sink.finish()?;
    Ok(0)
}

/// The file, which is there whole or not at all, or standard output.
enum Sink {
    File(tempfile::NamedTempFile, PathBuf),
    Out(std::io::Stdout),
}

impl Sink {
    fn open(file: Option<&std::path::Path>) -> Result<Self, Failure> {
        let Some(file) = file else {
            return Ok(Self::Out(std::io::stdout()));
        };
        let folder = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => std::path::Path::new("."),
        };
        let unfinished = tempfile::NamedTempFile::new_in(folder).map_err(|problem| {
            Failure::new(format!("can't write into {}: {problem}", folder.display()))
        })?;
        Ok(Self::File(unfinished, file.to_owned()))
    }

    fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        match self {
            Self::File(file, name) => file.write_all(data).map_err(|problem| {
                Failure::new(format!("can't write {}: {problem}", name.display()))
            }),
            Self::Out(out) => Ok(out.write_all(data)?),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::File(file, name) => file.persist(&name).map(drop).map_err(|problem| {
                Failure::new(format!("can't write {}: {}", name.display(), problem.error))
            }),
            Self::Out(mut out) => Ok(out.flush()?),
        }
    }
}
