// SPDX-License-Identifier: Apache-2.0
//! `aurae identity audit`: the record of decisions, and whether it is whole.

use api::identity::v0::{AuditEntry, AuditRequest, AuditResponse, AuditVerdict, audit_response};
use client::Node;
use prost_types::Timestamp;
use tonic::{Request, Status};

use crate::failure::{FAILED, Failure};
use crate::output::{Color, Format, OutputArgs, Style, note, print_line, printable, to_value};
use crate::quantity::{format_instant, parse_instant};
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae identity audit --since 1h
  aurae identity audit --denied --actor spiffe://home.example/tenant/blue/user/bob
  aurae identity audit --verify            1 is the exit status when lines were changed or removed
  aurae identity audit -f -o json | jq -c .";

/// `aurae identity audit`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct AuditArgs {
    /// Only lines since then: 10m, 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    since: Option<Timestamp>,
    /// Only lines until then, in the same form
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    until: Option<Timestamp>,
    /// Only of this caller, by SPIFFE ID
    #[arg(long, value_name = "SPIFFE-ID")]
    actor: Option<String>,
    /// Only this action, or a subsystem's
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Only calls that were denied
    #[arg(long)]
    denied: bool,
    /// Go on with what comes
    #[arg(short, long)]
    follow: bool,
    /// Check the chain of hashes and the head that init holds
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prints entries, and the verdict where it was asked for.
pub(super) async fn run(session: &Session, args: &AuditArgs) -> Result<u8, Failure> {
    let request = AuditRequest {
        since: args.since,
        until: args.until,
        actor: args.actor.clone().unwrap_or_default(),
        action: args.action.clone().unwrap_or_default(),
        denied_only: args.denied,
        follow: args.follow,
        verify: args.verify,
    };
    let mut shown = Shown {
        session,
        format: args.output.output,
        request,
        last: 0,
        status: 0,
    };
    let mut node = session.node.clone();
    while let Some(lost) = shown.show(&node).await? {
        node = session.reconnect(lost.into()).await?;
    }
    Ok(shown.status)
}

/// The progress of printing: after a lost connection it continues with the entry after `last`.
struct Shown<'a> {
    session: &'a Session,
    format: Format,
    request: AuditRequest,
    /// The last entry's number.
    last: u64,
    status: u8,
}

impl Shown<'_> {
    /// Prints until the end, or until the connection is lost.
    async fn show(&mut self, node: &Node) -> Result<Option<Status>, Failure> {
        let request = Request::new(self.request.clone());
        let mut answers = match node.identity().audit(request).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return Ok(Some(status)),
        };
        loop {
            match answers.message().await {
                Ok(Some(answer)) => self.print(answer)?,
                Ok(None) => return Ok(None),
                Err(status) => return Ok(Some(status)),
            }
        }
    }

    fn print(&mut self, answer: AuditResponse) -> Result<(), Failure> {
        match answer.message {
            Some(audit_response::Message::Entry(entry)) if entry.sequence > self.last => {
                show_entry(self.session.style, self.format, &entry)?;
                self.last = entry.sequence;
                // Not all of it once more; entries of the same time are known by their numbers.
                self.request.since = entry.time;
            }
            Some(audit_response::Message::Verdict(verdict)) => {
                show_verdict(self.format, &verdict)?;
                self.status = if verdict.intact { 0 } else { FAILED };
            }
            Some(audit_response::Message::Entry(_)) | None => {}
        }
        Ok(())
    }
}

/// For programs a line of JSON each, since there may be no end.
fn show_entry(style: Style, format: Format, entry: &AuditEntry) -> Result<(), Failure> {
    if format.is_machine() {
        return print_line(&to_value(entry)?.to_string());
    }
    let (word, color) = match entry.allowed {
        true => ("allowed", Color::Green),
        false => ("denied ", Color::Red),
    };
    let times = match entry.count {
        0 | 1 => String::new(),
        count => format!(" ({count} times)"),
    };
    let object = match (entry.tenant.as_str(), entry.path.as_str()) {
        _ if !entry.about.is_empty() => format!(" {}", entry.about),
        ("", "") => String::new(),
        (tenant, "") => format!(" {tenant}"),
        (tenant, path) => format!(" {tenant}:{path}"),
    };
    let who = match entry.actor.as_str() {
        "" => String::new(),
        actor => format!(" by {actor}"),
    };
    let why = match entry.note.as_str() {
        "" => String::new(),
        note => format!(": {note}"),
    };
    let also = match entry.also.as_slice() {
        [] => String::new(),
        also => format!(" (with {})", also.join(", ")),
    };
    let line = format!(
        "{} {}{object}{also}{times}{who}{why}",
        entry.action,
        entry.policies.join(","),
    );
    let time = format_instant(entry.time.as_ref());
    print_line(&format!(
        "{} {time} {} {}",
        entry.sequence,
        style.paint(color, word),
        printable(line.trim_start())
    ))
}

fn show_verdict(format: Format, verdict: &AuditVerdict) -> Result<(), Failure> {
    if format.is_machine() {
        return print_line(&to_value(verdict)?.to_string());
    }
    match verdict.intact {
        true => print_line(&format!("the audit is intact: {} entries", verdict.entries)),
        false => {
            note(&format!(
                "the audit is broken: {}",
                printable(&verdict.problem)
            ));
            Ok(())
        }
    }
}
