// SPDX-License-Identifier: Apache-2.0
//! `systemd-run`: a unit made of a command line. The node writes its file, and starts it, or a
//! timer for it; what the file says is made here, so that everything that a unit can say can be
//! asked for by `-p`.

use std::ffi::OsString;
use std::fmt::Write;
use std::pin::pin;
use std::time::Duration;

use api::schedule::v0::{StartTransientUnitRequest, UnitJob, UnitStatus};
use units::syntax::words::quote;

use super::node::{LONGEST, Node};
use super::{journalctl, left, parse, refused, tell, time};
use crate::failure::{FAILED, Failure};

/// How often it is asked whether the unit is there.
const LOOK: Duration = Duration::from_millis(50);

/// Run the specified command in a transient service
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "systemd-run", disable_version_flag = true)]
#[command(override_usage = "systemd-run [OPTIONS...] COMMAND [ARGUMENTS...]")]
#[command(max_term_width = 100)]
struct Options {
    /// The system's manager: the only one
    #[arg(long)]
    system: bool,
    /// Refused: there are no managers of users
    #[arg(long)]
    user: bool,
    /// Refused
    #[arg(short = 'H', long)]
    host: Option<String>,
    /// Refused
    #[arg(short = 'M', long)]
    machine: Option<String>,
    /// The original's: a unit of processes that are the caller's
    #[arg(long)]
    scope: bool,
    /// No password is asked for
    #[arg(long)]
    no_ask_password: bool,
    /// The unit's name
    #[arg(short = 'u', long)]
    unit: Option<String>,
    /// A setting of the service
    #[arg(short = 'p', long = "property", value_name = "NAME=VALUE")]
    properties: Vec<String>,
    /// In words
    #[arg(long)]
    description: Option<String>,
    /// A slice
    #[arg(long)]
    slice: Option<String>,
    /// Refused
    #[arg(long)]
    slice_inherit: bool,
    /// Don't wait until it is started
    #[arg(long)]
    no_block: bool,
    /// It stays active after its process has ended
    #[arg(short = 'r', long)]
    remain_after_exit: bool,
    /// Wait until it has ended; the exit status is its own
    #[arg(long)]
    wait: bool,
    /// SIGHUP, too, when it is ended
    #[arg(long)]
    send_sighup: bool,
    /// simple, exec, oneshot, …
    #[arg(long, value_name = "TYPE")]
    service_type: Option<String>,
    /// A user
    #[arg(long)]
    uid: Option<String>,
    /// A group
    #[arg(long)]
    gid: Option<String>,
    /// Niceness
    #[arg(long, allow_negative_numbers = true)]
    nice: Option<i8>,
    /// Where it is executed
    #[arg(long)]
    working_directory: Option<String>,
    /// The same: where this program is
    #[arg(short = 'd', long)]
    same_dir: bool,
    /// A variable; without a value, as it is here
    #[arg(short = 'E', long = "setenv", value_name = "NAME[=VALUE]")]
    environment: Vec<String>,
    /// Refused: `aurae run -it` has a terminal
    #[arg(short = 't', long)]
    pty: bool,
    /// Print what it prints; its input is empty
    #[arg(short = 'P', long)]
    pipe: bool,
    /// Say nothing beside that
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Forget it when it has ended, also when it failed
    #[arg(short = 'G', long)]
    collect: bool,
    /// Refused, as a terminal
    #[arg(short = 'S', long)]
    shell: bool,
    /// Refused: no path unit
    #[arg(long)]
    path_property: Vec<String>,
    /// Refused: no socket unit
    #[arg(long)]
    socket_property: Vec<String>,
    /// After that time
    #[arg(long, value_name = "SECONDS")]
    on_active: Vec<String>,
    /// So long after the boot
    #[arg(long, value_name = "SECONDS")]
    on_boot: Vec<String>,
    /// So long after the manager began
    #[arg(long, value_name = "SECONDS")]
    on_startup: Vec<String>,
    /// So long after it was started last
    #[arg(long, value_name = "SECONDS")]
    on_unit_active: Vec<String>,
    /// So long after it ended last
    #[arg(long, value_name = "SECONDS")]
    on_unit_inactive: Vec<String>,
    /// At those times
    #[arg(long, value_name = "SPEC")]
    on_calendar: Vec<String>,
    /// When the machine's time zone is changed
    #[arg(long)]
    on_timezone_change: bool,
    /// When the machine's clock is set
    #[arg(long)]
    on_clock_change: bool,
    /// Whether `${VARIABLE}` in the command is the unit's variable (systemd 254); without it, yes
    #[arg(long, value_name = "BOOL")]
    expand_environment: Option<String>,
    /// A setting of the timer
    #[arg(long, value_name = "NAME=VALUE")]
    timer_property: Vec<String>,
    /// The command
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

/// Of `systemd-run --wait` whose command was killed: `EXIT_EXCEPTION` of systemd's.
const KILLED: u8 = 255;

impl Options {
    fn expands(&self) -> bool {
        let no = ["no", "false", "off", "0", "n", "f"];
        !self
            .expand_environment
            .as_deref()
            .is_some_and(|it| no.contains(&it))
    }
}

pub(super) async fn run(words: &[OsString]) -> Result<u8, Failure> {
    let options: Options = parse(words)?;
    check(&options)?;
    let timer = timer(&options)?;
    let name = name(&options)?;
    let request = StartTransientUnitRequest {
        name: name.clone(),
        text: service(&options)?,
        no_wait: options.no_block,
        timer_text: timer.clone().unwrap_or_default(),
    };
    let node = Node::connect().await?;
    let job = started(&node, &name, request, options.pipe).await?;
    if timer.is_some() {
        let stem = name.strip_suffix(".service").unwrap_or(&name);
        tell(
            options.quiet,
            &format!("Running timer as unit: {stem}.timer"),
        );
        tell(options.quiet, &format!("Will run service as unit: {name}"));
        return Ok(0);
    }
    tell(options.quiet, &format!("Running as unit: {name}"));
    let looks_at_end = options.wait || options.pipe;
    if !(looks_at_end && began(&job)) {
        return Ok(super::systemctl::ended(&name, &job, options.quiet));
    }
    let status = ended(&node, &name).await?;
    if options.wait {
        told(&options, &status);
    }
    Ok(exit_status(&status))
}

/// Whether its command was executed, or its conditions were looked at: then how it ended says
/// more than its job. A job that was taken back, or waited in vain, has no end to look at.
fn began(job: &UnitJob) -> bool {
    matches!(job.result.as_str(), "" | "done" | "skipped" | "failed")
}

/// Starts it, and waits for its job; with `prints`, what it prints is printed from its beginning,
/// which may be long before its job has ended, and until it is down.
async fn started(
    node: &Node,
    name: &str,
    request: StartTransientUnitRequest,
    prints: bool,
) -> Result<UnitJob, Failure> {
    let request = node.session.node.within(request, LONGEST);
    let mut units = node.units();
    let job = async {
        let job = units.start_transient_unit(request).await?;
        Ok::<_, Failure>(job.into_inner())
    };
    if !prints {
        return job.await;
    }
    let mut job = pin!(job);
    loop {
        tokio::select! {
            job = &mut job => {
                let job = job?;
                if began(&job) {
                    journalctl::follow_unit(node, name).await?;
                }
                return Ok(job);
            }
            () = tokio::time::sleep(LOOK) => if node.get(name).await?.is_some() { break },
        }
    }
    let (job, ()) = tokio::try_join!(job, journalctl::follow_unit(node, name))?;
    Ok(job)
}

fn check(options: &Options) -> Result<(), Failure> {
    let asked = [
        (options.user, "--user: a manager of a user's units"),
        (options.machine.is_some(), "--machine"),
        (
            options.pty || options.shell,
            "--pty: `aurae run -it` has a terminal. It",
        ),
    ];
    if let Some((_, what)) = asked.iter().find(|(asked, _)| *asked) {
        return Err(refused(what));
    }
    let for_original = [
        (
            options.scope,
            "--scope: a unit of processes that aren't the manager's",
        ),
        (options.host.is_some(), "--host"),
        (options.slice_inherit, "--slice-inherit"),
        (!options.path_property.is_empty(), "--path-property"),
        (!options.socket_property.is_empty(), "--socket-property"),
    ];
    if let Some((_, what)) = for_original.iter().find(|(asked, _)| *asked) {
        return Err(left(what));
    }
    if options.command.is_empty() {
        return Err(Failure::new("Command line to execute required."));
    }
    Ok(())
}

/// The unit's name; without one it is made up, as `run-r….service`.
fn name(options: &Options) -> Result<String, Failure> {
    let Some(unit) = &options.unit else {
        let mut bytes = [0; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
            .map_err(|problem| Failure::new(format!("no random number: {problem}")))?;
        return Ok(format!("run-r{:016x}.service", u64::from_be_bytes(bytes)));
    };
    let stem = unit.strip_suffix(".timer").unwrap_or(unit);
    let name = super::node::whole(stem)?;
    match name.ends_with(".service") {
        true => Ok(name),
        false => Err(Failure::new(format!("{name} is no service."))),
    }
}

/// A line of a unit file. What would end the line, and begin another one, is refused.
fn line(text: &mut String, name: &str, value: &str) -> Result<(), Failure> {
    let is_one_line = |text: &str| !text.contains(['\n', '\r', '\0']) && !text.ends_with('\\');
    if name.is_empty() || !is_one_line(name) || name.contains(['[', ']']) || !is_one_line(value) {
        let words = format!("{name}={value:?} can't be a line of a unit file.");
        return Err(Failure::new(words));
    }
    let _ = writeln!(text, "{name}={value}");
    Ok(())
}

/// The service's file.
fn service(options: &Options) -> Result<String, Failure> {
    let (mut unit, mut service) = (String::new(), String::new());
    let command = command(&options.command)?;
    let description = options.description.clone();
    let description = description.unwrap_or_else(|| options.command.join(" ").replace('%', "%%"));
    line(
        &mut unit,
        "Description",
        &description.replace(['\n', '\r'], " "),
    )?;
    if options.collect {
        line(&mut unit, "CollectMode", "inactive-or-failed")?;
    }
    for property in &options.properties {
        let (name, value) = pair(property)?;
        // `ExecStartEx` is the name of the same property on the bus, with all of its prefixes.
        let name = match name.strip_suffix("Ex") {
            Some(stem) if stem.starts_with("Exec") => stem,
            _ => name,
        };
        match units::table::find("Unit", name).is_some() {
            true => line(&mut unit, name, value)?,
            false => line(&mut service, name, value)?,
        }
    }
    let given = [
        ("Type", options.service_type.clone()),
        ("Slice", options.slice.clone()),
        ("User", options.uid.clone()),
        ("Group", options.gid.clone()),
        ("Nice", options.nice.map(|it| it.to_string())),
        ("WorkingDirectory", working_directory(options)?),
        (
            "RemainAfterExit",
            options.remain_after_exit.then(|| "yes".to_owned()),
        ),
        ("SendSIGHUP", options.send_sighup.then(|| "yes".to_owned())),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            line(&mut service, name, &value)?;
        }
    }
    for variable in &options.environment {
        let set = match variable.split_once('=') {
            Some(_) => variable.clone(),
            None => format!("{variable}={}", std::env::var(variable).unwrap_or_default()),
        };
        line(&mut service, "Environment", &quote(&set.replace('%', "%%")))?;
    }
    let prefix = match options.expands() {
        true => "",
        false => ":",
    };
    line(
        &mut service,
        "ExecStart",
        &format!("{prefix}{}", command.join(" ")),
    )?;
    Ok(format!("[Unit]\n{unit}\n[Service]\n{service}"))
}

/// The command, its program by its whole path: what begins with a letter of a prefix
/// (systemd.service(5), "Command lines") can't be taken for one.
fn command(words: &[String]) -> Result<Vec<String>, Failure> {
    let (program, rest) = words
        .split_first()
        .map_or(("", words), |(it, rest)| (it, rest));
    let none = || {
        let words = format!("Failed to find executable {program}: No such file or directory");
        Failure::new(words)
    };
    let path = match program.contains('/') {
        true => std::path::absolute(program).map_err(|_| none())?,
        false => {
            let folders = std::env::var_os("PATH").unwrap_or_default();
            let mut places = std::env::split_paths(&folders).map(|it| it.join(program));
            let is_there = |it: &std::path::PathBuf| it.is_absolute() && it.is_file();
            places.find(is_there).ok_or_else(none)?
        }
    };
    let path = path.to_string_lossy().into_owned();
    let all = std::iter::once(&path).chain(rest);
    Ok(all.map(|it| argument(it)).collect())
}

/// A word of the command: nothing in it is a specifier or a prefix. Variables are the unit's, as
/// on lines of unit files (systemd-run(1), --expand-environment=).
fn argument(word: &str) -> String {
    quote(&word.replace('%', "%%"))
}

fn working_directory(options: &Options) -> Result<Option<String>, Failure> {
    if !options.same_dir {
        return Ok(options.working_directory.clone());
    }
    let here = std::env::current_dir();
    let here = here.map_err(|problem| Failure::new(format!("no working directory: {problem}")))?;
    Ok(Some(here.to_string_lossy().into_owned()))
}

fn pair(text: &str) -> Result<(&str, &str), Failure> {
    let pair = text.split_once('=');
    pair.ok_or_else(|| Failure::new(format!("Not an assignment: {text}")))
}

/// The timer's file, where one is asked for.
fn timer(options: &Options) -> Result<Option<String>, Failure> {
    let clocks = [
        ("OnActiveSec", &options.on_active),
        ("OnBootSec", &options.on_boot),
        ("OnStartupSec", &options.on_startup),
        ("OnUnitActiveSec", &options.on_unit_active),
        ("OnUnitInactiveSec", &options.on_unit_inactive),
        ("OnCalendar", &options.on_calendar),
    ];
    let mut text = String::new();
    for (name, values) in clocks {
        for value in values {
            line(&mut text, name, value)?;
        }
    }
    for (asked, name) in [
        (options.on_clock_change, "OnClockChange"),
        (options.on_timezone_change, "OnTimezoneChange"),
    ] {
        if asked {
            line(&mut text, name, "yes")?;
        }
    }
    if text.is_empty() {
        return match options.timer_property.is_empty() {
            true => Ok(None),
            false => Err(Failure::new(
                "--timer-property= has no effect without a timer.",
            )),
        };
    }
    if options.wait || options.pipe {
        return Err(Failure::new(
            "--wait and --pipe may not be used with a timer.",
        ));
    }
    for property in &options.timer_property {
        let (name, value) = pair(property)?;
        line(&mut text, name, value)?;
    }
    Ok(Some(format!("[Timer]\nRemainAfterElapse=no\n{text}")))
}

/// Waits for the end.
async fn ended(node: &Node, name: &str) -> Result<UnitStatus, Failure> {
    super::systemctl::wait(node, name).await?;
    let status = node.get(name).await?.and_then(|it| it.status);
    status.ok_or_else(|| Failure::new(format!("{name} is gone, and how it ended with it.")))
}

/// The status with which this program ends. What the unit counts as a success is one; a command
/// that ended with 0, and whose unit failed all the same, is none.
fn exit_status(status: &UnitStatus) -> u8 {
    match (status.result.as_str(), status.exit_status.parse::<u8>()) {
        ("success", _) => 0,
        ("exit-code", Ok(code)) if code > 0 => code,
        ("signal" | "core-dump", _) => KILLED,
        _ => FAILED,
    }
}

fn told(options: &Options, status: &UnitStatus) {
    let words = format!("Finished with result: {}", status.result);
    tell(options.quiet, &words);
    let (code, number) = (&status.exit_code, &status.exit_status);
    let words = format!("Main processes terminated with: code={code}/status={number}");
    tell(options.quiet, &words);
    let micros = |at: &Option<prost_types::Timestamp>| at.as_ref().map(time::micros);
    if let (Some(from), Some(to)) = (micros(&status.active_since), micros(&status.inactive_since))
        && to >= from
    {
        let ran = units::time::span::Span::from_micros(to.abs_diff(from));
        tell(options.quiet, &format!("Service runtime: {ran}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Options {
        let all = ["systemd-run"].iter().chain(words);
        parse(&all.map(OsString::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_command_line_becomes_a_unit_file() {
        let text = service(&options(&[
            "-p",
            "After=a.service",
            "-p",
            "MemoryMax=1M",
            "--uid=www-data",
            "-E",
            "A=b c",
            "-G",
            "--",
            "/bin/sh",
            "-c",
            "echo $HOME 100%",
        ]))
        .unwrap();
        assert_eq!(
            text,
            "[Unit]\nDescription=/bin/sh -c echo $HOME 100%%\nCollectMode=inactive-or-failed\n\
             After=a.service\n\n[Service]\nMemoryMax=1M\nUser=www-data\nEnvironment=\"A=b c\"\n\
             ExecStart=/bin/sh -c \"echo $HOME 100%%\"\n"
        );
    }

    #[test]
    fn settings_of_all_units_are_in_their_section() {
        let text = service(&options(&[
            "-p",
            "SuccessAction=reboot",
            "-p",
            "AssertCredential=a",
            "-p",
            "ExecStopPostEx=:/bin/echo ${A}",
            "--expand-environment=no",
            "/bin/echo",
            "${B}",
        ]));
        assert_eq!(
            text.unwrap(),
            "[Unit]\nDescription=/bin/echo ${B}\nSuccessAction=reboot\nAssertCredential=a\n\n\
             [Service]\nExecStopPost=:/bin/echo ${A}\nExecStart=:/bin/echo \"${B}\"\n"
        );
    }

    /// As systemd-run 252 has it.
    #[test]
    fn the_status_is_the_command_s_where_that_is_why_it_failed() {
        let of = |result: &str, number: &str| {
            exit_status(&UnitStatus {
                result: result.to_owned(),
                exit_code: "exited".to_owned(),
                exit_status: number.to_owned(),
                ..Default::default()
            })
        };
        assert_eq!(of("success", "3"), 0, "SuccessExitStatus=3");
        assert_eq!(of("exit-code", "7"), 7);
        assert_eq!(of("protocol", "0"), 1, "a notify service that said nothing");
        assert_eq!(of("signal", "9"), 255);
        assert_eq!(of("timeout", ""), 1);
    }

    #[test]
    fn a_property_can_not_begin_another_line_or_section() {
        for wrong in [
            "A=b\n[Service]",
            "A=b\\",
            "A\nExecStart=/bin/x=",
            "[Service]=b",
        ] {
            let wrong = service(&options(&["-p", wrong, "/bin/true"]));
            assert!(wrong.is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_timer_is_made_of_its_clocks() {
        let text = timer(&options(&[
            "--on-calendar=daily",
            "--on-active=5min",
            "/bin/true",
        ]));
        let text = text.unwrap().unwrap();
        assert_eq!(
            text,
            "[Timer]\nRemainAfterElapse=no\nOnActiveSec=5min\nOnCalendar=daily\n"
        );
        let text = timer(&options(&[
            "--on-clock-change",
            "--on-timezone-change",
            "/bin/true",
        ]));
        let text = text.unwrap().unwrap();
        assert!(
            text.ends_with("OnClockChange=yes\nOnTimezoneChange=yes\n"),
            "{text}"
        );
        assert!(timer(&options(&["--timer-property=A=b", "/bin/true"])).is_err());
        assert!(timer(&options(&["/bin/true"])).unwrap().is_none());
    }
}
