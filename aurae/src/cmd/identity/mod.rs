// SPDX-License-Identifier: Apache-2.0
//! `aurae identity`: certificates, users, permissions, the audit.

mod audit;
mod credentials;
mod grants;
mod users;

use api::identity::v0::{WhoAmIRequest, WhoAmIResponse};
use clap::Subcommand;

use crate::failure::Failure;
use crate::output::{OutputArgs, Table, print, print_message};
use crate::quantity::format_instant;
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae identity whoami
  aurae identity user create nova --tenant blue
  aurae identity issue nova --tenant blue --out nova      a key and certificates for her
  aurae identity allow nova runtime.RunCell --tenant blue --path web
  aurae identity audit --verify";

/// `aurae identity`.
#[derive(Clone, Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct IdentityArgs {
    #[command(subcommand)]
    command: IdentityCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum IdentityCommand {
    /// Show who you are to the node
    #[command(
        name = "whoami",
        after_help = "Examples:\n  aurae identity whoami\n  aurae identity whoami -o json"
    )]
    WhoAmI(OutputArgs),
    /// Create, list, disable and enable users
    User(users::UserArgs),
    /// Make a key and have it certified for a user
    Issue(credentials::IssueArgs),
    /// Make a key and a signing request, for an administrator to certify
    Csr(credentials::CsrArgs),
    /// Get a new certificate for yourself
    Renew(credentials::RenewArgs),
    /// List a user's certificates, and which descends from which
    Certificates(credentials::CertificatesArgs),
    /// Refuse a certificate and what descends from it, or a user's up to a moment
    Revoke(credentials::RevokeArgs),
    /// Let a user do an action, or all of a subsystem
    Allow(grants::GrantArgs),
    /// Forbid it; wins over every permission
    Deny(grants::GrantArgs),
    /// Take a grant back
    Withdraw(grants::WithdrawArgs),
    /// Say whether a call would be allowed, and why
    Explain(grants::ExplainArgs),
    /// Show every decision, and check that none was removed
    Audit(audit::AuditArgs),
}

impl IdentityArgs {
    /// Whether it needs no node.
    pub(crate) fn is_offline(&self) -> bool {
        matches!(self.command, IdentityCommand::Csr(_))
    }
}

/// Does what needs no node.
pub(crate) fn run_offline(args: &IdentityArgs) -> Result<u8, Failure> {
    match &args.command {
        IdentityCommand::Csr(args) => credentials::csr(args),
        _ => Ok(0),
    }
}

/// Runs one of the commands of `aurae identity`; the exit status.
pub(crate) async fn run(session: &Session, args: &IdentityArgs) -> Result<u8, Failure> {
    match &args.command {
        IdentityCommand::WhoAmI(args) => whoami(session, *args).await?,
        IdentityCommand::User(args) => users::run(session, args).await?,
        IdentityCommand::Issue(args) => credentials::issue(session, args).await?,
        IdentityCommand::Csr(args) => return credentials::csr(args),
        IdentityCommand::Renew(args) => credentials::renew(session, args).await?,
        IdentityCommand::Certificates(args) => credentials::certificates(session, args).await?,
        IdentityCommand::Revoke(args) => credentials::revoke(session, args).await?,
        IdentityCommand::Allow(args) => grants::allow(session, args).await?,
        IdentityCommand::Deny(args) => grants::deny(session, args).await?,
        IdentityCommand::Withdraw(args) => grants::withdraw(session, args).await?,
        IdentityCommand::Explain(args) => return grants::explain(session, args).await,
        IdentityCommand::Audit(args) => return audit::run(session, args).await,
    }
    Ok(0)
}

/// What the node knows the caller as.
async fn who_am_i(session: &Session) -> Result<WhoAmIResponse, Failure> {
    let who = async |node: &client::Node| {
        let request = node.unary(WhoAmIRequest {});
        node.identity().who_am_i(request).await
    };
    session.ask(who).await
}

async fn whoami(session: &Session, args: OutputArgs) -> Result<(), Failure> {
    let answer = who_am_i(session).await?;
    if args.output.is_machine() {
        return print_message(args.output, &answer);
    }
    let mut table = Table::new(&["WHOAMI", ""]);
    for (name, value) in [
        ("spiffe id", answer.spiffe_id),
        ("tenant", answer.tenant),
        ("user", answer.user),
        (
            "administrator",
            if answer.administrator { "yes" } else { "no" }.to_owned(),
        ),
        ("certificate", answer.serial),
        ("expires", format_instant(answer.expires.as_ref())),
        ("node", answer.node),
        ("trust domain", answer.trust_domain),
    ] {
        table.push(vec![name.into(), value.into()]);
    }
    print(&table.render(session.style))
}
