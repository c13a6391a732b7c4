// SPDX-License-Identifier: Apache-2.0
//! A failure of the client: one sentence, a hint, and the exit status. Errors are classified here
//! alone.

use std::io;

use crate::output::{Color, Style, note, printable};

/// A request failed or was refused.
pub(crate) const FAILED: u8 = 1;
/// The status after wrong usage of the command line.
pub(crate) const USAGE: u8 = 2;
/// A check has findings; a plan meets what it can't know.
pub(crate) const FINDINGS: u8 = 3;
/// The status after Ctrl-C, as a shell has it.
pub(crate) const INTERRUPTED: u8 = 130;
/// An attached run: Aurae failed, not the workload.
pub(crate) const AURAE_FAILED: u8 = 125;
/// An attached run: the program can't be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// An attached run: the program isn't there.
pub(crate) const PROGRAM_NOT_FOUND: u8 = 127;
/// The status after the reader of the output has closed it, as a shell shows it for SIGPIPE.
pub(crate) const BROKEN_PIPE: u8 = 141;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit status of this client.
    pub(crate) status: u8,
    message: String,
    hint: Option<String>,
    /// The program whose name we answer to may do it, where that is there.
    for_original: bool,
}

impl Failure {
    /// A failure with status 1.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            status: FAILED,
            message: message.into(),
            hint: None,
            for_original: false,
        }
    }

    /// The failure, which the program whose name we answer to may not have.
    pub(crate) fn or_by_original(mut self) -> Self {
        self.for_original = true;
        self
    }

    /// Whether that program is to be asked.
    pub(crate) fn is_for_original(&self) -> bool {
        self.for_original
    }

    /// Wrong usage, in words that name the flag.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(message).with_status(USAGE)
    }

    /// The failure, with a hint of what to do.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The failure, with one more hint.
    pub(crate) fn and_hint(mut self, hint: &str) -> Self {
        self.hint = Some(match self.hint {
            Some(first) => format!("{first}\n{hint}"),
            None => hint.to_owned(),
        });
        self
    }

    /// The failure, with another exit status.
    pub(crate) fn with_status(mut self, status: u8) -> Self {
        self.status = status;
        self
    }

    /// The same without our heading: for commands that go by others' names.
    pub(crate) fn report_plainly(&self) {
        for words in std::iter::once(&self.message).chain(&self.hint) {
            if !words.is_empty() {
                note(&printable(words));
            }
        }
    }

    /// What is said of it.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Tells people on standard error.
    pub(crate) fn report(&self, style: Style) {
        if self.message.is_empty() {
            return;
        }
        let error = style.paint(Color::Red, "error:");
        note(&format!("{error} {}", printable(&self.message)));
        if let Some(hint) = &self.hint {
            let heading = style.paint(Color::Cyan, "hint:");
            note(&format!("{heading} {}", printable(hint)));
        }
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        Self {
            status: FAILED,
            message: error.to_string(),
            hint: error.hint(),
            for_original: false,
        }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        client::Error::from(status).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // As with any filter, a reader that closed the pipe is no error to report.
            io::ErrorKind::BrokenPipe => Self::new("").with_status(BROKEN_PIPE),
            _ => Self::new(format!("can't write the output: {error}")),
        }
    }
}
