// SPDX-License-Identifier: Apache-2.0
//! The terminal of a unit (systemd.exec(5), `TTYPath=` and what follows it there): what it is
//! called to its program, and what is done to it before each command and when the unit is down.
//! Blocks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use kernel::tty;
use runtime::Terminal;
use rustix::fs::OFlags;
use units::unit::Settings;

use super::streams::text;

/// `TTYPath=` by default.
pub(super) const CONSOLE: &str = "/dev/console";
/// No scrolling region, the upper left corner, nothing on the screen or behind it:
/// console_codes(4).
const CLEAR: &[u8] = b"\x1b[r\x1b[H\x1b[3J";

/// The terminal's file.
pub(super) fn path(settings: &Settings) -> &str {
    settings.text("TTYPath").unwrap_or(CONSOLE)
}

/// What becomes of another session that has it.
pub(super) fn of_others(settings: &Settings) -> Terminal {
    match text(settings, "StandardInput") {
        "tty" => Terminal::IsAwaited,
        "tty-force" => Terminal::IsTaken,
        _ => Terminal::IsRefused,
    }
}

/// `$TERM`, where a terminal matters to the unit.
pub(super) fn name(settings: &Settings) -> Option<&'static str> {
    let is_one = |field: &str| text(settings, field).starts_with("tty");
    let streams = ["StandardInput", "StandardOutput", "StandardError"];
    let matters = settings.text("TTYPath").is_some() || streams.into_iter().any(is_one);
    matters.then(|| match number(&active(path(settings))) {
        Some(_) => "linux",
        None => "vt220",
    })
}

/// What the console is at the moment.
fn active(path: &str) -> String {
    let plain = path.strip_prefix("/dev/").unwrap_or(path);
    if plain != "console" {
        return plain.to_owned();
    }
    let active = fs::read_to_string("/sys/class/tty/console/active").unwrap_or_default();
    let last = active.split_whitespace().next_back();
    let last = last.unwrap_or(plain).to_owned();
    match last.as_str() {
        "tty0" => fs::read_to_string("/sys/class/tty/tty0/active")
            .map_or(last, |it| it.trim_end().to_owned()),
        _ => last,
    }
}

/// The number of a virtual console.
fn number(name: &str) -> Option<u16> {
    name.strip_prefix("tty")?.parse().ok().filter(|it| *it > 0)
}

fn open(path: &str) -> io::Result<File> {
    // Neither ours, nor waiting for a carrier.
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let flags = flags.bits().cast_signed();
    options
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)
}

/// Whether something is done to it at all.
pub(crate) fn is_made_ready(settings: &Settings) -> bool {
    let fields = ["TTYReset", "TTYVHangup", "TTYVTDisallocate"];
    fields.into_iter().any(|it| settings.flag(it) == Some(true))
}

/// What is done to a terminal, by its path.
type Act = fn(&str) -> io::Result<()>;

/// Takes it from the programs that had it: `TTYVHangup=`, `TTYReset=`, `TTYVTDisallocate=`. What
/// can't be done is told, and the command is begun all the same, as under systemd.
pub(crate) fn make_ready(settings: &Settings) {
    let flag = |field: &str| settings.flag(field) == Some(true);
    let path = path(settings);
    let steps: [(&str, Act); 3] = [
        ("TTYVHangup", |path| Ok(tty::hang_up(open(path)?)?)),
        ("TTYReset", |path| Ok(tty::reset(open(path)?)?)),
        ("TTYVTDisallocate", give_back),
    ];
    for (field, act) in steps.into_iter().filter(|(field, _)| flag(field)) {
        if let Err(error) = act(path) {
            tracing::warn!(path, field, %error, "a terminal is left as it is");
        }
    }
}

/// A virtual console goes, or what it shows where it is in use.
fn give_back(path: &str) -> io::Result<()> {
    if let Some(number) = number(path.strip_prefix("/dev/").unwrap_or(path))
        && tty::give_back(open("/dev/tty0")?, number).is_ok()
    {
        return Ok(());
    }
    open(path)?.write_all(CLEAR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use units::calendar::zones::UtcOnly;
    use units::name::UnitName;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    fn settings(text: &str) -> Settings {
        let name = UnitName::parse("a.service").unwrap();
        let text = format!("[Service]\nExecStart=/bin/x\n{text}\n");
        from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly).settings
    }

    #[test]
    fn a_terminal_is_called_by_its_kind() {
        // systemd.exec(5), $TERM.
        for (text, expected) in [
            ("", None),
            ("TTYPath=/dev/tty1", Some("linux")),
            ("StandardInput=tty\nTTYPath=/dev/ttyS0", Some("vt220")),
            ("StandardOutput=tty\nTTYPath=/dev/tty7", Some("linux")),
            ("StandardInput=null", None),
        ] {
            assert_eq!(name(&settings(text)), expected, "{text}");
        }
    }

    #[test]
    fn others_lose_it_wait_or_are_left_alone() {
        for (word, expected) in [
            ("tty", Terminal::IsAwaited),
            ("tty-force", Terminal::IsTaken),
            ("tty-fail", Terminal::IsRefused),
            ("null", Terminal::IsRefused),
        ] {
            let settings = settings(&format!("StandardInput={word}"));
            assert_eq!(of_others(&settings), expected);
        }
    }

    #[test]
    fn what_a_program_has_left_is_undone() {
        let (master, slave) = tty::open_pair().unwrap();
        let path = rustix::termios::ttyname(&slave, Vec::new()).unwrap();
        tty::make_raw(&slave).unwrap();
        let text = format!(
            "TTYPath={}\nTTYReset=yes\nTTYVTDisallocate=yes",
            path.to_str().unwrap()
        );
        let settings = settings(&text);
        assert!(is_made_ready(&settings));
        make_ready(&settings);
        let mut master = File::from(master);
        let mut cleared = vec![0; CLEAR.len()];
        master.read_exact(&mut cleared).unwrap();
        assert_eq!(cleared, CLEAR);
        master.write_all(b"a\n").unwrap();
        let mut echo = [0; 3];
        master.read_exact(&mut echo).unwrap();
        assert_eq!(&echo, b"a\r\n");
    }
}
