// SPDX-License-Identifier: Apache-2.0
//! `aurae identity allow|deny|withdraw|explain`: what users may do.

use api::identity::v0::{
    AllowRequest, DenyRequest, ExplainRequest, Grant, WithdrawRequest, grant::Effect,
};

use crate::failure::{FAILED, Failure};
use crate::output::{Color, Format, OutputArgs, print_line, print_message};
use crate::session::Session;

const GRANT_EXAMPLES: &str = "\
Examples:
  aurae identity allow alice runtime                  all of the runtime, on her own tenant's
  aurae identity allow alice observe.Logs --target-tenant green --path web
  aurae identity deny bob runtime.Stop --tenant blue";

/// `aurae identity allow`, `deny`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = GRANT_EXAMPLES)]
pub(super) struct GrantArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The tenant whose objects it is about, instead of the user's own
    #[arg(long, value_name = "TENANT")]
    target_tenant: Option<String>,
    /// Only objects at or below this path
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// The user; of the tenant that --tenant names
    #[arg(value_name = "USER")]
    user: String,
    /// An action such as runtime.Stop, or a subsystem
    #[arg(value_name = "ACTION")]
    action: String,
}

/// `aurae identity withdraw`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae identity withdraw grant-17\n\n\
                  Ids are in `aurae identity user ls -o json`.")]
pub(super) struct WithdrawArgs {
    /// The id of the grant
    #[arg(value_name = "ID")]
    id: String,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  aurae identity explain runtime.Stop --path web
  aurae identity explain runtime.Stop --user bob --tenant blue

The exit status is 0 when it is allowed, 1 when it is not.";

/// `aurae identity explain`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The user to explain, instead of yourself
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The tenant of the object, instead of the user's own
    #[arg(long, value_name = "TENANT")]
    target_tenant: Option<String>,
    /// The path of the object
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// An action such as runtime.Stop
    #[arg(value_name = "ACTION")]
    action: String,
}

/// Runs `aurae identity allow`.
pub(super) async fn allow(session: &Session, args: &GrantArgs) -> Result<(), Failure> {
    let request = session.node.unary(AllowRequest {
        tenant: session.tenant(),
        user: args.user.clone(),
        action: args.action.clone(),
        target_tenant: args.target_tenant.clone().unwrap_or_default(),
        path: args.path.clone().unwrap_or_default(),
    });
    let answer = session.node.identity().allow(request).await?.into_inner();
    print_grant(args.output.output, &answer)
}

/// Runs `aurae identity deny`.
pub(super) async fn deny(session: &Session, args: &GrantArgs) -> Result<(), Failure> {
    let request = session.node.unary(DenyRequest {
        tenant: session.tenant(),
        user: args.user.clone(),
        action: args.action.clone(),
        target_tenant: args.target_tenant.clone().unwrap_or_default(),
        path: args.path.clone().unwrap_or_default(),
    });
    let answer = session.node.identity().deny(request).await?.into_inner();
    print_grant(args.output.output, &answer)
}

fn print_grant(format: Format, grant: &Grant) -> Result<(), Failure> {
    match format {
        Format::Json | Format::Yaml => print_message(format, grant),
        Format::Name => print_line(&grant.id),
        Format::Table | Format::Wide => {
            print_line(&format!("{}: {} {}", grant.id, grant.user, words(grant)))
        }
    }
}

/// `allow runtime.Stop on web of green`.
pub(super) fn words(grant: &Grant) -> String {
    let effect = match grant.effect() {
        Effect::Deny => "deny",
        Effect::Allow | Effect::Unspecified => "allow",
    };
    let mut text = format!("{effect} {}", grant.action);
    if !grant.path.is_empty() {
        text.push_str(&format!(" on {}", grant.path));
    }
    if !grant.target_tenant.is_empty() && grant.target_tenant != grant.tenant {
        text.push_str(&format!(" of {}", grant.target_tenant));
    }
    text
}

/// Runs `aurae identity withdraw`.
pub(super) async fn withdraw(session: &Session, args: &WithdrawArgs) -> Result<(), Failure> {
    let request = session.node.unary(WithdrawRequest {
        id: args.id.clone(),
    });
    session.node.identity().withdraw(request).await?;
    print_line(&args.id)
}

/// Explains; the status says whether it is allowed.
pub(super) async fn explain(session: &Session, args: &ExplainArgs) -> Result<u8, Failure> {
    let request = ExplainRequest {
        tenant: session.tenant(),
        user: args.user.clone().unwrap_or_default(),
        action: args.action.clone(),
        target_tenant: args.target_tenant.clone().unwrap_or_default(),
        path: args.path.clone().unwrap_or_default(),
    };
    let explain = async |node: &client::Node| {
        let request = node.unary(request.clone());
        node.identity().explain(request).await
    };
    let answer = session.ask(explain).await?;
    if args.output.output.is_machine() {
        print_message(args.output.output, &answer)?;
    } else {
        let (word, color) = match answer.allowed {
            true => ("allowed", Color::Green),
            false => ("denied", Color::Red),
        };
        print_line(&format!(
            "{}: {}",
            session.style.paint(color, word),
            answer.explanation
        ))?;
        for policy in &answer.policies {
            print_line(&format!("  {policy}"))?;
        }
    }
    Ok(if answer.allowed { 0 } else { FAILED })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_in_words() {
        let mut grant = Grant {
            tenant: "blue".into(),
            action: "runtime.Stop".into(),
            effect: Effect::Deny.into(),
            ..Default::default()
        };
        assert_eq!(words(&grant), "deny runtime.Stop");
        grant.path = "web".into();
        grant.target_tenant = "green".into();
        assert_eq!(words(&grant), "deny runtime.Stop on web of green");
    }
}
