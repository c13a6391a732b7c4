// SPDX-License-Identifier: Apache-2.0
//! Names of units: `postgresql@15-main.service` (systemd.unit(5), "Description" and "String
//! escaping for inclusion in unit names"). Not names of Aurae's objects.

use std::fmt;
use std::sync::Arc;

use crate::finding::shown;
use crate::syntax::escape;

/// The longest name, in bytes.
pub const LONGEST: usize = 255;

/// What a unit is: its name's ending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum UnitType {
    /// A program.
    Service,
    /// A socket, a FIFO or another endpoint that starts a service.
    Socket,
    /// A device of the kernel's.
    Device,
    /// A mount point.
    Mount,
    /// A mount point that is mounted when it is used.
    Automount,
    /// Swap space.
    Swap,
    /// A group of units, a point of synchronisation.
    Target,
    /// A watched path that starts a unit.
    Path,
    /// A clock that starts a unit.
    Timer,
    /// A node of the cgroup tree.
    Slice,
    /// Processes that something else has started.
    Scope,
}

impl UnitType {
    /// All, in the order of systemd(1).
    pub const ALL: [UnitType; 11] = [
        Self::Service,
        Self::Socket,
        Self::Device,
        Self::Mount,
        Self::Automount,
        Self::Swap,
        Self::Target,
        Self::Path,
        Self::Timer,
        Self::Slice,
        Self::Scope,
    ];

    /// The ending, without the dot.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Socket => "socket",
            Self::Device => "device",
            Self::Mount => "mount",
            Self::Automount => "automount",
            Self::Swap => "swap",
            Self::Target => "target",
            Self::Path => "path",
            Self::Timer => "timer",
            Self::Slice => "slice",
            Self::Scope => "scope",
        }
    }

    /// The type of that ending.
    pub fn from_suffix(suffix: &str) -> Option<UnitType> {
        Self::ALL.into_iter().find(|it| it.suffix() == suffix)
    }

    /// The section of its own, if it has one.
    pub const fn section(self) -> Option<&'static str> {
        match self {
            Self::Service => Some("Service"),
            Self::Socket => Some("Socket"),
            Self::Mount => Some("Mount"),
            Self::Automount => Some("Automount"),
            Self::Swap => Some("Swap"),
            Self::Path => Some("Path"),
            Self::Timer => Some("Timer"),
            Self::Slice => Some("Slice"),
            Self::Scope => Some("Scope"),
            Self::Target | Self::Device => None,
        }
    }

    /// Whether its units exist without a file.
    pub const fn needs_no_file(self) -> bool {
        matches!(self, Self::Device | Self::Scope | Self::Slice)
    }
}

impl fmt::Display for UnitType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.suffix())
    }
}

/// A valid name, in three parts: prefix, instance, type. A graph of units has each name some
/// hundred times: a clone shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitName {
    full: Arc<str>,
    /// Where the first `@` is.
    at: Option<usize>,
    kind: UnitType,
}

impl UnitName {
    /// Checks a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<UnitName, String> {
        let wrong = |problem: String| Err(format!("{} is no unit name: {problem}", shown(text)));
        let Some((stem, suffix)) = text.rsplit_once('.') else {
            return wrong("it has no ending such as `.service`".to_owned());
        };
        let Some(kind) = UnitType::from_suffix(suffix) else {
            let known: Vec<&str> = UnitType::ALL.iter().map(|it| it.suffix()).collect();
            return wrong(format!("its ending is none of {}", known.join(", ")));
        };
        if text.len() > LONGEST {
            return wrong(format!("it is longer than {LONGEST} bytes"));
        }
        if stem.is_empty() || stem.starts_with('@') {
            return wrong("nothing stands before the type or the `@`".to_owned());
        }
        if let Some(c) = stem.chars().find(|c| !is_valid(*c)) {
            return wrong(format!(
                "it has {c:?}; letters, digits and `:-_.\\@` may be in it, other bytes as `\\xHH`"
            ));
        }
        Ok(UnitName {
            full: text.into(),
            at: stem.find('@'),
            kind,
        })
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.full
    }

    /// The type.
    pub fn kind(&self) -> UnitType {
        self.kind
    }

    /// Without the type.
    pub fn stem(&self) -> &str {
        let end = self.full.len() - self.kind.suffix().len() - 1;
        self.full.get(..end).unwrap_or("")
    }

    /// What is before the first `@`, or the stem.
    pub fn prefix(&self) -> &str {
        let stem = self.stem();
        self.at.and_then(|at| stem.get(..at)).unwrap_or(stem)
    }

    /// What is behind the `@`; `None` of a plain unit, empty of a template.
    pub fn instance(&self) -> Option<&str> {
        self.stem().get(self.at? + 1..)
    }

    /// `foo@.service`.
    pub fn is_template(&self) -> bool {
        self.instance() == Some("")
    }

    /// `foo@bar.service`.
    pub fn is_instance(&self) -> bool {
        self.instance().is_some_and(|it| !it.is_empty())
    }

    /// The template of an instance.
    pub fn template(&self) -> Option<UnitName> {
        self.is_instance().then(|| self.instantiated("")).flatten()
    }

    /// The template or instance with this instance; `None` of a plain unit, or where it gives no
    /// valid name.
    pub fn instantiated(&self, instance: &str) -> Option<UnitName> {
        self.at?;
        Self::parse(&format!("{}@{instance}.{}", self.prefix(), self.kind)).ok()
    }

    /// The same name with another type.
    pub fn with_kind(&self, kind: UnitType) -> Option<UnitName> {
        Self::parse(&format!("{}.{kind}", self.stem())).ok()
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

impl fmt::Debug for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

fn is_valid(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ':' | '-' | '_' | '.' | '\\' | '@')
}

/// Any text as a part of a name: `/` becomes `-`, what may not be there `\xHH`.
pub fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'/' => escaped.push('-'),
            b'.' if index == 0 => escaped.push_str("\\x2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("\\x{byte:02x}")),
        }
    }
    escaped
}

/// What [`escape`] was given; `None` of what it can't have written.
pub fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..)?;
        match c {
            '-' => bytes.push(b'/'),
            '\\' => {
                let (escape::Unescaped::Byte(byte), taken) = escape::unescape(rest)? else {
                    return None;
                };
                rest.starts_with('x').then_some(())?;
                bytes.push(byte);
                rest = rest.get(taken..)?;
            }
            _ => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Some(escape::text(bytes))
}

/// A path as a part of a name: `/` alone is `-`, other slashes around are left out, several are
/// one. `None` of a path with `..` or `.` in it.
pub fn escape_path(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.iter().any(|part| matches!(*part, "." | "..")) {
        return None;
    }
    Some(if parts.is_empty() {
        "-".to_owned()
    } else {
        escape(&parts.join("/"))
    })
}

/// The absolute path that [`escape_path`] was given.
pub fn unescape_path(text: &str) -> Option<String> {
    if text == "-" {
        return Some("/".to_owned());
    }
    let path = format!("/{}", unescape(text)?);
    let clean = path
        .split('/')
        .skip(1)
        .all(|part| !matches!(part, "" | "." | ".."));
    clean.then_some(path)
}

/// The unit of a path: `/home` and mount is `home.mount`.
pub fn of_path(path: &str, kind: UnitType) -> Option<UnitName> {
    let full = format!("{}.{kind}", escape_path(path)?);
    UnitName::parse(&full).ok()
}

/// The slice around a slice: `a-b.slice` is in `a.slice`, that in `-.slice`. `None` of the root,
/// and of what is no slice.
pub fn slice_parent(slice: &UnitName) -> Option<UnitName> {
    if slice.kind() != UnitType::Slice || slice.stem() == "-" {
        return None;
    }
    let parent = slice
        .stem()
        .rsplit_once('-')
        .map_or("-", |(parent, _)| parent);
    UnitName::parse(&format!("{parent}.slice")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_have_three_parts() {
        // systemd.unit(5), "Description".
        for (name, prefix, instance, kind) in [
            ("ssh.service", "ssh", None, UnitType::Service),
            (
                "getty@tty1.service",
                "getty",
                Some("tty1"),
                UnitType::Service,
            ),
            ("getty@.service", "getty", Some(""), UnitType::Service),
            ("a@b@c.socket", "a", Some("b@c"), UnitType::Socket),
            (
                "dev-disk-by\\x2duuid-x.swap",
                "dev-disk-by\\x2duuid-x",
                None,
                UnitType::Swap,
            ),
            ("-.mount", "-", None, UnitType::Mount),
            ("a.b.timer", "a.b", None, UnitType::Timer),
        ] {
            let parsed = UnitName::parse(name).unwrap();
            assert_eq!(
                (parsed.prefix(), parsed.instance(), parsed.kind()),
                (prefix, instance, kind)
            );
            assert_eq!(parsed.to_string(), name);
        }
        let long = format!("{}.service", "a".repeat(250));
        for bad in [
            "",
            "ssh",
            ".service",
            "@a.service",
            "a b.service",
            "é.service",
            "x.y",
            &long,
        ] {
            assert!(UnitName::parse(bad).is_err(), "{bad}");
        }
        let instance = UnitName::parse("getty@tty1.service").unwrap();
        assert_eq!(instance.template().unwrap().as_str(), "getty@.service");
        assert!(instance.template().unwrap().is_template());
    }

    #[test]
    fn paths_are_escaped_as_the_manual_says() {
        // systemd.unit(5), "String escaping for inclusion in unit names".
        for (path, escaped) in [
            ("/dev/sda", "dev-sda"),
            ("/foo//bar/baz/", "foo-bar-baz"),
            ("/", "-"),
            ("/.hidden/a-b", "\\x2ehidden-a\\x2db"),
            ("/home/jörg x", "home-j\\xc3\\xb6rg\\x20x"),
        ] {
            assert_eq!(escape_path(path).as_deref(), Some(escaped));
        }
        assert_eq!(
            unescape_path("foo-bar-baz").as_deref(),
            Some("/foo/bar/baz")
        );
        assert_eq!(escape_path("/a/../b"), None);
        assert_eq!(unescape_path("a--b"), None);
        assert_eq!(
            of_path("/home", UnitType::Mount).unwrap().as_str(),
            "home.mount"
        );
    }

    #[test]
    fn slices_are_a_tree() {
        // systemd.slice(5).
        let parent = |name: &str| {
            let parent = slice_parent(&UnitName::parse(name).unwrap());
            parent.map(|it| it.to_string())
        };
        assert_eq!(
            parent("foo-bar-baz.slice").as_deref(),
            Some("foo-bar.slice")
        );
        assert_eq!(parent("foo.slice").as_deref(), Some("-.slice"));
        assert_eq!((parent("-.slice"), parent("a.service")), (None, None));
    }

    proptest! {
        #[test]
        fn what_is_escaped_comes_back(text in "\\PC{1,40}") {
            prop_assert_eq!(unescape(&escape(&text)), Some(text.clone()));
            let name = escape(&text) + ".service";
            prop_assert!(name.len() > LONGEST || UnitName::parse(&name).is_ok());
        }

        #[test]
        fn paths_come_back(parts in proptest::collection::vec("[a-z][a-z .-]{0,8}", 1..5)) {
            let path = format!("/{}", parts.join("/"));
            prop_assert_eq!(unescape_path(&escape_path(&path).unwrap()), Some(path));
        }

        #[test]
        fn no_text_does_harm(text: String) {
            let _ = (UnitName::parse(&text), unescape(&text), unescape_path(&text));
        }
    }
}
