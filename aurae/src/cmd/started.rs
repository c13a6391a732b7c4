// SPDX-License-Identifier: Apache-2.0
//! The messages of `run` and `exec` about a program that isn't there, and about one that ends soon
//! after a detached start: a daemon that can't read its configuration ends within milliseconds, and
//! the user should see that.

use std::path::Path;
use std::time::Duration;

use api::observe::v0::{LogsRequest, logs_response};
use api::runtime::v0::{
    ExecutableStatus, Exit, Object, ObjectRef, Stream, WaitRequest, exit, object,
};
use tonic::Request;

use crate::failure::{FAILED, Failure, PROGRAM_NOT_FOUND};
use crate::output::{Format, exit_words, note, print_line, print_message, printable};
use crate::session::Session;

/// How long a program that was started detached is watched.
const MOMENT: Duration = Duration::from_millis(500);
/// How many of its last lines are shown.
const LINES: u64 = 10;

/// Prints the name of what was started, and waits a moment: status 1 where it has failed already.
/// Who asks for the name alone, or for a message to read, is a program: it isn't kept waiting.
pub(super) async fn detached(
    session: &Session,
    format: Format,
    status: ExecutableStatus,
) -> Result<u8, Failure> {
    let reference = status.meta.as_ref().and_then(|meta| meta.r#ref.clone());
    let reference = reference.unwrap_or_default();
    match format.is_machine() {
        true => print_message(format, &as_object(status))?,
        false => print_line(&reference.path)?,
    }
    if format.is_machine() || format == Format::Name {
        return Ok(0);
    }
    let Some(exit) = ended(session, &reference).await else {
        return Ok(0);
    };
    let path = &reference.path;
    let end = exit_words(&exit);
    if is_success(&exit) {
        note(&format!("{path} has ended already: {end}"));
        return Ok(0);
    }
    show_last_lines(session, &reference).await;
    Err(Failure::new(format!("{path} has ended already: {end}"))
        .with_hint(format!("`aurae logs {path}` shows all that it printed"))
        .with_status(FAILED))
}

fn as_object(status: ExecutableStatus) -> Object {
    Object {
        object: Some(object::Object::Executable(status)),
    }
}

fn is_success(exit: &Exit) -> bool {
    matches!(exit.how, Some(exit::How::Code(0)))
}

/// The program's end, if it came within that moment. `None` also where the node didn't answer.
async fn ended(session: &Session, reference: &ObjectRef) -> Option<Exit> {
    let request = WaitRequest {
        r#ref: Some(reference.clone()),
    };
    let mut runtime = session.node.runtime();
    let wait = runtime.wait(Request::new(request));
    let answer = tokio::time::timeout(MOMENT, wait).await.ok()?.ok()?;
    match answer.into_inner().object? {
        object::Object::Executable(status) => status.exit,
        object::Object::Cell(_) => None,
    }
}

/// Why it ended is mostly in its last lines. Where there are none, there is nothing to show.
async fn show_last_lines(session: &Session, reference: &ObjectRef) {
    let request = LogsRequest {
        refs: vec![reference.clone()],
        tail: Some(LINES),
        ..Default::default()
    };
    let request = session.node.within(request, MOMENT);
    let Ok(answer) = session.node.observe().logs(request).await else {
        return;
    };
    let mut answers = answer.into_inner();
    let mut text = [String::new(), String::new()];
    while let Ok(Some(answer)) = answers.message().await {
        if let Some(logs_response::Message::Data(data)) = answer.message {
            let [out, err] = &mut text;
            let stream = if data.stream() == Stream::Stderr {
                err
            } else {
                out
            };
            stream.push_str(&String::from_utf8_lossy(&data.data));
        }
    }
    let [out, err] = text;
    for line in out.lines().chain(err.lines()) {
        note(&format!("  {}", printable(line)));
    }
}

/// A refusal of a program that is a file here: a cell does not see the caller's folder.
pub(super) fn hinted(session: &Session, failure: Failure, argv: &[String]) -> Failure {
    let program = argv.first().map(String::as_str).unwrap_or_default();
    let is_here = program.contains('/') && Path::new(program).is_file();
    if failure.status != PROGRAM_NOT_FOUND || !is_here {
        return failure;
    }
    match session.target.address.is_of_this_machine() {
        true => failure.with_hint(format!(
            "the cell doesn't see your folder: `aurae run --read $PWD -w $PWD -- {}`",
            argv.join(" ")
        )),
        false => failure.with_hint("the file is here, not on the node: copy it there first"),
    }
}
