// SPDX-License-Identifier: Apache-2.0
//! The kinds of values, and what the reference says of each.

use super::scalar::Counts;
use super::shape::Shape;

/// How a directive's text is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, or empty for the default.
    WordOrNone(&'static [&'static str]),
    /// Yes, no, or one of these words.
    FlagOr(&'static [&'static str]),
    /// A text, with specifiers.
    Text,
    /// A text in which a specifier is an ordinary character.
    Raw,
    /// A text of some form.
    Shaped(Shape),
    /// Words of some form; several lines add up.
    ShapedList(Shape),
    /// Words with quotes; several lines add up.
    Texts,
    /// A number from the first to the second.
    Number(i64, i64),
    /// A number from the first to the second, or empty for the default.
    NumberOrNone(i64, i64),
    /// A number of bytes, with K, M, G or T.
    Size,
    /// A span of time; a number without unit is seconds.
    Span,
    /// As `Span`; empty is the default.
    SpanOrEmpty,
    /// As `Span`; 0 is no limit.
    SpanOrNone,
    /// A span of time; a number without unit is nanoseconds.
    Nanos,
    /// Octal permissions.
    Mode,
    /// A signal.
    Signal,
    /// Memory: bytes, a share, `infinity`.
    Memory,
    /// A count, a share, `infinity`.
    Tasks,
    /// A weight from 1 to 10000; with `idle` where it is a processor's.
    Weight,
    /// A share of one processor.
    Quota,
    /// A resource limit.
    Bounds(Counts),
    /// Names of units; several lines add up and can't be taken back.
    Units,
    /// Names of units in `[Install]`; specifiers stay for the moment of enabling.
    InstallUnits,
    /// One unit, of this type where it is not empty.
    Unit(&'static str),
    /// An absolute path.
    Path,
    /// Absolute paths with `-` and `+`; several lines add up.
    Paths,
    /// One absolute path with `-`; several lines add up.
    Files,
    /// A folder, `~`, `-` before it.
    WorkingDirectory,
    /// `SOURCE:TARGET:OPTIONS`.
    Binds,
    /// `PATH:OPTIONS` of temporary file systems.
    Temporary,
    /// Names of folders below one of the system's, `:LINK` behind.
    Folders,
    /// A command line.
    Commands,
    /// A condition; the parameter is a path.
    PathCondition,
    /// A condition.
    Condition,
    /// Assignments of environment variables.
    Variables,
    /// Capabilities, `~` inverts; the first is of the bounding set.
    Capabilities(bool),
    /// Names allowed or, with `~`, not.
    Filter,
    /// Families of sockets allowed or not.
    Families,
    /// Network interfaces allowed or not.
    Interfaces,
    /// Namespaces: yes, no, or names, `~` inverts.
    Namespaces,
    /// System calls and groups, `~` inverts.
    Syscalls,
    /// Exit statuses and signals.
    Statuses,
    /// An errno's name, or `kill`.
    Errno,
    /// A calendar expression.
    Calendar,
    /// A span from an event on.
    Clock,
    /// What is listened on.
    Listen,
    /// What is watched.
    Watch,
    /// Numbers and ranges of processors or nodes.
    Indices,
    /// Networks, `any`, `localhost`, `link-local`, `multicast`.
    Networks,
    /// A device and `rwm`.
    Devices,
    /// A name and a path, with a colon between.
    LoadCredential,
    /// A name and a text, with a colon between.
    SetCredential,
    /// A device and bytes a second.
    DeviceRate,
    /// A device and operations a second.
    DeviceCount,
    /// A device and a weight.
    DeviceWeight,
    /// A device and a span of time.
    DeviceLatency,
    /// Standard input.
    Input,
    /// A line of standard input; several lines add up.
    InputText,
    /// Base64 of standard input; several lines add up.
    InputData,
    /// Standard output and error.
    Output,
    /// It is accepted, and does nothing in systemd 252.
    Gone,
}

impl Kind {
    /// Whether an empty value gives the default back. The others say that an empty one is wrong.
    pub(crate) const fn resets(self) -> bool {
        !matches!(
            self,
            Self::Flag
                | Self::FlagOr(_)
                | Self::Word(_)
                | Self::Signal
                | Self::Bounds(_)
                | Self::Input
                | Self::Output
                | Self::Unit(_)
                | Self::Shaped(Shape::BusName)
                | Self::Gone
                | Self::Number(..)
                | Self::Size
                | Self::Span
                | Self::SpanOrNone
                | Self::Nanos
                | Self::Mode
                | Self::Units
                | Self::InstallUnits
                | Self::Capabilities(_)
        )
    }

    /// For the reference.
    pub fn describe(self) -> String {
        let text = match self {
            Self::Flag => "boolean",
            Self::Word(words) | Self::WordOrNone(words) => return words.join(", "),
            Self::FlagOr(words) => return format!("boolean, {}", words.join(", ")),
            Self::Text | Self::Raw => "text",
            Self::Texts => "words",
            Self::Shaped(shape) => return format!("{shape:?}").to_lowercase(),
            Self::ShapedList(shape) => return format!("{shape:?}, several").to_lowercase(),
            Self::Number(least, i64::MAX) | Self::NumberOrNone(least, i64::MAX) => {
                return format!("number from {least} on");
            }
            Self::Number(least, most) | Self::NumberOrNone(least, most) => {
                return format!("number, {least} to {most}");
            }
            Self::Size => "bytes",
            Self::Span | Self::SpanOrEmpty => "span of time",
            Self::SpanOrNone => "span of time, 0 for none",
            Self::Nanos => "nanoseconds",
            Self::Mode => "octal mode",
            Self::Signal => "signal",
            Self::Memory => "bytes, share, infinity",
            Self::Tasks => "number, share, infinity",
            Self::Weight => "weight, 1 to 10000",
            Self::Quota => "share of a processor",
            Self::Bounds(_) => "limit, or soft:hard",
            Self::Units | Self::InstallUnits => "units",
            Self::Unit("") => "unit",
            Self::Unit(kind) => return format!("unit, .{kind}"),
            Self::Path => "absolute path",
            Self::Paths => "absolute paths",
            Self::Files => "absolute path, `-` before it",
            Self::WorkingDirectory => "absolute path, ~",
            Self::Binds => "source:target:options",
            Self::Temporary => "path:options",
            Self::Folders => "relative paths",
            Self::Commands => "command line",
            Self::PathCondition => "condition on a path",
            Self::Condition => "condition",
            Self::Variables => "NAME=value",
            Self::Capabilities(_) => "capabilities, ~",
            Self::Filter => "names, ~",
            Self::Families => "families of sockets, ~",
            Self::Interfaces => "network interfaces, ~",
            Self::Namespaces => "boolean, namespaces, ~",
            Self::Syscalls => "system calls, @groups, ~",
            Self::Statuses => "exit statuses, signals",
            Self::Errno => "errno, kill",
            Self::Calendar => "calendar expression",
            Self::Clock => "span of time",
            Self::Listen => "address",
            Self::Watch => "absolute path",
            Self::Indices => "numbers, ranges",
            Self::Networks => "networks",
            Self::Devices => "device, rwm",
            Self::LoadCredential => "name:path",
            Self::SetCredential => "name:text",
            Self::DeviceRate => "device, bytes a second",
            Self::DeviceCount => "device, operations a second",
            Self::DeviceWeight => "device, weight",
            Self::DeviceLatency => "device, span of time",
            Self::Input => "null, tty, socket, file:, …",
            Self::InputText => "text with escapes",
            Self::InputData => "base64",
            Self::Output => "journal, null, file:, …",
            Self::Gone => "ignored",
        };
        text.to_owned()
    }
}
