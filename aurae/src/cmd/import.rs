// SPDX-License-Identifier: Apache-2.0
//! `aurae import`: another tool's declarations as a program, on standard output. It asks no node.

use std::path::{Path, PathBuf};

use language::import::{NotImported, Origin, Owner, crontab, program, units as of_units};
use serde::Deserialize;
use serde_yaml_ng::Value as Yaml;
use units::depend::triggered;
use units::name::{UnitName, UnitType};
use units::unit::Unit;

use super::script::entry::{read_bounded, read_stdin};
use super::units::{Machine, Units, named};
use crate::failure::{FINDINGS, Failure};
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  aurae import compose.yaml > app.ts      then: aurae check app.ts; aurae plan app.ts
  aurae import pod.yaml > pod.ts
  aurae import deployment.yaml > web.ts
  docker compose config | aurae import - > app.ts
  aurae import nginx.service > nginx.ts   a unit of this machine, or a file
  aurae import backup.timer > backup.ts   with the service that it starts
  aurae import /etc/cron.d/php > php.ts
  crontab -l | aurae import --as crontab - > jobs.ts

A Compose file becomes one pod: its services are containers that find each other by their names. A
manifest of Kubernetes becomes the pods that are in it, or with other kinds (Deployment, DaemonSet,
Job, CronJob, ConfigMap, Secret) schedules and configs; a service, a timer and the entries of a
crontab become schedules. What they can't have is a comment with the reason. Files that a Compose
file names, such as env files, are read by the program: it belongs beside them.";

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// A Compose file, or a manifest of Kubernetes
    Yaml,
    /// A service or a timer of systemd
    Unit,
    /// A user's crontab: five fields and a command
    Crontab,
    /// As /etc/crontab and those of /etc/cron.d: a user stands before the command
    SystemCrontab,
}

/// `aurae import`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArgs {
    /// What the file is [default: what its name says, else yaml]
    #[arg(long = "as", value_enum, value_name = "FORM")]
    form: Option<Form>,
    /// The root of the machine that the units are of, such as a mounted disk
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// A Compose file, or a manifest of Kubernetes, as YAML or JSON; a unit's name or file; a
    /// crontab. `-` is standard input
    #[arg(value_name = "FILE|UNIT")]
    file: PathBuf,
}

impl ImportArgs {
    fn is_stdin(&self) -> bool {
        self.file.as_os_str() == "-"
    }

    /// By the name, where nothing is said.
    fn form(&self) -> Form {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let folder = self.file.parent().and_then(Path::file_name);
        let is_etc = folder.is_some_and(|it| it == "etc");
        match &*name {
            name if UnitName::parse(name).is_ok() => Form::Unit,
            "crontab" if is_etc => Form::SystemCrontab,
            "crontab" => Form::Crontab,
            _ if folder.is_some_and(|it| it == "cron.d") => Form::SystemCrontab,
            _ => Form::Yaml,
        }
    }
}

/// Prints the program.
pub(crate) fn run(args: &ImportArgs) -> Result<u8, Failure> {
    let program = match args.form.unwrap_or_else(|| args.form()) {
        Form::Yaml => from_yaml(args)?,
        Form::Unit => from_unit(args)?,
        Form::Crontab => from_crontab(args, Owner::User)?,
        Form::SystemCrontab => from_crontab(args, Owner::System)?,
    };
    print(&program)?;
    Ok(0)
}

fn read(args: &ImportArgs) -> Result<String, Failure> {
    if args.is_stdin() {
        return read_stdin();
    }
    let name = args.file.display();
    let failed = |problem| Failure::new(format!("can't read {name}: {problem}"));
    let file = std::fs::File::open(&args.file).map_err(failed)?;
    read_bounded(file, &name.to_string())
}

fn refused(args: &ImportArgs, problem: &NotImported) -> Failure {
    let name = args.file.display();
    Failure::new(format!("{name}: {problem}")).with_status(FINDINGS)
}

fn from_yaml(args: &ImportArgs) -> Result<String, Failure> {
    let text = read(args)?;
    let name = args.file.display();
    let documents = serde_yaml_ng::Deserializer::from_str(&text).map(document);
    let documents = documents.collect::<Result<Vec<_>, _>>();
    let documents = documents.map_err(|e| Failure::new(format!("{name}: {e}")))?;
    program(documents, &origin(args, None)?).map_err(|problem| refused(args, &problem))
}

fn from_crontab(args: &ImportArgs, owner: Owner) -> Result<String, Failure> {
    let zone = Machine::new(&args.root, None)?.zone();
    let origin = origin(args, zone)?;
    crontab(&read(args)?, owner, &origin).map_err(|problem| refused(args, &problem))
}

/// A service, or a timer with what it starts.
fn from_unit(args: &ImportArgs) -> Result<String, Failure> {
    if args.is_stdin() {
        return Err(Failure::usage(
            "a unit has a name: give a file, as in ./web.service",
        ));
    }
    let (name, folder) = named(&args.file.to_string_lossy())?;
    // A file that was named so is meant, as everywhere; else a unit of the machine.
    let (name, folder) = match folder {
        None if args.file.is_file() => named(&format!("./{}", args.file.display()))?,
        folder => (name, folder),
    };
    let units = Units::read(&args.root, folder)?;
    let unit = load(&units, &name)?;
    let mut found = Vec::new();
    if unit.kind() == UnitType::Timer {
        found.extend(triggered(&unit).and_then(|service| units.load(&service)));
    }
    found.push(unit);
    let origin = Origin {
        name: name.to_string(),
        ..origin(args, units.machine.zone())?
    };
    of_units(&found, &units.machine, &origin).map_err(|problem| refused(args, &problem))
}

fn load(units: &Units, name: &UnitName) -> Result<Unit, Failure> {
    if name.is_template() {
        let problem =
            format!("{name} is a template: name an instance of it, with what follows `@`");
        return Err(Failure::usage(problem));
    }
    let missing = || Failure::new(format!("there is no unit {name}"));
    units.load(name).ok_or_else(missing)
}

/// One document, with what `<<` merges in its place.
fn document(
    from: serde_yaml_ng::Deserializer<'_>,
) -> Result<serde_json::Value, serde_yaml_ng::Error> {
    let mut value = Yaml::deserialize(from)?;
    value.apply_merge()?;
    serde_yaml_ng::from_value(value)
}

/// Relative folders are relative to the file's own.
fn origin(args: &ImportArgs, zone: Option<String>) -> Result<Origin, Failure> {
    let here = std::env::current_dir()
        .map_err(|problem| Failure::new(format!("no current folder: {problem}")))?;
    let folder = match args.file.parent().filter(|_| !args.is_stdin()) {
        Some(folder) => here.join(folder),
        None => here,
    };
    let folder = folder.canonicalize().unwrap_or(folder);
    let name = match args.file.file_name().filter(|_| !args.is_stdin()) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => "standard input".to_owned(),
    };
    Ok(Origin { name, folder, zone })
}
