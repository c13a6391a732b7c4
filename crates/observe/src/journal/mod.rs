// SPDX-License-Identifier: Apache-2.0
//! The journal: what comes through the sockets that systemd's journal has (`/dev/log`, the native
//! protocol, the stream protocol) and from the kernel, as entries with fields, in a log like every
//! other one: the same mover stores it, the same retention bounds it.
//!
//! ```text
//! sockets, /dev/kmsg ──► receive ──► desk: limit, sender, frame ──► pipe ──► mover ──► segments
//!                                      └──► rsyslog's socket                            │
//!                                                      Observe.Journal ◄── read ◄───────┘
//! ```
//!
//! What units print by themselves isn't here: that is their executables' logs. Parsing is pure
//! (`native`, `syslog`, `stdout`, `kmsg`, `frame`, `limit`); the sockets are `receive`'s.

mod desk;
mod entry;
mod frame;
mod kernel_log;
mod kmsg;
mod limit;
mod native;
mod read;
mod receive;
mod sender;
mod stdout;
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
use tokio::sync::oneshot;

use super::folder::LogKey;
use super::logs::Logs;
pub use entry::{Entry, LARGEST};
pub use limit::RateLimit;
pub(crate) use read::read;
pub use read::{JournalItem, JournalStream};
pub use sender::{Owner, Owners};

use desk::Desk;
use receive::Sockets;
use sender::Senders;

/// The run that the journal's log is of. No executable has it: theirs are random.
const UID: Uid = Uid(*b"aurae.journal.00");
/// What the pipe to the mover holds.
const PIPE: usize = 1 << 20;
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
    /// Makes the sockets and takes what comes.
    ///
    /// # Errors
    /// They can't be made, or the log can't be attached.
    pub async fn start(
        config: JournalConfig,
        logs: &Logs,
        owners: Arc<dyn Owners>,
    ) -> Result<Journal, Error> {
        let sockets = Sockets::make(&config.folder).map_err(failed("the journal's sockets"))?;
        if let Some(link) = &config.link {
            put_link(link, &config.folder.join("dev-log")).map_err(failed("/dev/log"))?;
        }
        let (end, log) = pipe_pair().map_err(|error| failed("the journal's pipe")(error))?;
        let policy = LogPolicy {
            max_bytes: Some(config.max_bytes),
            ..LogPolicy::default()
        };
        logs.attach(key(), vec![(Stream::Stdout, end)], &policy)
            .await?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("journal".to_owned());
        thread
            .spawn(move || keep(config, sockets, log, owners, stopped))
            .map_err(failed("the journal's thread"))?;
        Ok(Journal { _stop: stop })
    }
}

/// The read end and the write end of a pipe to the mover.
fn pipe_pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
    let (read, write) = rustix::pipe::pipe_with(flags)?;
    // A smaller one serves, too: the bound of a user's pipes may be reached.
    let _smaller = rustix::pipe::fcntl_setpipe_size(&write, PIPE);
    Ok((read, write))
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

/// The thread, until the daemon ends.
fn keep(
    config: JournalConfig,
    sockets: Sockets,
    log: OwnedFd,
    owners: Arc<dyn Owners>,
    stopped: oneshot::Receiver<()>,
) {
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
    let tasks = tokio::task::LocalSet::new();
    let work = async move {
        let log = match pipe::Sender::from_owned_fd(log) {
            Ok(log) => log,
            Err(error) => {
                tracing::error!(%error, "the journal can't be begun");
                return;
            }
        };
        let forward = Some(config.folder.join("syslog"));
        let senders = Senders::new(owners);
        let desk = Desk::new(senders, config.limit, log, config.boot_id, forward);
        let desk = Rc::new(desk);
        if let Some(mark) = config.kernel {
            let desk = desk.clone();
            tokio::task::spawn_local(async move {
                if let Err(error) = kernel_log::run(&mark, desk).await {
                    tracing::warn!(%error, "the kernel's messages aren't taken");
                }
            });
        }
        let named = desk.clone();
        tokio::task::spawn_local(async move {
            let mut looks = tokio::time::interval(NAME);
            loop {
                looks.tick().await;
                named.name_again();
            }
        });
        tokio::select! {
            ended = receive::run(sockets, desk) => {
                if let Err(error) = ended {
                    tracing::error!(%error, "the journal's sockets aren't read any more");
                }
            }
            // Set or dropped: the daemon ends.
            _ = stopped => {}
        }
    };
    tasks.block_on(&runtime, work);
}

#[cfg(test)]
mod tests;
