// SPDX-License-Identifier: Apache-2.0
//! Output that a timer or a stream prints while the user types a line: it is shown above the
//! prompt, and the line stays. During an evaluation there is no prompt, and output is printed
//! directly (`Printer`).

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustyline::ExternalPrinter;
use script::host::Output;

use super::super::script::execute::Printer;
use crate::failure::Failure;

/// The editor's way to show something above the prompt.
pub(super) type ToPrompt = Box<dyn ExternalPrinter + Send>;

/// Texts on their way to the prompt; one more goes straight out, over the prompt.
const QUEUE: usize = 64;

/// Shows text above the prompt where there is one.
#[derive(Debug)]
pub(super) struct Above {
    prompting: AtomicBool,
    queue: SyncSender<String>,
    printer: Printer,
}

impl Above {
    /// Starts the thread that hands texts to the editor, which takes them while it prompts alone:
    /// no other thread may wait for that.
    pub(super) fn start(to: ToPrompt) -> Result<Arc<Self>, Failure> {
        let (queue, texts) = sync_channel(QUEUE);
        std::thread::Builder::new()
            .name("above".to_owned())
            .spawn(move || hand_over(&texts, to))
            .map_err(|problem| Failure::new(format!("can't start the prompt: {problem}")))?;
        Ok(Arc::new(Self {
            prompting: AtomicBool::new(false),
            queue,
            printer: Printer::default(),
        }))
    }

    /// Whether there is a prompt from now on.
    pub(super) fn prompting(&self, is: bool) {
        self.prompting.store(is, Ordering::Relaxed);
    }
}

fn hand_over(texts: &Receiver<String>, mut to: ToPrompt) {
    while let Ok(text) = texts.recv() {
        if to.print(text).is_err() {
            return;
        }
    }
}

impl Output for Above {
    fn print(&self, error: bool, text: String) -> BoxFuture<'_, ()> {
        let elsewhere = error && !std::io::stderr().is_terminal();
        if elsewhere || !self.prompting.load(Ordering::Relaxed) {
            return self.printer.print(error, text);
        }
        match self.queue.try_send(text) {
            Ok(()) => std::future::ready(()).boxed(),
            Err(TrySendError::Full(text) | TrySendError::Disconnected(text)) => {
                self.printer.print(error, text)
            }
        }
    }
}
