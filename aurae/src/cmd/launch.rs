// SPDX-License-Identifier: Apache-2.0
//! What `run` and `exec` share once they know what to run: the start, the attachment, and the
//! workload's end as our own status. What is to be run, and where, they say themselves.

use std::io::IsTerminal;

use api::runtime::v0::{
    ErrorReason, ExecutableSpec, Exit, ObjectRef, RemoveRequest, RunExecutableRequest,
    StandardStream, Streams, WaitRequest, exit, standard_stream,
};

use super::started::{detached, hinted};
use crate::attach::{self, DetachKeys, Options, Outcome, parse_keys};
use crate::failure::{AURAE_FAILED, Failure, NOT_EXECUTABLE, PROGRAM_NOT_FOUND};
use crate::output::{Format, meta, note};
use crate::session::Session;

/// How `run` and `exec` are attached.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct AttachmentFlags {
    /// Hand standard input over
    #[arg(short, long)]
    pub(crate) interactive: bool,
    /// Give the program a terminal
    #[arg(short, long)]
    pub(crate) tty: bool,
    /// Do not attach: print the name, see for a moment whether it runs, and leave (with `-o name`,
    /// `json` or `yaml` at once)
    #[arg(short, long, conflicts_with_all = ["interactive"])]
    pub(crate) detach: bool,
    /// Remove the record and the logs when it has ended
    #[arg(long)]
    pub(crate) rm: bool,
    /// Its output comes here alone, as fast as it is read, and is in no log of the node's. It is
    /// cut off with the connection
    #[arg(long, conflicts_with_all = ["tty", "detach"])]
    pub(crate) no_log: bool,
    /// The keys that leave a terminal session
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q", value_parser = parse_keys)]
    pub(crate) detach_keys: DetachKeys,
}

impl AttachmentFlags {
    /// A terminal for us to hand over must be there.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.interactive && self.tty && !std::io::stdin().is_terminal() {
            return Err(
                Failure::usage("-t with -i needs a terminal on standard input")
                    .with_hint("leave -t out where input comes from a pipe or a file"),
            );
        }
        Ok(())
    }

    /// Sets the fields of the spec that the attachment needs.
    pub(crate) fn fill(&self, spec: &mut ExecutableSpec) {
        spec.stdin = self.interactive;
        spec.auto_remove = self.rm;
        if self.no_log {
            spec.streams = Some(to_us());
        }
        if self.tty {
            spec.terminal = Some(attach::terminal_size().unwrap_or_default());
            if let Ok(term) = std::env::var("TERM") {
                spec.env.entry("TERM".to_owned()).or_insert(term);
            }
        }
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            stdin: self.interactive,
            terminal: self.tty,
            // With both, Ctrl-C is a key that goes to the program.
            forward_signals: !(self.tty && self.interactive),
            keys: self.detach_keys.clone(),
            only_new: false,
        }
    }
}

/// Both streams of output lead to who attaches first.
pub(super) fn to_us() -> Streams {
    let attached = || {
        Some(StandardStream {
            kind: standard_stream::Kind::Attached.into(),
            path: String::new(),
        })
    };
    Streams {
        stdin: None,
        stdout: attached(),
        stderr: attached(),
    }
}

/// Asks the node to run it, and stays attached unless `--detach` is given.
pub(crate) async fn launch(
    session: &Session,
    request: RunExecutableRequest,
    flags: &AttachmentFlags,
    format: Format,
) -> Result<u8, Failure> {
    let has_own_cell = request.own_cell.is_some();
    let spec = request.executable.as_ref().and_then(|it| it.spec.as_ref());
    let argv = spec.map(|spec| spec.argv.clone()).unwrap_or_default();
    // The node knows a request id as long as the record of its run: what removes itself may be over
    // and forgotten when it is asked again.
    let is_kept = request.attach_follows || !spec.is_some_and(|spec| spec.auto_remove);
    let known_by = if is_kept {
        request.request_id.as_str()
    } else {
        ""
    };
    let start = async |node: &client::Node| {
        let request = node.unary(request.clone());
        node.runtime().run_executable(request).await
    };
    let status = match session.ask_with(known_by, start).await {
        Ok(status) => status,
        Err(problem) => return Err(hinted(session, classify(problem), &argv)),
    };
    if flags.detach {
        return detached(session, format, status).await;
    }
    let reference = status.meta.and_then(|meta| meta.r#ref).unwrap_or_default();
    let outcome = attach::attach(session, reference.clone(), flags.options()).await;
    match outcome.map_err(aurae_failed)? {
        Outcome::Exited(exit) => {
            let status = exit_status(&reference.path, &exit);
            if has_own_cell {
                wait_for_own_cell(session, &reference, &exit).await;
            }
            if flags.rm {
                remove(session, reference).await;
            }
            Ok(status)
        }
        Outcome::Left(status) => {
            if !flags.no_log {
                say_that_it_runs_on(&reference.path);
            }
            Ok(status)
        }
    }
}

/// The reader's going keeps its own status.
pub(super) fn aurae_failed(failure: Failure) -> Failure {
    match failure.status {
        crate::failure::FAILED => failure.with_status(AURAE_FAILED),
        _ => failure,
    }
}

pub(crate) fn say_that_it_runs_on(path: &str) {
    note(&format!(
        "{path} runs on; `aurae attach {path}` comes back to it"
    ));
}

/// The statuses that shells know.
fn classify(problem: client::Error) -> Failure {
    let reason = problem.refusal().map(|refusal| refusal.reason);
    let status = match reason {
        Some(ErrorReason::ProgramNotFound) => PROGRAM_NOT_FOUND,
        Some(ErrorReason::ProgramNotExecutable) => NOT_EXECUTABLE,
        _ => AURAE_FAILED,
    };
    Failure::from(problem).with_status(status)
}

/// The workload's end as our own status.
pub(crate) fn exit_status(path: &str, exit: &Exit) -> u8 {
    if exit.oom_killed {
        note(&format!("{path} was killed: out of memory"));
    }
    match exit.how {
        Some(exit::How::Code(code)) => u8::try_from(code).unwrap_or(u8::MAX),
        Some(exit::How::Signal(signal)) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        Some(exit::How::Unknown(_)) | None => {
            note(&format!(
                "{path} has ended, but its status is not known: its parent was lost"
            ));
            AURAE_FAILED
        }
    }
}

/// Waits until the cell that was created for the run has ended, so that the name is free when the
/// client ends. A failed call isn't reported: the run itself is over.
async fn wait_for_own_cell(session: &Session, executable: &ObjectRef, exit: &Exit) {
    let Some((path, _)) = executable.path.rsplit_once('/') else {
        return;
    };
    let Ok(found) = session.get(session.reference(path)).await else {
        return;
    };
    let Some(meta) = meta(&found) else { return };
    let time = |time: &prost_types::Timestamp| (time.seconds, time.nanos);
    let created = meta.created.as_ref().map(time);
    let ended = exit.finished.as_ref().map(time);
    // A cell that was created after the run's end is another caller's.
    if created.is_some() && created < ended {
        let request = WaitRequest {
            r#ref: meta.r#ref.clone(),
        };
        let _ = session
            .node
            .runtime()
            .wait(session.node.unary(request))
            .await;
    }
}

/// Asks for what the node does by itself once we have left, so that the record is gone when we end.
async fn remove(session: &Session, reference: ObjectRef) {
    let request = RemoveRequest {
        r#ref: Some(reference),
        ..Default::default()
    };
    let request = session.node.unary(request);
    let _gone_already_or_soon = session.node.runtime().remove(request).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workloads_end_is_our_status() {
        let status = |how| {
            exit_status(
                "a",
                &Exit {
                    how: Some(how),
                    ..Default::default()
                },
            )
        };
        assert_eq!(status(exit::How::Code(7)), 7);
        assert_eq!(status(exit::How::Signal(9)), 137);
        assert_eq!(status(exit::How::Unknown(true)), AURAE_FAILED);
    }
}
