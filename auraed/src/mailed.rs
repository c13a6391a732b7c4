// SPDX-License-Identifier: Apache-2.0
//! `auraed mailed`: runs a command of a crontab, hands on what it writes to the run's log, and
//! mails the same to whom `MAILTO` names, as Debian's cron does: one mail once the command and all
//! that holds its output have ended, by `sendmail`, with the user's own rights. It is the run's
//! main process, so that a killed daemon loses no mail. Started by schedules of crontabs
//! (`model::schedule::crontab`).

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use anyhow::Context;
use kernel::signal::{self, Signal, SignalFd, SignalSet};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, kill_process};

/// So much of the output is mailed, in bytes; all of it is in the log.
const MOST_BYTES: usize = 1 << 20;
/// What a stop may send, and the command is to get.
const HANDED_ON: &[Signal] = &[
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::TERM,
];
/// What an address may have beside letters and digits, as Debian's cron takes it.
const OF_ADDRESS: &[u8] = b"@!:%-.,_+";
/// The search path of `sendmail`.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// A shell's status for a command that can't be started.
const NOT_STARTED: u8 = 127;
/// A shell's status for a command that a signal has ended is this and the signal's number.
const SIGNALLED: i32 = 128;

/// What to run, and who hears of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// What takes mail
    #[arg(long, value_name = "FILE")]
    sendmail: PathBuf,
    /// Who gets it
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    /// Whose crontab it is
    #[arg(long, value_name = "USER")]
    user: String,
    /// The command as the crontab has it
    #[arg(long, value_name = "TEXT")]
    command: String,
    /// What to run
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    argv: Vec<String>,
}

/// Ends with the command's status.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let (program, arguments) = options.argv.split_first().context("names no command")?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped());
    let (mut kept, status) = match command.stderr(Stdio::piped()).spawn() {
        Ok(child) => follow(child)?,
        Err(error) => {
            let words = format!("{program}: {error}\n");
            io::stderr().write_all(words.as_bytes())?;
            let status = ExitStatus::from_raw(i32::from(NOT_STARTED) << 8);
            (Kept(words.into_bytes()), status)
        }
    };
    if !kept.0.is_empty() {
        kept.cut();
        if let Err(error) = mail(options, &kept.0, status) {
            let to = options.to.escape_debug();
            eprintln!("cron: not mailed to {to}, the output is in this log alone: {error:#}");
        }
    }
    let code = status.code();
    let code = code.unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// The output so far, up to a byte more than is mailed.
#[derive(Default)]
struct Kept(Vec<u8>);

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        let room = (MOST_BYTES + 1).saturating_sub(self.0.len());
        self.0.extend(bytes.iter().take(room));
    }

    fn cut(&mut self) {
        if self.0.len() > MOST_BYTES {
            self.0.truncate(MOST_BYTES);
            self.0.extend(b"\n(The rest is in the log of the run.)\n");
        }
    }
}

/// Hands on what the command writes, and the signals that come, until both its streams have ended.
fn follow(mut child: Child) -> anyhow::Result<(Kept, ExitStatus)> {
    let set = SignalSet::of(HANDED_ON);
    signal::set_mask(set)?;
    let signals = SignalFd::new(set)?;
    let mut kept = Kept::default();
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    while out.is_some() || err.is_some() {
        let [by_signal, by_out, by_err] = wait([
            Some(signals.as_fd()),
            out.as_ref().map(AsFd::as_fd),
            err.as_ref().map(AsFd::as_fd),
        ])?;
        if by_out && ended(out.as_mut(), io::stdout(), &mut kept) {
            out = None;
        }
        if by_err && ended(err.as_mut(), io::stderr(), &mut kept) {
            err = None;
        }
        if by_signal && !hand_on(&signals, &mut child)? {
            break;
        }
    }
    let status = child.wait()?;
    // What is started next takes signals as ever.
    signal::set_mask(SignalSet::EMPTY)?;
    Ok((kept, status))
}

/// Waits until one of them can be read; which ones.
fn wait<const N: usize>(all: [Option<BorrowedFd<'_>>; N]) -> anyhow::Result<[bool; N]> {
    let mut asked: Vec<_> = all
        .iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    match poll(&mut asked, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut answers = asked.iter().map(|it| !it.revents().is_empty());
    Ok(all.map(|fd| fd.is_some() && answers.next() == Some(true)))
}

/// Copies what is there; whether that was the end.
fn ended(from: Option<&mut impl Read>, mut to: impl Write, kept: &mut Kept) -> bool {
    let mut bytes = [0; 8192];
    let count = from.map_or(Ok(0), |from| from.read(&mut bytes));
    let some = bytes.get(..count.unwrap_or(0)).unwrap_or_default();
    kept.add(some);
    // A log that takes nothing more ends no command.
    let _ = to.write_all(some).and_then(|()| to.flush());
    some.is_empty()
}

/// Gives the command the signals that came. `false`: it has ended, and what is left of it goes with
/// the run.
fn hand_on(signals: &SignalFd, child: &mut Child) -> anyhow::Result<bool> {
    while let Some(info) = signals.next()? {
        if child.try_wait()?.is_some() {
            return Ok(false);
        }
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let signal = rustix::process::Signal::from_named_raw(info.signal.number());
        if let (Some(pid), Some(signal)) = (pid, signal) {
            // It may end just now.
            let _ = kill_process(pid, signal);
        }
    }
    Ok(true)
}

fn mail(options: &Options, body: &[u8], status: ExitStatus) -> anyhow::Result<()> {
    check(&options.to)?;
    let host = rustix::system::uname();
    let variables = std::env::vars_os().map(|(name, value)| {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        format!("{name}={value}")
    });
    let variables: Vec<_> = variables.collect();
    let head = head(
        options,
        &host.nodename().to_string_lossy(),
        &variables,
        status,
    );
    send(&options.sendmail, &options.to, &[head.as_bytes(), body])
}

/// As Debian's cron: what could be taken as an option, or by a shell, is no address.
fn check(to: &str) -> anyhow::Result<()> {
    let of_it = |byte: u8| byte.is_ascii_alphanumeric() || OF_ADDRESS.contains(&byte);
    let safe = !to.starts_with('-') && to.bytes().all(of_it);
    anyhow::ensure!(safe, "MAILTO has characters that no address has");
    Ok(())
}

/// The lines before the text, as Debian's cron writes them.
fn head(options: &Options, host: &str, variables: &[String], status: ExitStatus) -> String {
    let failed = if status.success() { "" } else { " (failed)" };
    let host = host.split('.').next().unwrap_or(host);
    let (user, to) = (&options.user, &options.to);
    let mut lines = vec![
        "From: root (Cron Daemon)".to_owned(),
        format!("To: {to}"),
        format!("Subject: Cron <{user}@{host}> {}{failed}", options.command),
        "MIME-Version: 1.0".to_owned(),
        "Content-Type: text/plain; charset=UTF-8".to_owned(),
        "Content-Transfer-Encoding: 8bit".to_owned(),
    ];
    lines.extend(variables.iter().map(|it| format!("X-Cron-Env: <{it}>")));
    // A line of a header ends where we end it.
    let lines = lines.iter().map(|it| it.replace(char::is_control, " "));
    lines.map(|it| it + "\n").chain(["\n".to_owned()]).collect()
}

fn send(sendmail: &Path, to: &str, texts: &[&[u8]]) -> anyhow::Result<()> {
    let own = |name: &str| std::env::var_os(name).map(|value| (name.to_owned(), value));
    let mut child = Command::new(sendmail)
        .args(["-FCronDaemon", "-i", "-B8BITMIME", "-oem", to])
        .env_clear()
        .env("PATH", PATH)
        .envs(["HOME", "LOGNAME"].into_iter().filter_map(own))
        .stdin(Stdio::piped())
        .spawn()
        .with_context(|| sendmail.display().to_string())?;
    let mut stdin = child.stdin.take().context("sendmail has no input")?;
    let given = texts.iter().try_for_each(|text| stdin.write_all(text));
    drop(stdin);
    let status = child.wait()?;
    anyhow::ensure!(status.success(), "{}: {status}", sendmail.display());
    given.with_context(|| sendmail.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(to: &str, command: &str) -> Options {
        Options {
            sendmail: "/usr/sbin/sendmail".into(),
            to: to.to_owned(),
            user: "ann".to_owned(),
            command: command.to_owned(),
            argv: Vec::new(),
        }
    }

    #[test]
    fn the_head_of_a_mail_is_crons_and_nothing_breaks_out_of_it() {
        let variables = ["A=b\nBcc: eve".to_owned()];
        let failed = ExitStatus::from_raw(256);
        let head = head(
            &options("bob", "date\r\n x"),
            "n1.example",
            &variables,
            failed,
        );
        let wanted = "From: root (Cron Daemon)\nTo: bob\nSubject: Cron <ann@n1> date   x (failed)\n\
                      MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n\
                      Content-Transfer-Encoding: 8bit\nX-Cron-Env: <A=b Bcc: eve>\n\n";
        assert_eq!(head, wanted);
    }

    #[test]
    fn what_could_be_an_option_or_a_command_is_no_address() {
        for safe in ["root", "a.b@example.org", "a,b", "x!y", "a+b@c"] {
            check(safe).unwrap();
        }
        for other in ["-oQ/tmp", "a b", "a;b", "a|b", "ä@b", "a\nb"] {
            assert!(check(other).is_err(), "{other}");
        }
    }

    #[test]
    fn no_more_is_kept_than_is_mailed() {
        let mut kept = Kept::default();
        for _ in 0..3 {
            kept.add(&vec![b'x'; MOST_BYTES / 2 + 1]);
        }
        assert_eq!(kept.0.len(), MOST_BYTES + 1);
        kept.cut();
        assert!(kept.0.ends_with(b"(The rest is in the log of the run.)\n"));
        let mut few = Kept(b"a".to_vec());
        few.cut();
        assert_eq!(few.0, b"a");
    }
}
