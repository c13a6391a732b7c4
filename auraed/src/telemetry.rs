// SPDX-License-Identifier: Apache-2.0
//! The daemon's own log: lines on standard error, which go to the console or to the service manager
//! around the node. Not the workloads' output, which `observe` stores.

use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// Changes what is logged while the daemon runs.
#[derive(Clone)]
pub(crate) struct LogLevel(reload::Handle<EnvFilter, Registry>);

/// Starts logging at the configured level. An unusable level is logged, and `info` is used.
pub(crate) fn start(level: &str) -> LogLevel {
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false);
    // Under a service manager each line gets its time from it.
    let managed = std::env::var_os("JOURNAL_STREAM").is_some();
    let registry = tracing_subscriber::registry().with(filter);
    let started = if managed {
        registry.with(lines.without_time()).try_init()
    } else {
        registry.with(lines).try_init()
    };
    if let Err(error) = started {
        eprintln!("auraed: the log can't be started: {error}");
    }
    LogLevel(handle)
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
