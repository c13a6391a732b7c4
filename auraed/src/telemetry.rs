// SPDX-License-Identifier: Apache-2.0
//! The daemon's own log: lines on standard error, which go to the console or to the service manager
//! around the node, and messages for the journal, where the node has one. Not the workloads'
//! output, which `observe` stores.

use std::io::{self, Write};

use observe::journal::{Speaker, Words, own_words};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// Changes what is logged while the daemon runs.
#[derive(Clone)]
pub(crate) struct LogLevel(reload::Handle<EnvFilter, Registry>);

/// Starts logging at the configured level. An unusable level is logged, and `info` is used. What
/// comes beside is for the journal.
pub(crate) fn start(level: &str) -> (LogLevel, Words) {
    let (speaker, words) = own_words();
    let messages = fmt::layer()
        .with_writer(ToJournal(speaker))
        .with_target(false)
        .with_level(false)
        .without_time()
        .with_ansi(false);
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false);
    // Under a service manager each line gets its time from it.
    let managed = std::env::var_os("JOURNAL_STREAM").is_some();
    let registry = tracing_subscriber::registry().with(filter).with(messages);
    let started = if managed {
        registry.with(lines.without_time()).try_init()
    } else {
        registry.with(lines).try_init()
    };
    if let Err(error) = started {
        eprintln!("auraed: the log can't be started: {error}");
    }
    (LogLevel(handle), words)
}

/// Writes each event as one message.
struct ToJournal(Speaker);

/// Where the text of one event goes.
struct Message<'a> {
    speaker: &'a Speaker,
    priority: u8,
}

impl<'a> MakeWriter<'a> for ToJournal {
    type Writer = Message<'a>;

    fn make_writer(&'a self) -> Message<'a> {
        let priority = priority(Level::INFO);
        Message {
            speaker: &self.0,
            priority,
        }
    }

    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> Message<'a> {
        let priority = priority(*meta.level());
        Message {
            speaker: &self.0,
            priority,
        }
    }
}

/// As of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

/// The layer writes a whole event at once.
impl Write for Message<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.speaker.say(self.priority, text.trim_ascii());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogLevel {
    /// Logs at another level from now on.
    pub(crate) fn set(&self, level: &str) {
        if let Err(error) = self.0.reload(filter(level)) {
            tracing::error!(%error, "the log level can't be changed");
        }
    }
}

fn filter(level: &str) -> EnvFilter {
    EnvFilter::try_new(level).unwrap_or_else(|error| {
        eprintln!("auraed: node.log_level: {level:?} is not understood ({error}); using info");
        EnvFilter::new("info")
    })
}
