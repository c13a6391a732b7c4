// SPDX-License-Identifier: Apache-2.0
//! Where the standard streams of a command lead (systemd.exec(5), "Logging and Standard
//! Input/Output"), but for sockets, which are [`crate::unit::socket::pass`]'s.

use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;

use model::launch::{Stream, Streams};
use rustix::fs::{MemfdFlags, memfd_create};
use units::unit::Settings;
use units::value::Value;

/// The name of the descriptor that has what a program reads.
pub(super) const INPUT: &str = "input";

pub(super) fn text<'a>(settings: &'a Settings, field: &str) -> &'a str {
    settings.text(field).or(settings.word(field)).unwrap_or("")
}

fn data(settings: &Settings) -> Option<&[u8]> {
    match settings.get("StandardInputData") {
        Some(Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// What a program reads, where that is in the unit. It is standard input by default.
pub(super) fn input(settings: &Settings) -> Option<&[u8]> {
    match text(settings, "StandardInput") {
        "" => data(settings),
        "data" => Some(data(settings).unwrap_or_default()),
        _ => None,
    }
}

/// A file that is nowhere, with these bytes in it, to be read from the beginning.
pub(super) fn written_down(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create("standard-input", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(file);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

pub(super) fn of(settings: &Settings) -> Streams {
    let terminal = || Stream::Tty(super::terminal::path(settings).to_owned());
    let stdin = match text(settings, "StandardInput") {
        _ if input(settings).is_some() => Stream::Descriptor(INPUT.to_owned()),
        "tty" | "tty-force" | "tty-fail" => terminal(),
        other => match other.strip_prefix("file:") {
            Some(path) => Stream::File(path.to_owned()),
            None => Stream::Log,
        },
    };
    let output = |field: &str, inherited: Stream| match text(settings, field) {
        "inherit" => inherited,
        "null" => Stream::Null,
        "tty" => terminal(),
        other => {
            let path = |prefix: &str| other.strip_prefix(prefix).map(str::to_owned);
            let file = path("file:").map(Stream::File);
            let file = file.or_else(|| path("append:").map(Stream::Append));
            let file = file.or_else(|| path("truncate:").map(Stream::Truncate));
            file.unwrap_or_default()
        }
    };
    let as_input = match &stdin {
        Stream::File(_) | Stream::Tty(_) => Stream::Inherit,
        _ => Stream::Null,
    };
    let stdout = output("StandardOutput", as_input);
    // systemd.exec(5), StandardError=: `inherit` by default, which of the journal is the journal.
    let as_output = match &stdout {
        Stream::Log => Stream::Log,
        _ => Stream::Inherit,
    };
    let stderr = match text(settings, "StandardError") {
        "" => as_output,
        _ => output("StandardError", as_output),
    };
    Streams {
        stdin,
        stdout,
        stderr,
    }
}

/// Whether streams lead where a directive says.
pub(crate) fn is_known(settings: &Settings, field: &str) -> bool {
    let text = text(settings, field);
    let file = ["file:", "append:", "truncate:"];
    match field {
        "StandardInput" => {
            matches!(
                text,
                "null" | "data" | "tty" | "tty-force" | "tty-fail" | "socket"
            ) || text.starts_with("file:")
        }
        _ => {
            matches!(text, "inherit" | "null" | "tty" | "socket" | "journal")
                || file.iter().any(|it| text.starts_with(it))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn streams_lead_where_the_manual_says() {
        // systemd.exec(5), StandardInput=, StandardOutput=, StandardError=.
        let file = |it: &str| Stream::File(it.to_owned());
        for (text, stdin, stdout, stderr) in [
            ("", Stream::Log, Stream::Log, Stream::Log),
            (
                "StandardOutput=journal",
                Stream::Log,
                Stream::Log,
                Stream::Log,
            ),
            (
                "StandardOutput=null",
                Stream::Log,
                Stream::Null,
                Stream::Inherit,
            ),
            (
                "StandardOutput=inherit",
                Stream::Log,
                Stream::Null,
                Stream::Inherit,
            ),
            (
                "StandardInput=file:/a\nStandardOutput=append:/b\nStandardError=truncate:/c",
                file("/a"),
                Stream::Append("/b".to_owned()),
                Stream::Truncate("/c".to_owned()),
            ),
            (
                "StandardInput=tty\nTTYPath=/dev/tty9\nStandardOutput=inherit\nStandardError=journal",
                Stream::Tty("/dev/tty9".to_owned()),
                Stream::Inherit,
                Stream::Log,
            ),
            (
                "StandardOutput=file:/a\nStandardError=inherit",
                Stream::Log,
                file("/a"),
                Stream::Inherit,
            ),
        ] {
            let expected = Streams {
                stdin,
                stdout,
                stderr,
            };
            assert_eq!(of(&settings(text)), expected, "{text}");
        }
    }

    #[test]
    fn what_is_read_is_put_together_from_its_lines() {
        // systemd.exec(5), StandardInputText=, StandardInputData=.
        let text = "StandardInputText=one\\ttwo\nStandardInputData=dGhy\nStandardInputData=ZWU=\n\
                    StandardInputText=%n";
        let settings_of = settings(text);
        let expected = "one\ttwo\nthreea.service\n";
        assert_eq!(input(&settings_of), Some(expected.as_bytes()));
        assert_eq!(of(&settings_of).stdin, Stream::Descriptor(INPUT.to_owned()));
        let null = settings(&format!("{text}\nStandardInput=null"));
        assert_eq!(input(&null), None);
        let reset = settings(&format!("{text}\nStandardInputData="));
        assert_eq!(input(&reset), None);
        let mut read = String::new();
        let mut file = std::fs::File::from(written_down(b"abc").unwrap());
        std::io::Read::read_to_string(&mut file, &mut read).unwrap();
        assert_eq!(read, "abc");
    }
}
