// SPDX-License-Identifier: Apache-2.0
//! The child process and its streams. A thread writes what is left for it and a thread reads what
//! it says, so that the loop waits for neither; both end with the child.

use std::io::{self, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};

use lsp_server::Message;

use crate::lsp::Incoming;
use crate::lsp::wire::{self, Frame};
use crate::tsc::{Compiler, confine};

/// Messages that may wait to be written; a child that doesn't read as many is hung.
const LEFT: usize = 1024;

pub(super) struct Pipe {
    child: Child,
    writer: SyncSender<Message>,
}

impl Pipe {
    /// Starts it. What it says comes to `sender` with its generation, at the end that it ended.
    ///
    /// # Errors
    /// It, or a thread for it, can't be started.
    pub(super) fn open(
        compiler: &Compiler,
        generation: u32,
        sender: SyncSender<Incoming>,
    ) -> io::Result<Self> {
        let mut command = Command::new(compiler.program());
        command
            .args(["--lsp", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = confine(&mut command)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (writer, left) = sync_channel::<Message>(LEFT);
        // From here on it is killed where something fails.
        let pipe = Self { child, writer };
        let (Some(mut input), Some(output)) = (input, output) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        std::thread::Builder::new()
            .name("lsp-ts-writer".into())
            .spawn(move || {
                for message in left {
                    if wire::write(&mut input, message).is_err() {
                        return;
                    }
                }
            })?;
        std::thread::Builder::new()
            .name("lsp-ts-reader".into())
            .spawn(move || {
                let mut output = BufReader::new(output);
                loop {
                    let said = match wire::read(&mut output) {
                        Ok(Some(Frame::Message(message))) => Some(message),
                        Ok(Some(Frame::Bad(_))) => continue,
                        Ok(None) | Err(_) => None,
                    };
                    let ends = said.is_none();
                    let told = Incoming::TypeScript(generation, said);
                    if sender.send(told).is_err() || ends {
                        return;
                    }
                }
            })?;
        Ok(pipe)
    }

    /// Leaves a message for it; false if it takes none any more.
    pub(super) fn send(&self, message: Message) -> bool {
        self.writer.try_send(message).is_ok()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
