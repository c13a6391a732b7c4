// SPDX-License-Identifier: Apache-2.0
//! The grammar of the command line: the commands, each defined in the file that runs it. Only
//! `main` and `dispatch` know all of them; options that commands share are in `global`.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::cmd;
use crate::global::{Global, ProgramArgs};

const EXAMPLES: &str = "\
Examples:
  aurae run -- /bin/echo hello                  run a program in a cell of its own
  aurae cell run web --memory 64M               create a cell
  aurae run --cell web --name nginx -d -- nginx -g 'daemon off;'
  aurae ps                                      what runs, as a tree
  aurae logs -f web/nginx                       what it prints
  aurae exec -it web -- sh                      look around inside
  aurae rm -rf web                              end it all

Programs:
  aurae deploy.ts production                    run a program, with arguments
  aurae -e 'print(await node.Get())'            run a line
  aurae                                         a prompt, on a terminal
  aurae check deploy.ts                         what is wrong with it, without a node
  aurae plan deploy.ts                          what it would change
  aurae apply deploy.ts                         bring that about

Exit status: 0; 1 failed or refused; 2 wrong usage; 3 findings of a check; 130 interrupted. An
attached run gives the workload's own, 125 where Aurae failed, 126 not executable, 127 not found,
128+N for signal N.";

/// Runs and watches workloads on an Aurae node, and programs that do
///
/// A word that ends in `.ts`, holds a `/` or is a file names a program; `-` reads one from standard
/// input. What follows it is the program's.
#[derive(Debug, Parser)]
#[command(name = "aurae", version, after_help = EXAMPLES)]
#[command(
    allow_external_subcommands = true,
    override_usage = "aurae [OPTIONS] COMMAND\n       \
                      aurae [OPTIONS] FILE.ts [ARGS]...\n       \
                      aurae [OPTIONS] -e CODE [ARGS]...\n       \
                      aurae",
    max_term_width = 100
)]
pub(crate) struct Line<C: Subcommand = Command> {
    #[command(flatten)]
    pub(crate) global: Global,
    /// Run this line of a program
    #[arg(short = 'e', value_name = "CODE", help_heading = "Options of programs")]
    pub(crate) code: Option<String>,
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    #[command(subcommand)]
    pub(crate) command: Option<C>,
}

/// The command line with all of its commands.
pub(crate) type Args = Line;

/// The command line of who runs a program: without any other command.
type ProgramLine = Line<Program>;

/// The one command of a [`ProgramLine`].
#[derive(Debug, Subcommand)]
enum Program {
    /// A program and its arguments.
    #[command(external_subcommand)]
    Words(Vec<OsString>),
}

impl Args {
    /// What the words say. Describing all commands takes milliseconds, which who runs a program
    /// would wait for: its words are tried first without them.
    ///
    /// # Errors
    /// What clap says of the whole grammar, help and version among it.
    pub(crate) fn of(words: &[OsString]) -> Result<Self, clap::Error> {
        match ProgramLine::try_parse_from(words) {
            Ok(line) => line
                .into_args()
                .map_or_else(|| Self::try_parse_from(words), Ok),
            Err(_) => Self::try_parse_from(words),
        }
    }
}

impl ProgramLine {
    /// The same with all commands, where its word is certainly no command.
    fn into_args(self) -> Option<Args> {
        let Program::Words(words) = self.command?;
        let word = words.first()?.to_str()?;
        cmd::script::is_path(word).then_some(Line {
            global: self.global,
            code: self.code,
            program: self.program,
            command: Some(Command::Program(words)),
        })
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program, in a cell of its own or in an existing one
    Run(Box<cmd::run::RunArgs>),
    /// Run another program in a cell that is there
    Exec(Box<cmd::exec::ExecArgs>),
    /// Copy files out of a cell, or into it
    Cp(cmd::cp::CpArgs),
    /// Connect to the streams of a running executable
    Attach(cmd::attach::AttachArgs),
    /// Show cells and executables as a tree
    Ps(cmd::ps::PsArgs),
    /// Show what executables have printed
    Logs(cmd::logs::LogsArgs),
    /// End executables or cells: their stop signal, their grace, then SIGKILL
    Stop(cmd::stop::StopArgs),
    /// Send a signal to executables
    Kill(cmd::kill::KillArgs),
    /// Wait until executables or cells have ended
    Wait(cmd::wait::WaitArgs),
    /// Remove the records of what has ended, with their logs
    Rm(cmd::rm::RmArgs),
    /// Show everything that the node knows of an object
    Inspect(cmd::inspect::InspectArgs),
    /// Show what cells and executables use, live
    Top(cmd::top::TopArgs),
    /// Create, change and remove cells
    Cell(cmd::cell::CellArgs),
    /// Pods: containers that belong together
    Pod(cmd::pod::PodArgs),
    /// What is to run, and when: it outlives its runs, the daemon and a reboot
    Schedule(cmd::schedule::ScheduleArgs),
    /// systemd's unit files, run by the node
    Unit(cmd::unit::UnitArgs),
    /// Images: get them from registries and archives, list them, give them back
    Image(cmd::image::ImageArgs),
    /// Certificates, users, permissions and the audit
    Identity(cmd::identity::IdentityArgs),
    /// Tenants: what each may take of the node, and what it uses
    Tenant(cmd::tenant::TenantArgs),
    /// The node itself
    Node(cmd::node::NodeArgs),
    /// Contexts: which nodes there are, and the credentials for each
    Config(cmd::config::ConfigArgs),
    /// Print a completion script for a shell
    Completion(cmd::completion::CompletionArgs),
    /// Write the manual pages into a folder
    Man(cmd::man::ManArgs),
    /// Show the versions of this client and of the node
    Version(cmd::version::VersionArgs),
    /// Find errors in programs, without a node
    Check(cmd::check::CheckArgs),
    /// Show the changes that a program would make
    Plan(cmd::plan::PlanArgs),
    /// Start and change the objects that a program declares
    Apply(cmd::apply::ApplyArgs),
    /// List, show and remove the sets of objects that programs have declared
    Set(cmd::set::SetArgs),
    /// Write a program that declares what a Compose file or a manifest does
    Import(cmd::import::ImportArgs),
    /// Put programs into the one style
    Fmt(cmd::fmt::FmtArgs),
    /// Write the language's types, for editors and TypeScript's own tools
    Types(cmd::types::TypesArgs),
    /// Serve an editor over standard input and output
    Lsp(cmd::lsp::LspArgs),
    /// A program and its arguments.
    #[command(external_subcommand)]
    Program(Vec<OsString>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_of(text: &str) -> Command {
        let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
        Args::of(&words).unwrap().command.unwrap()
    }

    #[test]
    fn a_program_is_known_without_the_commands_and_no_command_is_taken_for_one() {
        let words = |command| match command {
            Command::Program(words) => words,
            other => panic!("{other:?}"),
        };
        let program = words(command_of("aurae --node home a.ts --dry -x ps"));
        assert_eq!(program, ["a.ts", "--dry", "-x", "ps"]);
        assert_eq!(words(command_of("aurae nosuch")), ["nosuch"]);
        // The folder has a slash, and the command is a command.
        assert!(matches!(
            command_of("aurae --root /srv/x ps"),
            Command::Ps(_)
        ));
        assert!(matches!(
            command_of("aurae check ./a.ts"),
            Command::Check(_)
        ));
    }

    #[test]
    fn what_is_wrong_with_a_program_s_options_is_said_by_the_whole_grammar() {
        let words = ["aurae", "--max-memory", "much", "a.ts"].map(OsString::from);
        let ours = Args::of(&words).unwrap_err().to_string();
        assert_eq!(ours, Args::try_parse_from(&words).unwrap_err().to_string());
        assert!(ours.contains("--max-memory"), "{ours}");
    }
}
