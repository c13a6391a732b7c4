// SPDX-License-Identifier: Apache-2.0
//! `aurae identity issue|csr|renew|certificates|revoke`: certificates. Keys are made here and stay
//! here.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api::identity::v0::{
    IssueRequest, IssueResponse, ListCertificatesRequest, RenewRequest, RevokeRequest,
};
use client::credentials::NewKey;
use client::write_private;

use crate::failure::Failure;
use crate::output::{Cell, Color, Format, OutputArgs, Table, note, print_line, print_message};
use crate::quantity::{format_duration, format_instant, parse_duration, parse_instant};
use crate::session::Session;
use crate::spec::wire_duration;

const ISSUE_EXAMPLES: &str = "\
Examples:
  aurae identity issue alice --tenant blue --out alice/     writes alice.key, alice.pem, ca.pem
  aurae identity issue alice --tenant blue --csr alice.csr > alice.pem

With --csr the key stays with the user who made the request (`aurae identity csr`).";

/// `aurae identity issue`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ISSUE_EXAMPLES)]
pub(super) struct IssueArgs {
    /// The folder for the key and the certificates
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "csr",
        required_unless_present = "csr"
    )]
    out: Option<PathBuf>,
    /// Certify the key of this signing request (PEM) instead of making one
    #[arg(long, value_name = "FILE")]
    csr: Option<PathBuf>,
    /// How long it is valid; at most, and by default, what the node's configuration says
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    lifetime: Option<Duration>,
    /// The user; of the tenant that --tenant names
    #[arg(value_name = "USER")]
    user: String,
}

/// `aurae identity csr`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae identity csr --key alice.key > alice.csr")]
pub(super) struct CsrArgs {
    /// Where the key is, or is to be written
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// A name in the request, for people
    #[arg(long, value_name = "NAME", default_value = "aurae")]
    name: String,
}

const RENEW_EXAMPLES: &str = "\
Examples:
  aurae identity renew                      the current context's certificate
  aurae identity renew --if-due=8h          only when less than that is left: for a timer
  aurae identity renew --rotate-key         with a new key";

/// `aurae identity renew`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = RENEW_EXAMPLES)]
pub(super) struct RenewArgs {
    /// Only when less than this is left (8h)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration,
        num_args = 0..=1, require_equals = true, default_missing_value = "8h")]
    if_due: Option<Duration>,
    /// Make a new key, too
    #[arg(long)]
    rotate_key: bool,
    /// How long it is valid
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    lifetime: Option<Duration>,
}

const REVOKE_EXAMPLES: &str = "\
Examples:
  aurae identity revoke 3fa8c1 --reason 'laptop lost'
  aurae identity revoke --user alice --tenant blue --before now
  aurae identity revoke --user alice --tenant blue --before 2h

What descends from a revoked certificate by renewal is revoked with it (`aurae identity certificates`).";

/// `aurae identity revoke`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = REVOKE_EXAMPLES)]
pub(super) struct RevokeArgs {
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Every certificate of this user that was issued before --before, instead of one
    #[arg(
        long,
        value_name = "USER",
        requires = "before",
        conflicts_with = "serial"
    )]
    user: Option<String>,
    /// The moment: now, 2h (ago), 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", requires = "user", value_parser = parse_moment)]
    before: Option<prost_types::Timestamp>,
    /// The certificate's serial number, in hexadecimal
    #[arg(value_name = "SERIAL", required_unless_present = "user")]
    serial: Option<String>,
}

fn parse_moment(text: &str) -> Result<prost_types::Timestamp, String> {
    match text {
        "now" => Ok(std::time::SystemTime::now().into()),
        text => parse_instant(text).map_err(|error| error.to_string()),
    }
}

/// Runs `aurae identity issue`.
pub(super) async fn issue(session: &Session, args: &IssueArgs) -> Result<(), Failure> {
    let (key, csr_pem) = match &args.csr {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|problem| {
                Failure::usage(format!("--csr: can't read {}: {problem}", file.display()))
            })?;
            (None, text)
        }
        None => {
            let key = NewKey::generate()?;
            let request = key.signing_request(&args.user)?;
            (Some(key), request)
        }
    };
    let request = session.node.unary(IssueRequest {
        tenant: session.tenant(),
        name: args.user.clone(),
        csr_pem,
        lifetime: args.lifetime.map(wire_duration),
    });
    let answer = session.node.identity().issue(request).await?.into_inner();
    match (&args.out, key) {
        (Some(folder), Some(key)) => write_all(folder, &args.user, &key, &answer)?,
        _ => crate::output::print(&answer.certificate_pem)?,
    }
    say(&answer);
    Ok(())
}

fn write_all(
    folder: &Path,
    user: &str,
    key: &NewKey,
    answer: &IssueResponse,
) -> Result<(), Failure> {
    let files = [
        (folder.join(format!("{user}.key")), key.to_pem()),
        (
            folder.join(format!("{user}.pem")),
            answer.certificate_pem.clone(),
        ),
        (folder.join("ca.pem"), answer.ca_pem.clone()),
    ];
    for (file, content) in files {
        write_private(&file, content.as_bytes())?;
        print_line(&file.display().to_string())?;
    }
    Ok(())
}

fn say(answer: &IssueResponse) {
    note(&format!(
        "{} until {}, serial {}",
        answer.spiffe_id,
        format_instant(answer.expires.as_ref()),
        answer.serial
    ));
}

/// Makes a key where there is none, and prints a request for it.
pub(super) fn csr(args: &CsrArgs) -> Result<u8, Failure> {
    let key = if args.key.exists() {
        NewKey::load(&args.key)?
    } else {
        let key = NewKey::generate()?;
        write_private(&args.key, key.to_pem().as_bytes())?;
        note(&format!("wrote a new key to {}", args.key.display()));
        key
    };
    crate::output::print(&key.signing_request(&args.name)?)?;
    Ok(0)
}

/// Renews. With the same key, one file is replaced at once: there is no moment without a valid
/// pair.
pub(super) async fn renew(session: &Session, args: &RenewArgs) -> Result<(), Failure> {
    if let Some(due) = args.if_due
        && let Some(left) = time_left(session).await?.filter(|left| *left > due)
    {
        note(&format!("not due: {} left", format_duration(left)));
        return Ok(());
    }
    let target = &session.target;
    let key = match args.rotate_key {
        true => NewKey::generate()?,
        false => NewKey::load(&target.key)?,
    };
    let request = session.node.unary(RenewRequest {
        csr_pem: key.signing_request("aurae")?,
        lifetime: args.lifetime.map(wire_duration),
    });
    let answer = session.node.identity().renew(request).await?.into_inner();
    if args.rotate_key {
        write_private(&target.key, key.to_pem().as_bytes())?;
    }
    write_private(&target.certificate, answer.certificate_pem.as_bytes())?;
    print_line(&target.certificate.display().to_string())?;
    say(&answer);
    Ok(())
}

async fn time_left(session: &Session) -> Result<Option<Duration>, Failure> {
    let expires = super::who_am_i(session)
        .await?
        .expires
        .and_then(|time| std::time::SystemTime::try_from(time).ok());
    Ok(expires.and_then(|time| time.duration_since(std::time::SystemTime::now()).ok()))
}

/// Revokes, and prints what was revoked.
pub(super) async fn revoke(session: &Session, args: &RevokeArgs) -> Result<(), Failure> {
    let tenant = args.user.as_ref().map(|_| session.tenant());
    let request = session.node.unary(RevokeRequest {
        serial: args.serial.clone().unwrap_or_default(),
        reason: args.reason.clone(),
        user: args.user.clone().unwrap_or_default(),
        tenant: tenant.unwrap_or_default(),
        before: args.before,
    });
    let answer = session.node.identity().revoke(request).await?.into_inner();
    answer
        .serials
        .iter()
        .try_for_each(|serial| print_line(serial))
}

/// `aurae identity certificates`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae identity certificates alice --tenant blue")]
pub(super) struct CertificatesArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The user; oneself where none is named
    #[arg(value_name = "USER", default_value = "")]
    user: String,
}

/// Lists certificates with their lineage.
pub(super) async fn certificates(
    session: &Session,
    args: &CertificatesArgs,
) -> Result<(), Failure> {
    let request = ListCertificatesRequest {
        tenant: session.tenant(),
        name: args.user.clone(),
    };
    let list = async |node: &client::Node| {
        let request = node.unary(request.clone());
        node.identity().list_certificates(request).await
    };
    let answer = session.ask(list).await?;
    let certificates = &answer.certificates;
    match args.output.output {
        format if format.is_machine() => return print_message(format, &answer),
        Format::Name => {
            return certificates
                .iter()
                .try_for_each(|it| print_line(&it.serial));
        }
        _ => {}
    }
    if certificates.is_empty() {
        note("the node knows no certificate of this user");
        return Ok(());
    }
    let mut table = Table::new(&["SERIAL", "PARENT", "ISSUED", "EXPIRES", "STATE"]);
    for certificate in certificates {
        let (state, color) = match (certificate.live, certificate.revoked) {
            (true, _) => ("live", Color::Green),
            (false, true) => ("revoked", Color::Red),
            (false, false) => ("not admitted", Color::Red),
        };
        let parent = Some(certificate.parent.as_str()).filter(|parent| !parent.is_empty());
        table.push(vec![
            certificate.serial.as_str().into(),
            parent.unwrap_or("-").into(),
            format_instant(certificate.issued.as_ref()).into(),
            format_instant(certificate.expires.as_ref()).into(),
            Cell::colored(state, Some(color)),
        ]);
    }
    crate::output::print(&table.render(session.style))
}
