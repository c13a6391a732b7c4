// SPDX-License-Identifier: Apache-2.0
//! The journal: what comes through the sockets that systemd's journal has (`/dev/log`, the native
//! protocol, the stream protocol) and from the kernel, as entries with fields, in a log like every
//! other one: the same mover stores it, the same retention bounds it.
//!
//! ```text
//! sockets, /dev/kmsg ──► receive ──► desk: limit, sender, frame ──► pipe ──► mover ──► segments
//! the daemon's log ────► own ───────┘  └──► rsyslog's socket                            │
//!                                                      Observe.Journal ◄── read ◄───────┘
//! ```
//!
//! What units print by themselves is in their executables' logs; when those go, it comes to logs of
//! the past (`past`), of the same frames. Parsing is pure (`native`, `syslog`, `stdout`, `kmsg`,
//! `frame`, `limit`); the sockets are `receive`'s.

mod desk;
mod entry;
mod frame;
mod kernel_log;
mod kmsg;
mod limit;
mod lines;
mod native;
mod own;
mod past;
mod past_read;
mod read;
mod receive;
mod sender;
mod settle;
mod sockets;
mod stdout;
mod streams;
mod syslog;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use model::error::Error;
use model::executable::LogPolicy;
use model::name::{Tenant, Uid};
use model::observe::Stream;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

use super::folder::LogKey;
use super::logs::Logs;
pub use entry::{Entry, LARGEST};
pub use limit::RateLimit;
pub use own::{Speaker, Words, own_words};
pub use past::{PastLog, PastRun, Printer, keep};
pub(crate) use read::read;
pub use read::{JournalItem, JournalStream};
pub use sender::{Owner, Owners};
pub use sockets::{Keep, Kept};

use desk::Desk;
use receive::Protocol;
use sender::Senders;
use settle::Settling;
use sockets::{Left, Pipe, Sockets};
use streams::Streams;

/// The run that the journal's log is of. No executable has it: theirs are random.
const UID: Uid = Uid(*b"aurae.journal.00");
/// Between two looks at the machine's name.
const NAME: Duration = Duration::from_secs(30);

/// Where its log is: the tenant `system`'s.
fn key() -> LogKey {
    LogKey {
        tenant: Tenant::system(),
        uid: UID,
    }
}

/// What the journal is started with.
pub struct JournalConfig {
    /// Where the sockets are made.
    pub folder: PathBuf,
    /// The link `/dev/log` to make, if any.
    pub link: Option<PathBuf>,
    /// Where it is kept how far the kernel's messages were taken; none: they aren't.
    pub kernel: Option<PathBuf>,
    /// Bytes on disk.
    pub max_bytes: u64,
    /// What each sender may say.
    pub limit: RateLimit,
    /// 32 hexadecimal digits.
    pub boot_id: String,
}

impl std::fmt::Debug for JournalConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalConfig")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// The journal's sockets, for as long as this lives.
#[derive(Debug)]
pub struct Journal {
    _stop: oneshot::Sender<()>,
    inbox: Inbox,
}

/// What was sent to the journal, for those who wait until it is taken. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Inbox {
    asks: mpsc::Sender<oneshot::Sender<()>>,
}

/// Who asks when others wait already waits with them.
const ASKS: usize = 16;

impl Inbox {
    /// Resolves when everything that was sent to the sockets before is on its way to the log; also
    /// when there are no sockets any more.
    pub(crate) async fn is_taken(&self) {
        let (reply, taken) = oneshot::channel();
        if self.asks.send(reply).await.is_ok() {
            let _ended = taken.await;
        }
    }
}

fn failed(what: &str) -> impl Fn(std::io::Error) -> Error {
    move |error| {
        let failed = Error::internal(format!("{what}: {error}"));
        match error.raw_os_error() {
            Some(errno) => failed.errno(errno),
            None => failed,
        }
    }
}

impl Journal {
    /// Makes the sockets, or goes on with those of an earlier daemon, and takes what comes, and
    /// what this daemon says itself.
    ///
    /// # Errors
    /// They can't be made, or the log can't be attached.
    pub async fn start(
        config: JournalConfig,
        logs: &Logs,
        owners: Arc<dyn Owners>,
        store: Arc<dyn Keep>,
        own: Words,
    ) -> Result<Journal, Error> {
        let mut left = Left::by(&*store).await?;
        let sockets = Sockets::open(&config.folder, &mut left, &*store).await;
        let sockets = sockets.map_err(failed("the journal's sockets"))?;
        if let Some(link) = &config.link {
            put_link(link, &config.folder.join("dev-log")).map_err(failed("/dev/log"))?;
        }
        let pipe = Pipe::open(&mut left, &*store).await;
        let Pipe {
            read,
            write,
            is_torn,
        } = pipe.map_err(failed("the journal's pipe"))?;
        let policy = LogPolicy {
            max_bytes: Some(config.max_bytes),
            ..LogPolicy::default()
        };
        logs.attach(key(), vec![(Stream::Stdout, read)], &policy)
            .await?;
        let (stop, stopped) = oneshot::channel();
        let (asks, asked) = mpsc::channel(ASKS);
        let ends = Ends {
            sockets,
            log: (write, is_torn),
            streams: left.streams,
            owners,
            store,
            own,
            asked,
            stopped,
        };
        let thread = std::thread::Builder::new().name("journal".to_owned());
        thread
            .spawn(move || take(config, ends))
            .map_err(failed("the journal's thread"))?;
        let inbox = Inbox { asks };
        Ok(Journal { _stop: stop, inbox })
    }

    /// What comes through its sockets.
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }
}

/// What the thread has of others.
struct Ends {
    sockets: Sockets,
    /// The pipe to the mover, and whether a frame in it may be torn.
    log: (OwnedFd, bool),
    /// Connections of an earlier daemon.
    streams: Vec<Kept>,
    owners: Arc<dyn Owners>,
    store: Arc<dyn Keep>,
    own: Words,
    asked: mpsc::Receiver<oneshot::Sender<()>>,
    stopped: oneshot::Receiver<()>,
}

fn put_link(link: &std::path::Path, target: &std::path::Path) -> std::io::Result<()> {
    if std::fs::read_link(link).is_ok_and(|it| it == target) {
        return Ok(());
    }
    let draft = link.with_extension("aurae-new");
    let _none = std::fs::remove_file(&draft);
    std::os::unix::fs::symlink(target, &draft)?;
    std::fs::rename(&draft, link)
}

/// The thread, until the daemon ends: neither does the API wait for loggers, nor the other way
/// round.
fn take(config: JournalConfig, ends: Ends) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the journal can't be begun");
            return;
        }
    };
    let work = async move {
        if let Err(error) = work(config, ends).await {
            tracing::error!(%error, "the journal's sockets aren't read any more");
        }
    };
    tokio::task::LocalSet::new().block_on(&runtime, work);
}

async fn work(config: JournalConfig, ends: Ends) -> std::io::Result<()> {
    let (log, is_torn) = ends.log;
    let log = pipe::Sender::from_owned_fd(log)?;
    let forward = Some(config.folder.join("syslog"));
    let senders = Senders::new(ends.owners);
    let (limit, boot) = (config.limit, config.boot_id);
    let desk = Rc::new(Desk::new(senders, limit, (log, is_torn), boot, forward));
    let settling = Settling::new();
    if let Some(mark) = config.kernel {
        let (desk, reader) = (desk.clone(), settling.reader(kernel_log::MOST));
        tokio::task::spawn_local(async move {
            if let Err(error) = kernel_log::run(&mark, desk, reader).await {
                tracing::warn!(%error, "the kernel's messages aren't taken");
            }
        });
    }
    tokio::task::spawn_local(name_again(desk.clone()));
    tokio::task::spawn_local(own::run(ends.own, desk.clone()));
    tokio::task::spawn_local(answer(ends.asked, settling.clone()));
    let datagrams = |socket, protocol| {
        receive::run(
            socket,
            protocol,
            desk.clone(),
            settling.reader(receive::HELD),
        )
    };
    let native = datagrams(ends.sockets.native, Protocol::Native);
    let syslog = datagrams(ends.sockets.syslog, Protocol::Syslog);
    let streams = Streams::new(desk.clone(), settling.clone(), ends.store);
    let streams = streams.run(ends.sockets.stdout, ends.streams);
    tokio::select! {
        ended = async { tokio::try_join!(native, syslog, streams).map(drop) } => ended,
        // Set or dropped: the daemon ends.
        _ = ends.stopped => Ok(()),
    }
}

async fn name_again(desk: Rc<Desk>) {
    let mut looks = tokio::time::interval(NAME);
    loop {
        looks.tick().await;
        desk.name_again();
    }
}

/// Answers those who wait until everything is taken.
async fn answer(mut asked: mpsc::Receiver<oneshot::Sender<()>>, settling: Rc<Settling>) {
    while let Some(reply) = asked.recv().await {
        settling.settle().await;
        // Who asked may be gone.
        let _gone = reply.send(());
    }
}

#[cfg(test)]
mod tests;
