// SPDX-License-Identifier: Apache-2.0
//! The log that `--log` asks for, in the two formats that podman, conmon and containerd read, and
//! what is said on standard error.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

use crate::error::{Doing, Result};

/// The form of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Format {
    /// `time="…" level=error msg="…"`
    Text,
    /// An object a line.
    Json,
}

struct Log {
    file: Option<File>,
    format: Format,
    debug: bool,
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Opens the log; without a file, all goes to standard error.
pub(crate) fn open(path: Option<&Path>, format: Format, debug: bool) -> Result<()> {
    let open = |path: &Path| {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.doing_on("open", path)
    };
    let file = path.map(open).transpose()?;
    // Once a process; a second call would be a mistake that changes nothing.
    let _ = LOG.set(Log {
        file,
        format,
        debug,
    });
    Ok(())
}

/// Something that isn't as it was asked for, and goes on.
pub(crate) fn warn(message: impl AsRef<str>) {
    line("warning", message.as_ref());
}

/// What only `--debug` shows.
pub(crate) fn debug(message: impl AsRef<str>) {
    if LOG.get().is_some_and(|log| log.debug) {
        line("debug", message.as_ref());
    }
}

/// Why the command failed: in the log, and on standard error.
pub(crate) fn error(message: &str) {
    line("error", message);
    if LOG.get().is_some_and(|log| log.file.is_some()) {
        eprintln!("{}", text("error", message));
    }
}

fn line(level: &str, message: &str) {
    let Some(log) = LOG.get() else {
        eprintln!("{}", text(level, message));
        return;
    };
    let line = match log.format {
        Format::Text => text(level, message),
        Format::Json => {
            let time = now();
            serde_json::json!({"level": level, "msg": message, "time": time}).to_string()
        }
    };
    match &log.file {
        // There is nowhere left to say that this failed.
        Some(file) => drop((&*file).write_all(format!("{line}\n").as_bytes())),
        None => eprintln!("{line}"),
    }
}

fn text(level: &str, message: &str) -> String {
    format!("time={:?} level={level} msg={message:?}", now())
}

/// The time, in UTC.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().to_string()
}
