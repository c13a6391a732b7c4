// SPDX-License-Identifier: Apache-2.0
//! Specifiers, `%i` and the like (systemd.unit(5), "Specifiers"), of the system's units. What they
//! stand for on a machine is asked of a port; what the unit's name says is known here.

use crate::name::{self, UnitName};

/// What a machine says of itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Fact {
    /// `%a`, such as `x86-64`.
    Architecture,
    /// `%A`: `IMAGE_VERSION=` of os-release.
    ImageVersion,
    /// `%b`, 32 hexadecimal digits.
    BootId,
    /// `%B`: `BUILD_ID=`.
    BuildId,
    /// `%H`.
    HostName,
    /// `%m`, 32 hexadecimal digits.
    MachineId,
    /// `%M`: `IMAGE_ID=`.
    ImageId,
    /// `%o`: `ID=`.
    OsId,
    /// `%q`: `PRETTY_HOSTNAME=` of machine-info, or the short host name.
    PrettyHostName,
    /// `%v`: what `uname -r` says.
    KernelRelease,
    /// `%w`: `VERSION_ID=`.
    OsVersion,
    /// `%W`: `VARIANT_ID=`.
    OsVariant,
}

/// Knows what a machine says of itself.
pub trait Host {
    /// The fact, or `None` where it can't be found out: what uses it is ignored then. Those of
    /// os-release are empty where they aren't set.
    fn fact(&self, fact: Fact) -> Option<String>;
}

/// Knows nothing, for a text that is only checked: every fact is its own specifier's letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoHost;

impl Host for NoHost {
    fn fact(&self, _: Fact) -> Option<String> {
        Some("unknown".to_owned())
    }
}

/// Whose specifiers they are.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The unit.
    pub name: &'a UnitName,
    /// The path of its main file, `%y`.
    pub fragment: Option<&'a str>,
    /// The machine.
    pub host: &'a dyn Host,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("name", self.name)
            .finish_non_exhaustive()
    }
}

/// The longest result, in bytes. systemd bounds a path or a line likewise.
const LONGEST: usize = 1 << 20;

/// Puts in what the specifiers stand for. A percent sign before no letter or digit stays as it is.
///
/// # Errors
/// A specifier stands for nothing here, or is none.
pub fn expand(text: &str, context: Context<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
        } else {
            match chars.next() {
                None => out.push('%'),
                Some('%') => out.push('%'),
                Some(letter) if LETTERS.contains(letter) => {
                    let value = value(letter, context);
                    out.push_str(&value.ok_or_else(|| {
                        format!("`%{letter}` stands for nothing in {}", context.name)
                    })?);
                }
                Some(letter) if letter.is_ascii_alphanumeric() => {
                    return Err(format!(
                        "`%{letter}` is no specifier: write `%%` for a percent sign"
                    ));
                }
                Some(other) => out.extend(['%', other]),
            }
        }
        if out.len() > LONGEST {
            return Err(format!(
                "with its specifiers it is longer than {LONGEST} bytes"
            ));
        }
    }
    Ok(out)
}

/// All but `%%`.
const LETTERS: &str = "aAbBCdEfgGhHiIjJlLmMnNopPqsStTuUvVwWyY";

fn value(letter: char, context: Context<'_>) -> Option<String> {
    let unit = context.name;
    let host = |fact| context.host.fact(fact);
    Some(match letter {
        'a' => host(Fact::Architecture)?,
        'A' => host(Fact::ImageVersion)?,
        'b' => host(Fact::BootId)?,
        'B' => host(Fact::BuildId)?,
        'C' => "/var/cache".to_owned(),
        'd' => format!("/run/credentials/{unit}"),
        'E' => "/etc".to_owned(),
        'f' => {
            let of = unit
                .instance()
                .filter(|it| !it.is_empty())
                .unwrap_or(unit.prefix());
            if of == "-" {
                "/".to_owned()
            } else {
                format!("/{}", name::unescape(of)?)
            }
        }
        'g' | 'u' => "root".to_owned(),
        'G' | 'U' => "0".to_owned(),
        'h' => "/root".to_owned(),
        'H' => host(Fact::HostName)?,
        'i' => unit.instance().unwrap_or("").to_owned(),
        'I' => name::unescape(unit.instance().unwrap_or(""))?,
        'j' => last(unit.prefix()).to_owned(),
        'J' => name::unescape(last(unit.prefix()))?,
        'l' => short(&host(Fact::HostName)?),
        'L' => "/var/log".to_owned(),
        'm' => host(Fact::MachineId)?,
        'M' => host(Fact::ImageId)?,
        'n' => unit.to_string(),
        'N' => unit.stem().to_owned(),
        'o' => host(Fact::OsId)?,
        'p' => unit.prefix().to_owned(),
        'P' => name::unescape(unit.prefix())?,
        'q' => match host(Fact::PrettyHostName)? {
            name if name.is_empty() => short(&host(Fact::HostName)?),
            name => name,
        },
        's' => "/bin/sh".to_owned(),
        'S' => "/var/lib".to_owned(),
        't' => "/run".to_owned(),
        'T' => "/tmp".to_owned(),
        'v' => host(Fact::KernelRelease)?,
        'V' => "/var/tmp".to_owned(),
        'w' => host(Fact::OsVersion)?,
        'W' => host(Fact::OsVariant)?,
        'y' => context.fragment?.to_owned(),
        'Y' => context.fragment?.rsplit_once('/')?.0.to_owned(),
        _ => return None,
    })
}

fn last(prefix: &str) -> &str {
    prefix.rsplit_once('-').map_or(prefix, |(_, last)| last)
}

fn short(host: &str) -> String {
    host.split('.').next().unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named;

    impl Host for Named {
        fn fact(&self, fact: Fact) -> Option<String> {
            Some(match fact {
                Fact::HostName => "web.example.org".to_owned(),
                Fact::PrettyHostName => String::new(),
                Fact::MachineId => return None,
                other => format!("<{other:?}>"),
            })
        }
    }

    fn expanded(text: &str, unit: &str) -> Result<String, String> {
        let name = UnitName::parse(unit).unwrap();
        let fragment = Some("/lib/systemd/system/a@.service");
        expand(
            text,
            Context {
                name: &name,
                fragment,
                host: &Named,
            },
        )
    }

    #[test]
    fn every_specifier_of_the_manual_is_known() {
        // systemd.unit(5), table 4.
        let unit = "foo-b\\x2dr@dev-a\\x20b.service";
        for (text, expected) in [
            (
                "%a %A %b %B",
                "<Architecture> <ImageVersion> <BootId> <BuildId>",
            ),
            (
                "%C %E %L %S %t %T %V",
                "/var/cache /etc /var/log /var/lib /run /tmp /var/tmp",
            ),
            ("%f", "/dev/a b"),
            ("%g %G %h %s %u %U", "root 0 /root /bin/sh root 0"),
            ("%H %l %q", "web.example.org web web"),
            ("%i|%I", "dev-a\\x20b|dev/a b"),
            ("%j %J", "b\\x2dr b-r"),
            ("%n", unit),
            ("%N", "foo-b\\x2dr@dev-a\\x20b"),
            ("%p %P", "foo-b\\x2dr foo/b-r"),
            (
                "%M %o %v %w %W",
                "<ImageId> <OsId> <KernelRelease> <OsVersion> <OsVariant>",
            ),
            (
                "%y %Y",
                "/lib/systemd/system/a@.service /lib/systemd/system",
            ),
            ("100%% %- %", "100% %- %"),
        ] {
            assert_eq!(expanded(text, unit).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(
            expanded("%d", unit).unwrap(),
            format!("/run/credentials/{unit}")
        );
    }

    #[test]
    fn plain_units_have_no_instance() {
        assert_eq!(
            expanded("[%i] %f %j %P", "a-b.mount").unwrap(),
            "[] /a/b b a/b"
        );
    }

    #[test]
    fn what_stands_for_nothing_is_told() {
        assert!(expanded("%m", "a.service").unwrap_err().contains("`%m`"));
        assert!(
            expanded("%Q", "a.service")
                .unwrap_err()
                .contains("no specifier")
        );
    }
}
