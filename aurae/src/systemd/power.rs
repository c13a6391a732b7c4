// SPDX-License-Identifier: Apache-2.0
//! `shutdown`, `reboot`, `poweroff`, `halt`, `telinit`, and systemctl's verbs of that kind: the end
//! of the machine by the node, which stops units and workloads first. A later time is a transient
//! timer. No message goes to users: there is no utmp.

use std::ffi::OsString;
use std::time::Duration;

use api::node::v0::{ShutdownRequest, shutdown_request::Mode};
use api::schedule::v0::{StartTransientUnitRequest, UnitJobRequest};

use super::node::Node;
use super::{Name, parse, refused, tell, time};
use crate::failure::Failure;
use crate::output::{note, print_line};
use crate::spec::wire_duration;

/// The timer of a shutdown that is to come, and its service.
const SCHEDULED: &str = "shutdown-scheduled";
/// Workloads have so long where the end is forced: an end at once would lose what they hold.
const FORCED: Duration = Duration::from_secs(1);

async fn end(node: &Node, mode: Mode, force: bool) -> Result<u8, Failure> {
    let request = ShutdownRequest {
        mode: mode.into(),
        bound: force.then(|| wire_duration(FORCED)),
    };
    let request = node.session.node.unary(request);
    node.session.node.node().shutdown(request).await?;
    Ok(0)
}

/// `systemctl poweroff` and its like.
pub(super) async fn systemctl(node: &Node, verb: &str, force: u8) -> Result<u8, Failure> {
    let mode = match verb {
        "reboot" => Mode::Reboot,
        "halt" => Mode::Halt,
        _ => Mode::PowerOff,
    };
    end(node, mode, force > 0).await
}

/// Halt, power off or reboot the machine
#[derive(Clone, Debug, clap::Parser)]
#[command(
    disable_version_flag = true,
    override_usage = "reboot [OPTIONS...] [ARG]"
)]
struct HaltOptions {
    /// Halt the machine
    #[arg(long)]
    halt: bool,
    /// Switch off the machine
    #[arg(short = 'p', long)]
    poweroff: bool,
    /// Reboot the machine
    #[arg(long)]
    reboot: bool,
    /// Give workloads a second
    #[arg(short = 'f', long)]
    force: bool,
    /// Only write a record of wtmp: none is written
    #[arg(short = 'w', long)]
    wtmp_only: bool,
    /// Don't write one
    #[arg(short = 'd', long)]
    no_wtmp: bool,
    /// No message to users: none is sent
    #[arg(long)]
    no_wall: bool,
    /// Refused: a parameter of the reboot
    #[arg(value_name = "ARG")]
    argument: Option<String>,
}

/// halt(8): `halt`, `poweroff`, `reboot`.
pub(super) async fn halt(name: Name, words: &[OsString]) -> Result<u8, Failure> {
    let options: HaltOptions = parse(words)?;
    if options.argument.is_some() {
        return Err(refused("A parameter of the reboot"));
    }
    if options.wtmp_only {
        return Ok(0);
    }
    let mode = match (options.halt, options.poweroff, options.reboot, name) {
        (true, _, _, _) => Mode::Halt,
        (_, true, _, _) => Mode::PowerOff,
        (_, _, true, _) => Mode::Reboot,
        (_, _, _, Name::Halt) => Mode::Halt,
        (_, _, _, Name::Reboot) => Mode::Reboot,
        _ => Mode::PowerOff,
    };
    end(&Node::connect().await?, mode, options.force).await
}

/// telinit(8).
pub(super) async fn telinit(words: &[OsString]) -> Result<u8, Failure> {
    let texts: Vec<String> = words
        .iter()
        .skip(1)
        .map(|it| it.to_string_lossy().into_owned())
        .filter(|it| it != "--no-wall")
        .collect();
    let verb: &[&str] = match texts.as_slice() {
        [level] => match level.as_str() {
            "0" => &["poweroff"],
            "6" => &["reboot"],
            "1" | "s" | "S" => &["rescue"],
            "2" | "3" | "4" => &["isolate", "multi-user.target"],
            "5" => &["isolate", "graphical.target"],
            "q" | "Q" | "u" | "U" => &["daemon-reload"],
            other => return Err(Failure::new(format!("telinit: unknown command {other}"))),
        },
        _ => return Err(Failure::new("telinit: one of 0, 1, 2, 3, 4, 5, 6, q, u")),
    };
    let mut words = vec![OsString::from("systemctl")];
    words.extend(verb.iter().map(OsString::from));
    super::systemctl::run(&words).await
}

/// runlevel(8): the level that systemd's manual gives the target that is up. There is no utmp, so
/// the one before isn't known.
pub(super) async fn runlevel() -> Result<u8, Failure> {
    for (target, level) in [
        ("graphical.target", "5"),
        ("multi-user.target", "3"),
        ("rescue.target", "1"),
    ] {
        let words = ["systemctl", "--quiet", "is-active", target].map(OsString::from);
        if super::systemctl::run(&words).await? == 0 {
            print_line(&format!("N {level}"))?;
            return Ok(0);
        }
    }
    print_line("unknown")?;
    Ok(1)
}

/// Shut down the machine
#[derive(Clone, Debug, clap::Parser)]
#[command(disable_version_flag = true, disable_help_flag = true)]
#[command(override_usage = "shutdown [OPTIONS...] [TIME] [WALL...]")]
struct ShutdownOptions {
    /// Show this help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Halt the machine
    #[arg(short = 'H', long)]
    halt: bool,
    /// Power-off the machine
    #[arg(short = 'P', long)]
    poweroff: bool,
    /// Reboot the machine
    #[arg(short = 'r', long)]
    reboot: bool,
    /// The same as --poweroff, overridden by --halt
    #[arg(short = 'h')]
    off: bool,
    /// Only send messages to users: none is sent
    #[arg(short = 'k')]
    only_wall: bool,
    /// No message to users
    #[arg(long)]
    no_wall: bool,
    /// Cancel a pending shutdown
    #[arg(short = 'c')]
    cancel: bool,
    /// Show a pending shutdown
    #[arg(long)]
    show: bool,
    /// `now`, `+MINUTES` or `HH:MM`, then a message
    #[arg(value_name = "TIME")]
    words: Vec<String>,
}

/// When a shutdown is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
enum When {
    Now,
    Minutes(u64),
    /// Hour and minute.
    Clock(u8, u8),
}

fn when(word: Option<&str>) -> Result<When, Failure> {
    let wrong = |word: &str| Failure::new(format!("Failed to parse time specification: {word}"));
    let Some(word) = word else {
        return Ok(When::Minutes(1));
    };
    if word == "now" {
        return Ok(When::Now);
    }
    if let Some((hour, minute)) = word.split_once(':') {
        let (hour, minute) = (hour.parse::<u8>().ok(), minute.parse::<u8>().ok());
        return match (hour.filter(|it| *it < 24), minute.filter(|it| *it < 60)) {
            (Some(hour), Some(minute)) => Ok(When::Clock(hour, minute)),
            _ => Err(wrong(word)),
        };
    }
    let minutes = word.strip_prefix('+').unwrap_or(word);
    match minutes.parse().map_err(|_| wrong(word))? {
        0 => Ok(When::Now),
        minutes => Ok(When::Minutes(minutes)),
    }
}

/// shutdown(8).
pub(super) async fn shutdown(words: &[OsString]) -> Result<u8, Failure> {
    let options: ShutdownOptions = parse(words)?;
    if options.only_wall {
        note("No message is sent to users.");
        return Ok(0);
    }
    let node = Node::connect().await?;
    if options.show {
        return show(&node).await;
    }
    if options.cancel {
        return cancel(&node).await;
    }
    let (verb, mode) = match (options.halt, options.reboot && !options.poweroff) {
        (true, _) => ("halt", Mode::Halt),
        (_, true) => ("reboot", Mode::Reboot),
        _ => ("poweroff", Mode::PowerOff),
    };
    let timer = match when(options.words.first().map(String::as_str))? {
        When::Now => return end(&node, mode, false).await,
        When::Minutes(minutes) => format!("OnActiveSec={minutes}min"),
        When::Clock(hour, minute) => format!("OnCalendar=*-*-* {hour:02}:{minute:02}:00"),
    };
    cancel(&node).await?;
    let request = StartTransientUnitRequest {
        name: format!("{SCHEDULED}.service"),
        text: format!(
            "[Unit]\nDescription=Shutdown that was scheduled ({verb})\nCollectMode=\
             inactive-or-failed\n[Service]\nType=oneshot\nExecStart=/usr/bin/systemctl {verb}\n"
        ),
        no_wait: false,
        timer_text: format!("[Timer]\n{timer}\nAccuracySec=1s\nRemainAfterElapse=no\n"),
    };
    let request = node.session.node.unary(request);
    node.units().start_transient_unit(request).await?;
    let next = node.get(&format!("{SCHEDULED}.timer")).await?;
    let next = next.and_then(|it| it.status).and_then(|it| it.next);
    let next = next.map_or_else(String::new, |at| {
        time::full(time::micros(&at), &time::zone())
    });
    let words = format!("Shutdown scheduled for {next}, use 'shutdown -c' to cancel.");
    tell(false, &words);
    Ok(0)
}

async fn show(node: &Node) -> Result<u8, Failure> {
    let timer = node.get(&format!("{SCHEDULED}.timer")).await?;
    let timer = timer.and_then(|it| it.status);
    let Some(next) = timer
        .filter(|it| it.active == "active")
        .and_then(|it| it.next)
    else {
        note("No scheduled shutdown.");
        return Ok(1);
    };
    let at = time::full(time::micros(&next), &time::zone());
    print_line(&format!(
        "Shutdown scheduled for {at}, use 'shutdown -c' to cancel."
    ))?;
    Ok(0)
}

/// Stops the timer, where there is one.
async fn cancel(node: &Node) -> Result<u8, Failure> {
    let name = format!("{SCHEDULED}.timer");
    let timer = node.get(&name).await?.and_then(|it| it.status);
    if timer.is_none_or(|it| it.active != "active") {
        return Ok(0);
    }
    let request = UnitJobRequest {
        name,
        ..Default::default()
    };
    let request = node.session.node.within(request, super::node::LONGEST);
    node.units().stop_unit(request).await?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_shutdown_are_those_of_the_manual() {
        let read = |word: &str| when(Some(word)).ok();
        assert_eq!(when(None).ok(), Some(When::Minutes(1)));
        assert_eq!(read("now"), Some(When::Now));
        assert_eq!(read("+0"), Some(When::Now));
        assert_eq!(read("+5"), Some(When::Minutes(5)));
        assert_eq!(read("5"), Some(When::Minutes(5)));
        assert_eq!(read("23:59"), Some(When::Clock(23, 59)));
        for wrong in ["24:00", "1:60", "soon", "+x", "-1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
