// SPDX-License-Identifier: Apache-2.0
//! Paths of objects: what of a unit's name can't be in one is written in hexadecimal digits
//! (sd_bus_path_encode(3)). Pure.

use units::name::UnitName;

/// The manager.
pub(crate) const MANAGER: &str = "/org/freedesktop/systemd1";
/// What of a service's log can be set (org.freedesktop.LogControl1(5)).
const LOG: &str = "/org/freedesktop/LogControl1";
const UNIT: &str = "/org/freedesktop/systemd1/unit";
const JOB: &str = "/org/freedesktop/systemd1/job";

/// What a path names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Object {
    /// `/` and what leads to the manager.
    Way,
    Manager,
    /// What is logged.
    Log,
    /// All units, all jobs.
    Units,
    Jobs,
    Unit(UnitName),
    /// The unit of the caller (`unit/self`).
    OwnUnit,
    Job(u64),
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => escaped.push(char::from(byte)),
            b'0'..=b'9' if at > 0 => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("_{byte:02x}")),
        }
    }
    match escaped.is_empty() {
        true => "_".to_owned(),
        false => escaped,
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'_' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// Where a unit is.
pub(crate) fn of_unit(unit: &str) -> String {
    format!("{UNIT}/{}", escape(unit))
}

/// Where a job is.
pub(crate) fn of_job(job: u64) -> String {
    format!("{JOB}/{job}")
}

/// What a path names; `None`: nothing.
pub(crate) fn object(path: &str) -> Option<Object> {
    match path {
        "/" | "/org" | "/org/freedesktop" => return Some(Object::Way),
        MANAGER => return Some(Object::Manager),
        LOG => return Some(Object::Log),
        UNIT => return Some(Object::Units),
        JOB => return Some(Object::Jobs),
        "/org/freedesktop/systemd1/unit/self" => return Some(Object::OwnUnit),
        _ => {}
    }
    if let Some(job) = path.strip_prefix("/org/freedesktop/systemd1/job/") {
        return job.parse().ok().map(Object::Job);
    }
    let unit = path.strip_prefix("/org/freedesktop/systemd1/unit/")?;
    let unit = UnitName::parse(&unescape(unit)?).ok()?;
    Some(Object::Unit(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_systemd_does() {
        assert_eq!(
            of_unit("ssh.service"),
            "/org/freedesktop/systemd1/unit/ssh_2eservice"
        );
        assert_eq!(
            of_unit("user@1000.service"),
            "/org/freedesktop/systemd1/unit/user_401000_2eservice"
        );
        assert_eq!(
            of_unit("0a.slice"),
            "/org/freedesktop/systemd1/unit/_30a_2eslice"
        );
        for name in [
            "ssh.service",
            "-.mount",
            "dev-disk-by\\x2duuid.swap",
            "a@b.service",
        ] {
            let unit = UnitName::parse(name).unwrap();
            assert_eq!(object(&of_unit(name)), Some(Object::Unit(unit)));
        }
        assert_eq!(object(&of_job(7)), Some(Object::Job(7)));
        assert_eq!(object("/org/freedesktop/LogControl1"), Some(Object::Log));
        for nothing in [
            "/x",
            "/org/freedesktop/systemd1/unit/a_2",
            "/org/freedesktop/systemd1/job/x",
        ] {
            assert_eq!(object(nothing), None, "{nothing}");
        }
    }
}
