// SPDX-License-Identifier: Apache-2.0
//! The file of a transient unit, made of the properties that a call gives: so that files say of it,
//! too, what is wished, and it is read and judged as every other. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use units::name::UnitType;
use zbus::{OwnedVariant, Variant};

use crate::error::Failure;

/// What is about the call and no setting: who is told when it goes, and that it is to be kept as
/// long as the caller is there. Device rules of a scope are the engine's, which sets them itself.
const PASSED_OVER: [&str; 5] = [
    "AddRef",
    "Controller",
    "DevicePolicy",
    "DeviceAllow",
    "PIDFile",
];

/// What a call asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Asked {
    /// The unit's file.
    pub(super) text: String,
    /// The processes that it begins with.
    pub(super) processes: Vec<i32>,
}

type Sections = BTreeMap<&'static str, Vec<String>>;

/// The file of these properties.
///
/// # Errors
/// A property that has no directive, or has another type.
pub(super) fn of(kind: UnitType, properties: &[(String, OwnedVariant)]) -> Result<Asked, Failure> {
    let own = match kind {
        UnitType::Scope => "Scope",
        UnitType::Service => "Service",
        UnitType::Slice => "Slice",
        UnitType::Timer => "Timer",
        UnitType::Mount => "Mount",
        UnitType::Automount => "Automount",
        UnitType::Path => "Path",
        UnitType::Socket => "Socket",
        _ => {
            return Err(Failure::unsupported(
                "a unit of this type is not transient here",
            ));
        }
    };
    let mut sections = Sections::new();
    let mut asked = Asked::default();
    for (name, value) in properties {
        let value: &Variant<'_> = value;
        if name == "PIDs" {
            asked.processes = processes(value)?;
            continue;
        }
        if PASSED_OVER.contains(&name.as_str()) && (kind == UnitType::Scope || name == "AddRef") {
            continue;
        }
        let (name, words) = setting(name, value)?;
        // Properties of every unit stand in `[Unit]`.
        let section = match units::table::find("Unit", &name) {
            Some(_) => "Unit",
            None => own,
        };
        let lines = sections.entry(section).or_default();
        for words in words {
            if words.contains(['\n', '\0']) {
                return Err(invalid(&name, "has more than one line"));
            }
            lines.push(format!("{name}={words}"));
        }
    }
    sections.entry(own).or_default();
    for (section, lines) in sections {
        asked.text.push_str(&format!("[{section}]\n"));
        for line in lines {
            asked.text.push_str(&line);
            asked.text.push('\n');
        }
    }
    Ok(asked)
}

/// What a call gives a unit while it is there, as lines of its file. A list without members takes
/// back what was said before; that of marks is one line of words.
///
/// # Errors
/// As [`of`].
pub(super) fn settings(
    properties: &[(String, OwnedVariant)],
) -> Result<Vec<(String, String)>, Failure> {
    let mut all = Vec::new();
    for (name, value) in properties {
        let (name, mut lines) = setting(name, value)?;
        if lines.is_empty() || name == "Markers" {
            lines = vec![lines.join(" ")];
        }
        all.extend(lines.into_iter().map(|line| (name.clone(), line)));
    }
    Ok(all)
}

fn invalid(name: &str, problem: &str) -> Failure {
    Failure::of_bus("InvalidArgs", format!("the property {name} {problem}"))
}

fn processes(value: &Variant<'_>) -> Result<Vec<i32>, Failure> {
    let wrong = || invalid("PIDs", "is no list of processes");
    let Variant::Array(all) = value else {
        return Err(wrong());
    };
    let number = |it: &Variant<'_>| match it {
        Variant::U32(pid) => i32::try_from(*pid).ok(),
        _ => None,
    };
    all.inner()
        .iter()
        .map(number)
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}

/// A directive and its values, a line each.
fn setting(name: &str, value: &Variant<'_>) -> Result<(String, Vec<String>), Failure> {
    // `ExecStartEx` is `ExecStart` with flags instead of one of them.
    let name = match name.strip_suffix("Ex") {
        Some(stem) if stem.starts_with("Exec") => stem,
        _ => name,
    };
    let one = |words: String| Ok((name.to_owned(), vec![words]));
    if let (Some(stem), Variant::U64(micros)) = (name.strip_suffix("USec"), value) {
        if let Some(quota) = stem.strip_suffix("PerSec") {
            // Hundredths of a percent, as the directive has it.
            let share = micros / 100;
            let words = format!("{}.{:02}%", share / 100, share % 100);
            let words = if *micros == u64::MAX {
                String::new()
            } else {
                words
            };
            return Ok((quota.to_owned(), vec![words]));
        }
        return Ok((format!("{stem}Sec"), vec![bounded(*micros, "us")]));
    }
    if let (Some(stem), Variant::U32(share)) = (name.strip_suffix("Scale"), value) {
        return Ok((stem.to_owned(), vec![percent(*share)]));
    }
    if let (true, Variant::Array(mask)) = (SETS.contains(&name), value) {
        return one(numbers(name, mask.inner())?);
    }
    match value {
        Variant::Bool(yes) => one(if *yes { "yes" } else { "no" }.to_owned()),
        Variant::Str(text) => one(escaped(text.as_str())),
        Variant::U64(number) => one(bounded(*number, "")),
        Variant::U32(number) => one(number.to_string()),
        Variant::I32(number) => one(number.to_string()),
        Variant::Array(all) => {
            let lines = all.inner().iter().map(|it| line(name, it));
            Ok((name.to_owned(), lines.collect::<Result<_, _>>()?))
        }
        _ => Err(invalid(name, "has a type that has no directive here")),
    }
}

/// One of a list: a name, a variable, a command.
fn line(name: &str, value: &Variant<'_>) -> Result<String, Failure> {
    match value {
        Variant::Str(text) if name == "Environment" => Ok(quoted(text.as_str())),
        Variant::Str(text) => Ok(escaped(text.as_str())),
        Variant::Structure(parts) if name.starts_with("Exec") => command(name, parts.fields()),
        Variant::Structure(parts) if PAIRS.contains(&name) => {
            let words = parts.fields().iter().map(|it| word(name, it));
            Ok(words.collect::<Result<Vec<_>, _>>()?.join(" "))
        }
        Variant::Structure(parts) if NETWORKS.contains(&name) => network(name, parts.fields()),
        _ => Err(invalid(name, "has a type that has no directive here")),
    }
}

/// Sets of processors and of memory nodes, a bit each.
const SETS: [&str; 6] = [
    "AllowedCPUs",
    "StartupAllowedCPUs",
    "AllowedMemoryNodes",
    "StartupAllowedMemoryNodes",
    "CPUAffinity",
    "NUMAMask",
];

/// The numbers of a set, in words.
fn numbers(name: &str, mask: &[Variant<'_>]) -> Result<String, Failure> {
    let mut all = Vec::new();
    for (at, byte) in mask.iter().enumerate() {
        let Variant::U8(byte) = byte else {
            return Err(invalid(name, "is no set of numbers"));
        };
        let bits = (0..8).filter(|bit| byte & (1 << bit) != 0);
        all.extend(bits.map(|bit| (at * 8 + bit).to_string()));
    }
    Ok(all.join(" "))
}

/// Lists of networks: a family, an address and the length of its prefix.
const NETWORKS: [&str; 2] = ["IPAddressAllow", "IPAddressDeny"];
/// The families, as `socket(2)` numbers them on Linux.
const INET: i32 = 2;
const INET6: i32 = 10;

fn network(name: &str, parts: &[Variant<'_>]) -> Result<String, Failure> {
    let wrong = || invalid(name, "is no network");
    let [
        Variant::I32(family),
        Variant::Array(address),
        Variant::U32(prefix),
    ] = parts
    else {
        return Err(wrong());
    };
    let byte = |it: &Variant<'_>| match it {
        Variant::U8(byte) => Some(*byte),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = address.inner().iter().map(byte).collect();
    let bytes = bytes.ok_or_else(wrong)?;
    let address: IpAddr = match *family {
        INET => <[u8; 4]>::try_from(bytes).map_err(|_| wrong())?.into(),
        INET6 => <[u8; 16]>::try_from(bytes).map_err(|_| wrong())?.into(),
        _ => return Err(wrong()),
    };
    Ok(format!("{address}/{prefix}"))
}

/// Lists of devices, each with what may be done with it or how much.
const PAIRS: [&str; 6] = [
    "DeviceAllow",
    "IODeviceWeight",
    "IOReadBandwidthMax",
    "IOWriteBandwidthMax",
    "IOReadIOPSMax",
    "IOWriteIOPSMax",
];

/// A part of a line: a device and what may be done with it, or how much.
fn word(name: &str, part: &Variant<'_>) -> Result<String, Failure> {
    match part {
        Variant::Str(text) => Ok(escaped(text.as_str())),
        Variant::U64(number) => Ok(bounded(*number, "")),
        _ => Err(invalid(name, "has a type that has no directive here")),
    }
}

/// A share of what there is, of which the whole is the largest number.
fn percent(share: u32) -> String {
    let hundredths = (u64::from(share) * 10_000).div_ceil(u64::from(u32::MAX));
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

/// Prefixes of a command, by the word for each on the bus.
const PREFIXES: [(&str, char); 5] = [
    ("ignore-failure", '-'),
    ("privileged", '+'),
    ("no-setuid", '!'),
    ("ambient", '!'),
    ("no-env-expand", ':'),
];

/// What a command's last part says: whether its failure counts, or flags by name.
fn prefixes(name: &str, part: &Variant<'_>) -> Result<String, Failure> {
    match part {
        Variant::Bool(true) => Ok("-".to_owned()),
        Variant::Bool(false) => Ok(String::new()),
        Variant::Array(flags) => {
            let mut all = String::new();
            for flag in flags.inner() {
                let known = PREFIXES
                    .iter()
                    .find(|(word, _)| matches!(flag, Variant::Str(it) if it.as_str() == *word));
                let (word, prefix) = known.ok_or_else(|| invalid(name, "has an unknown flag"))?;
                all.push(*prefix);
                if *word == "ambient" {
                    all.push(*prefix);
                }
            }
            Ok(all)
        }
        _ => Err(invalid(name, "is no command")),
    }
}

/// A program, its words, and whether its failure counts.
fn command(name: &str, parts: &[Variant<'_>]) -> Result<String, Failure> {
    let [Variant::Str(path), Variant::Array(words), last] = parts else {
        return Err(invalid(name, "is no command"));
    };
    let words: Option<Vec<&str>> = words
        .inner()
        .iter()
        .map(|it| match it {
            Variant::Str(word) => Some(word.as_str()),
            _ => None,
        })
        .collect();
    let words = words.ok_or_else(|| invalid(name, "is no command"))?;
    let Some((first, rest)) = words.split_first() else {
        return Err(invalid(name, "is a command without words"));
    };
    let mut line = prefixes(name, last)?;
    let renamed = *first != path.as_str() && !first.is_empty();
    if renamed {
        line.push('@');
    }
    line.push_str(&quoted(path.as_str()));
    for word in renamed.then_some(first).into_iter().chain(rest) {
        line.push(' ');
        line.push_str(&quoted(word));
    }
    Ok(line)
}

/// Specifiers are the file's, and a call has none.
fn escaped(text: &str) -> String {
    text.replace('%', "%%")
}

/// One word, whatever is in it (systemd.service(5), "Command lines").
fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            '\n' => quoted.push_str("\\n"),
            '%' => quoted.push_str("%%"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

fn bounded(number: u64, unit: &str) -> String {
    match number {
        u64::MAX => "infinity".to_owned(),
        number => format!("{number}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: UnitType, properties: Vec<(&str, Variant<'static>)>) -> Result<Asked, Failure> {
        let own = |(name, value): (&str, Variant<'static>)| {
            (name.to_owned(), OwnedVariant::try_from(value).unwrap())
        };
        of(kind, &properties.into_iter().map(own).collect::<Vec<_>>())
    }

    /// What logind asks for when a user logs in.
    #[test]
    fn a_session_s_scope_is_a_file() {
        let asked = asked(
            UnitType::Scope,
            vec![
                ("Slice", Variant::from("user-1000.slice")),
                ("Description", Variant::from("Session 4 of User 100%")),
                (
                    "After",
                    Variant::from(vec!["systemd-logind.service", "a.service"]),
                ),
                ("SendSIGHUP", Variant::from(true)),
                ("PIDs", Variant::from(vec![17_u32])),
                ("TasksMax", Variant::from(u64::MAX)),
                ("TimeoutStopUSec", Variant::from(5_000_000_u64)),
                ("CPUQuotaPerSecUSec", Variant::from(500_000_u64)),
                ("Controller", Variant::from(":1.3")),
            ],
        );
        let asked = asked.unwrap();
        assert_eq!(asked.processes, [17]);
        assert_eq!(
            asked.text,
            "[Scope]\nSlice=user-1000.slice\nSendSIGHUP=yes\nTasksMax=infinity\n\
             TimeoutStopSec=5000000us\nCPUQuota=50.00%\n\
             [Unit]\nDescription=Session 4 of User 100%%\nAfter=systemd-logind.service\n\
             After=a.service\n"
        );
    }

    #[test]
    fn commands_are_taken_word_by_word() {
        let command = ("/bin/sh", vec!["sh", "-c", "echo \"$1\" 5%"], true);
        let asked = asked(
            UnitType::Service,
            vec![
                ("ExecStart", Variant::from(vec![command])),
                ("Environment", Variant::from(vec!["A=b c"])),
            ],
        );
        assert_eq!(
            asked.unwrap().text,
            "[Service]\nExecStart=-@\"/bin/sh\" \"sh\" \"-c\" \"echo \\\"$1\\\" 5%%\"\n\
             Environment=\"A=b c\"\n"
        );
    }

    #[test]
    fn flags_of_a_command_are_its_prefixes() {
        let command = |flags: Vec<&'static str>| {
            let command = ("/bin/a", vec!["/bin/a", "b"], flags);
            let asked = asked(
                UnitType::Service,
                vec![("ExecStopEx", Variant::from(vec![command]))],
            );
            asked.map(|it| it.text).map_err(|it| it.words)
        };
        assert_eq!(
            command(vec!["ignore-failure", "no-env-expand"]).unwrap(),
            "[Service]\nExecStop=-:\"/bin/a\" \"b\"\n"
        );
        assert_eq!(
            command(vec!["ambient"]).unwrap(),
            "[Service]\nExecStop=!!\"/bin/a\" \"b\"\n"
        );
        assert!(command(vec!["sideways"]).unwrap_err().contains("ExecStop"));
    }

    /// What systemd-mount asks for.
    #[test]
    fn a_mount_is_a_file() {
        let asked = asked(
            UnitType::Mount,
            vec![
                ("What", Variant::from("tmpfs")),
                ("Type", Variant::from("tmpfs")),
                ("RuntimeDirectory", Variant::from(vec!["hoge"])),
            ],
        );
        assert_eq!(
            asked.unwrap().text,
            "[Mount]\nWhat=tmpfs\nType=tmpfs\nRuntimeDirectory=hoge\n"
        );
    }

    /// systemd's issue 20933: it crashed.
    #[test]
    fn a_command_without_words_is_refused() {
        let command = ("/bin/sleep", Vec::<&str>::new(), true);
        let asked = asked(
            UnitType::Service,
            vec![("ExecStart", Variant::from(vec![command]))],
        );
        assert!(asked.unwrap_err().words.contains("without words"));
    }

    #[test]
    fn settings_of_all_units_are_in_their_section() {
        let asked = asked(
            UnitType::Service,
            vec![
                ("SuccessAction", Variant::from("reboot")),
                ("StartLimitBurst", Variant::from(3_u32)),
                ("Type", Variant::from("oneshot")),
            ],
        );
        assert_eq!(
            asked.unwrap().text,
            "[Service]\nType=oneshot\n[Unit]\nSuccessAction=reboot\nStartLimitBurst=3\n"
        );
    }

    #[test]
    fn what_a_unit_is_given_is_a_line_of_its_file_for_each_value() {
        let of = |name: &str, value: Variant<'static>| {
            let property = (name.to_owned(), OwnedVariant::try_from(value).unwrap());
            let lines = settings(&[property]).unwrap();
            let lines = lines
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let devices = vec![("/dev/null", "rw"), ("/dev/zero", "r")];
        for (name, value, wanted) in [
            ("MemoryMax", Variant::from(u64::MAX), "MemoryMax=infinity"),
            (
                "MemoryMaxScale",
                Variant::from(u32::MAX / 2),
                "MemoryMax=50.00%",
            ),
            (
                "CPUQuotaPerSecUSec",
                Variant::from(100_000_u64),
                "CPUQuota=10.00%",
            ),
            ("IPAccounting", Variant::from(true), "IPAccounting=yes"),
            (
                "Documentation",
                Variant::from(Vec::<&str>::new()),
                "Documentation=",
            ),
            (
                "Markers",
                Variant::from(vec!["+needs-restart", "-needs-reload"]),
                "Markers=+needs-restart -needs-reload",
            ),
            (
                "IPAddressAllow",
                Variant::from(vec![
                    (2_i32, vec![10_u8, 0, 0, 0], 8_u32),
                    (10, vec![0; 16], 0),
                ]),
                "IPAddressAllow=10.0.0.0/8\nIPAddressAllow=::/0",
            ),
            (
                "AllowedCPUs",
                Variant::from(vec![0b1010_0001_u8, 1]),
                "AllowedCPUs=0 5 7 8",
            ),
            (
                "AllowedCPUs",
                Variant::from(Vec::<u8>::new()),
                "AllowedCPUs=",
            ),
            (
                "DeviceAllow",
                Variant::from(devices),
                "DeviceAllow=/dev/null rw\nDeviceAllow=/dev/zero r",
            ),
        ] {
            assert_eq!(of(name, value), wanted);
        }
    }

    #[test]
    fn what_has_no_directive_is_refused_by_its_name() {
        let words = |properties| asked(UnitType::Scope, properties).unwrap_err().words;
        let lines = words(vec![("Description", Variant::from("a\nExecStart=/bin/x"))]);
        assert!(lines.contains("Description"), "{lines}");
        assert!(words(vec![("X", Variant::from(1.5))]).contains('X'));
        assert!(words(vec![("PIDs", Variant::from("x"))]).contains("PIDs"));
        let short = vec![(2_i32, vec![10_u8, 0, 0], 8_u32)];
        let short = words(vec![("IPAddressDeny", Variant::from(short))]);
        assert!(short.contains("IPAddressDeny is no network"), "{short}");
        let other = words(vec![("AllowedCPUs", Variant::from(vec!["0"]))]);
        assert!(other.contains("AllowedCPUs"), "{other}");
    }
}
