// SPDX-License-Identifier: Apache-2.0
//! The values of directives: what each kind of text means. A kind is a parser and what it gives
//! ([`Value`]); which directive has which kind is said by [`crate::table`].

mod kind;
mod lists;
mod members;
pub mod scalar;
mod sets;
pub mod shape;
mod special;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::signal::Signal;

use crate::calendar::Calendar;
use crate::exec::Command;
use crate::name::UnitName;
use crate::time::Span;
pub use kind::Kind;
pub use sets::capability_names;
pub(crate) use special::{Task, parse};

/// A bound that may be absent, or a share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// No bound.
    Infinity,
    /// Bytes or a count, as the directive says.
    Of(u64),
    /// Of all that the machine has, in hundredths of a percent.
    Share(u32),
}

/// A resource limit (setrlimit(2)). `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// What a process has.
    pub soft: Option<u64>,
    /// Up to what it may raise it.
    pub hard: Option<u64>,
}

/// A path with its marks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkedPath {
    /// Absolute, without doubled slashes; with wildcards where the directive takes them.
    pub path: String,
    /// `-`: it need not be there.
    pub optional: bool,
    /// `+`: below the unit's own root folder.
    pub in_root: bool,
}

/// A path bound to another place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bind {
    /// From where.
    pub source: String,
    /// To where.
    pub target: String,
    /// `-`: the source need not be there.
    pub optional: bool,
    /// What follows the second colon: `rbind`, `norbind`, or a file system's options.
    pub options: String,
}

/// A condition or an assertion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// What is tested: the directive's name without `Condition` or `Assert`.
    pub test: &'static str,
    /// `|`: one of those with this mark must hold.
    pub triggering: bool,
    /// `!`: it must not be so.
    pub negated: bool,
    /// The rest.
    pub parameter: String,
}

/// A clock of a timer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Clock {
    /// `OnCalendar=`.
    Calendar(Calendar),
    /// The others: which one, and how long after it.
    After(&'static str, Span),
}

/// What a socket unit listens on: the directive's name, and the address as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    /// `ListenStream` and so on.
    pub directive: &'static str,
    /// The address.
    pub address: Address,
}

/// Where a socket is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A file.
    Path(String),
    /// A name of the abstract namespace, without `@`.
    Abstract(String),
    /// A port of every address.
    Port(u16),
    /// An address and a port, and the interface of an IPv6 address.
    Inet(IpAddr, u16, Option<String>),
    /// vsock: context (`None` is any) and port.
    Vsock(Option<u32>, u32),
    /// A netlink family and its multicast groups.
    Netlink(String, u32),
}

/// What is watched by a path unit: the directive's name, and the path.
pub type Watch = (&'static str, String);

/// A list of names that are allowed, or of those that aren't.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    /// Whether the names are the allowed ones.
    pub allow: bool,
    /// The names.
    pub names: BTreeSet<String>,
}

/// System calls that are allowed or not. The assignments in order: groups (`@mount`) are known to
/// the code that applies them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Syscalls {
    /// Whether the first assignment was a list of allowed ones.
    pub allow: bool,
    /// Whether `~` stood before it, a call or a group, and what is done instead (`:EPERM`,
    /// `:kill`).
    pub steps: Vec<(bool, String, Option<String>)>,
}

/// How a process may end: statuses and signals.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statuses {
    /// Exit statuses.
    pub codes: BTreeSet<u8>,
    /// Signals that ended it.
    pub signals: BTreeSet<Signal>,
}

/// An entry of `DeviceAllow=`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// A path, or `char-NAME` or `block-NAME` with wildcards.
    pub node: String,
    /// Of `r`, `w`, `m`.
    pub access: String,
}

/// A credential.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential {
    /// Its name.
    pub name: String,
    /// A path, or the text itself.
    pub content: String,
}

/// A value, parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// One of the words that the directive takes.
    Word(&'static str),
    /// Any text.
    Text(String),
    /// Words, in order.
    Texts(Vec<String>),
    /// A number.
    Number(i64),
    /// A number of bytes.
    Size(u64),
    /// Hundredths of a percent of one processor.
    Quota(Option<u64>),
    /// A span of time.
    Span(Span),
    /// Permission bits.
    Mode(u32),
    /// A signal.
    Signal(Signal),
    /// A bound that may be absent.
    Limit(Limit),
    /// A resource limit.
    Bounds(Bounds),
    /// Names of units, in order.
    Units(Vec<UnitName>),
    /// Paths with their marks.
    Paths(Vec<MarkedPath>),
    /// Bound paths.
    Binds(Vec<Bind>),
    /// Commands, in order.
    Commands(Vec<Command>),
    /// Conditions or assertions.
    Conditions(Vec<Condition>),
    /// Variables; the last of a name counts.
    Variables(Vec<(String, String)>),
    /// Capabilities: bit N is number N (`model::capability::NAMES`).
    Capabilities(u64),
    /// Names that are allowed or not.
    Filter(Filter),
    /// System calls.
    Syscalls(Syscalls),
    /// Exit statuses and signals.
    Statuses(Statuses),
    /// The clocks of a timer.
    Clocks(Vec<Clock>),
    /// What a socket unit listens on.
    Listens(Vec<Listen>),
    /// What is watched.
    Watches(Vec<Watch>),
    /// Numbers of processors or memory nodes.
    Indices(BTreeSet<u32>),
    /// Networks: address and length of the prefix; `any` is both families with length 0.
    Networks(Vec<(IpAddr, u8)>),
    /// Devices that may be used, and how.
    Devices(Vec<Device>),
    /// Credentials that are passed.
    Credentials(Vec<Credential>),
    /// A device or a file on one, and a number, by the device.
    PerDevice(Vec<(String, u64)>),
    /// What a program reads.
    Bytes(Vec<u8>),
}

/// What an assignment comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The directive has this value now.
    Set(Value),
    /// It has its default again.
    Reset,
    /// Nothing changes: what is wrong, and at which byte of the value.
    Ignore(usize, String),
    /// The unit can't be used.
    Fail(usize, String),
}

/// A value, and what is said of parts that are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parsed {
    pub(crate) outcome: Outcome,
    pub(crate) notes: Vec<(usize, String)>,
}

impl Parsed {
    pub(crate) fn set(value: Value) -> Parsed {
        Outcome::Set(value).into()
    }

    pub(crate) fn ignore(message: String) -> Parsed {
        Outcome::Ignore(0, message).into()
    }

    /// The value, or why it is ignored.
    pub(crate) fn of(result: Result<Value, String>) -> Parsed {
        match result {
            Ok(value) => Self::set(value),
            Err(message) => Self::ignore(message),
        }
    }
}

impl From<Outcome> for Parsed {
    fn from(outcome: Outcome) -> Parsed {
        Parsed {
            outcome,
            notes: Vec::new(),
        }
    }
}
