// SPDX-License-Identifier: Apache-2.0
//! `aurae identity user`: the users, who may have certificates.

use api::identity::v0::{
    CreateUserRequest, DisableUserRequest, EnableUserRequest, ListUsersRequest, User,
};
use clap::Subcommand;

use crate::failure::Failure;
use crate::output::{
    Cell, Color, Format, OutputArgs, Table, note, print, print_line, print_message,
};
use crate::quantity::{format_duration, since};
use crate::session::Session;

/// `aurae identity user`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  aurae identity user create alice --tenant blue\n  \
                  aurae identity user ls -A\n  aurae identity user disable alice --tenant blue"
)]
pub(super) struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum UserCommand {
    /// Add a user
    #[command(after_help = "Examples:\n  aurae identity user create alice --tenant blue")]
    Create(CreateArgs),
    /// List users
    Ls(LsArgs),
    /// Refuse a user from now on; open streams end within a second
    #[command(after_help = "Examples:\n  aurae identity user disable alice --tenant blue")]
    Disable(NameArgs),
    /// Let a disabled user in again, with its certificates that are still good
    #[command(after_help = "Examples:\n  aurae identity user enable alice --tenant blue")]
    Enable(NameArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct CreateArgs {
    /// It may do everything, on every tenant; of the tenant system
    #[arg(long)]
    administrator: bool,
    #[command(flatten)]
    user: NameArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct NameArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The user's name
    #[arg(value_name = "USER")]
    name: String,
}

const LS_EXAMPLES: &str = "\
Examples:
  aurae identity user ls
  aurae identity user ls -A -o json";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = LS_EXAMPLES)]
struct LsArgs {
    /// Of every tenant (administrators)
    #[arg(short = 'A', long)]
    all_tenants: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Creates, disables, enables or lists users, and prints them.
pub(super) async fn run(session: &Session, args: &UserArgs) -> Result<(), Failure> {
    let mut identity = session.node.identity();
    match &args.command {
        UserCommand::Create(args) => {
            let request = session.node.unary(CreateUserRequest {
                tenant: session.tenant(),
                name: args.user.name.clone(),
                administrator: args.administrator,
            });
            print_user(
                args.user.output.output,
                &identity.create_user(request).await?.into_inner(),
            )
        }
        UserCommand::Disable(args) => {
            let request = session.node.unary(DisableUserRequest {
                tenant: session.tenant(),
                name: args.name.clone(),
            });
            print_user(
                args.output.output,
                &identity.disable_user(request).await?.into_inner(),
            )
        }
        UserCommand::Enable(args) => {
            let request = session.node.unary(EnableUserRequest {
                tenant: session.tenant(),
                name: args.name.clone(),
            });
            print_user(
                args.output.output,
                &identity.enable_user(request).await?.into_inner(),
            )
        }
        UserCommand::Ls(args) => ls(session, args).await,
    }
}

fn print_user(format: Format, user: &User) -> Result<(), Failure> {
    match format.is_machine() {
        true => print_message(format, user),
        false => print_line(&user.spiffe_id),
    }
}

async fn ls(session: &Session, args: &LsArgs) -> Result<(), Failure> {
    let tenant = match args.all_tenants {
        true => "*".to_owned(),
        false => session.tenant(),
    };
    let request = ListUsersRequest { tenant };
    let list = async |node: &client::Node| {
        let request = node.unary(request.clone());
        node.identity().list_users(request).await
    };
    let answer = session.ask(list).await?;
    match args.output.output {
        Format::Json | Format::Yaml => print_message(args.output.output, &answer),
        Format::Name => answer
            .users
            .iter()
            .try_for_each(|user| print_line(&user.name)),
        Format::Table | Format::Wide if answer.users.is_empty() => {
            note("there are no users");
            Ok(())
        }
        format => print(&table(&answer.users, format).render(session.style)),
    }
}

fn table(users: &[User], format: Format) -> Table {
    let mut headings = vec!["TENANT", "NAME", "STATE", "AGE", "GRANTS"];
    if format == Format::Wide {
        headings.push("SPIFFE ID");
    }
    let mut table = Table::new(&headings);
    for user in users {
        let (state, color) = match (user.disabled, user.administrator) {
            (true, _) => ("disabled", Color::Red),
            (false, true) => ("administrator", Color::Green),
            (false, false) => ("enabled", Color::Green),
        };
        let age = user
            .created
            .as_ref()
            .map(|time| format_duration(since(time)));
        let grants: Vec<String> = user.grants.iter().map(super::grants::words).collect();
        let grants = if grants.is_empty() {
            "-".to_owned()
        } else {
            grants.join("; ")
        };
        let mut row: Vec<Cell> = vec![
            user.tenant.as_str().into(),
            user.name.as_str().into(),
            Cell::colored(state, Some(color)),
            age.unwrap_or_else(|| "-".to_owned()).into(),
            grants.into(),
        ];
        if format == Format::Wide {
            row.push(user.spiffe_id.as_str().into());
        }
        table.push(row);
    }
    table
}
