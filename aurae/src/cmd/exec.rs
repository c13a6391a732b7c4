// SPDX-License-Identifier: Apache-2.0
//! `aurae exec`: another program in an existing cell. It is an executable like any other; its
//! record is removed when it has ended, unless `--keep` is given.

use api::runtime::v0::{Executable, RunExecutableRequest, WaitFor, object};

use super::launch::{AttachmentFlags, launch};
use super::names::invent_name;
use super::run::merge_resources;
use crate::failure::Failure;
use crate::output::OutputArgs;
use crate::session::Session;
use crate::spec::{ExecutableFlags, LabelFlags, ResourceFlags};

const EXAMPLES: &str = "\
Examples:
  aurae exec -it web sh
  aurae exec web curl -s http://localhost/
  aurae exec -u www-data -w /srv web ls -l
  aurae exec --no-log web/db pg_dump app > app.sql
  aurae exec --keep --name backup -d web/db pg_dump app

The options of exec come before the cell, and what follows the cell is the program's. The name of an
executable means the cell that it is in.";

/// `aurae exec`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    attachment: AttachmentFlags,
    /// Keep the record and the logs when it has ended
    #[arg(long, conflicts_with = "rm")]
    keep: bool,
    /// The executable's name; made from the program's, unless given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    labels: LabelFlags,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    process: ExecutableFlags,
    #[command(flatten)]
    resources: ResourceFlags,
    /// The cell, or an executable in it
    #[arg(value_name = "CELL")]
    pub(crate) cell: String,
    /// The program and its arguments: everything that follows the cell
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

/// Runs it; the program's own status when attached.
pub(crate) async fn run(session: &Session, args: &ExecArgs) -> Result<u8, Failure> {
    let flags = AttachmentFlags {
        rm: !args.keep,
        ..args.attachment.clone()
    };
    flags.check()?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => invent_name(args.command.first().map_or("", String::as_str)),
    };
    let mut spec = args.process.build(&args.command)?;
    merge_resources(&mut spec, &args.resources);
    flags.fill(&mut spec);
    let cell = cell_of(session, &args.cell).await?;
    let request = RunExecutableRequest {
        executable: Some(Executable {
            r#ref: Some(session.reference(&format!("{cell}/{name}"))),
            labels: args.labels.build(),
            spec: Some(spec),
        }),
        wait_for: WaitFor::Started.into(),
        attach_follows: !flags.detach,
        ..Default::default()
    };
    launch(session, request, &flags, args.output.output).await
}

/// The cell of that name, or the one that the executable of that name is in. Only a name with a
/// cell before it can be an executable's.
async fn cell_of(session: &Session, name: &str) -> Result<String, Failure> {
    let Some((around, _)) = name.rsplit_once('/') else {
        return Ok(name.to_owned());
    };
    let is_executable = match session.get(session.reference(name)).await {
        Ok(found) => matches!(found.object, Some(object::Object::Executable(_))),
        // The run says what is wrong with the name.
        Err(_) => false,
    };
    Ok(if is_executable { around } else { name }.to_owned())
}
