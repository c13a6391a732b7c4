// SPDX-License-Identifier: Apache-2.0
//! How descriptors reach the main process of a service: `LISTEN_FDS` from 3 on, or as standard
//! streams (systemd.exec(5), `StandardInput=socket`), with what is told of a connection.

use std::os::fd::OwnedFd;

use model::error::Error;
use model::executable::{Draft, ExecutableSpec};
use model::launch::Stream;
use runtime::{Descriptor, Extras};
use units::unit::Settings;

/// The name by which the streams name it.
const STREAM: &str = "socket";

/// What a start gets beside its spec.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Of sockets, in the order of systemd: by unit, then as they are written.
    pub(crate) sockets: Vec<Descriptor>,
    /// Of the store, behind those.
    pub(crate) stored: Vec<Descriptor>,
    /// Variables of a connection.
    pub(crate) variables: Vec<(String, String)>,
}

/// Which of the streams lead to the socket.
fn streams(settings: &Settings) -> [bool; 3] {
    let word = |field: &str| settings.text(field).or(settings.word(field)).unwrap_or("");
    let input = word("StandardInput") == "socket";
    // systemd.exec(5): output is as input where that is a socket, and errors are as output.
    let output = match word("StandardOutput") {
        "socket" => true,
        "" | "inherit" => input,
        _ => false,
    };
    let errors = match word("StandardError") {
        "socket" => true,
        "" | "inherit" => output,
        _ => false,
    };
    [input, output, errors]
}

impl Passed {
    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.is_empty() && self.stored.is_empty() && self.variables.is_empty()
    }

    /// Puts it into a start, beside what that gets already.
    ///
    /// # Errors
    /// Words: the streams are to be a socket, and there isn't exactly one.
    pub(crate) fn into_start(
        self,
        (spec, mut extras): (ExecutableSpec, Extras),
        settings: &Settings,
    ) -> Result<(ExecutableSpec, Extras), String> {
        let wanted = streams(settings);
        extras.nonblocking = settings.flag("NonBlocking") == Some(true);
        if self.is_empty() && !wanted.contains(&true) {
            return Ok((spec, extras));
        }
        let mut draft: Draft = spec.into();
        draft.env.extend(self.variables);
        let mut sockets = self.sockets;
        if wanted.contains(&true) {
            let fd: OwnedFd = match (sockets.pop(), sockets.is_empty()) {
                (Some(one), true) => one.fd,
                (None, _) => return Err("no socket came for its standard streams".to_owned()),
                (Some(_), false) => {
                    let count = sockets.len() + 1;
                    return Err(format!(
                        "{count} sockets came for its standard streams: one can"
                    ));
                }
            };
            let to = |is_socket: bool, stream: &mut Stream| {
                if is_socket {
                    *stream = Stream::Descriptor(STREAM.to_owned());
                }
            };
            let [input, output, errors] = wanted;
            to(input, &mut draft.streams.stdin);
            to(output, &mut draft.streams.stdout);
            to(errors, &mut draft.streams.stderr);
            extras.streams.push(Descriptor {
                name: STREAM.to_owned(),
                fd,
            });
        }
        extras.descriptors = sockets;
        extras.descriptors.extend(self.stored);
        let spec = draft.try_into().map_err(|it: Error| it.to_string())?;
        Ok((spec, extras))
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

    fn start() -> (ExecutableSpec, Extras) {
        let draft = Draft {
            argv: vec!["/bin/x".to_owned()],
            ..Draft::default()
        };
        (draft.try_into().unwrap(), Extras::default())
    }

    fn socket(name: &str) -> Descriptor {
        Descriptor {
            name: name.to_owned(),
            fd: std::fs::File::open("/dev/null").unwrap().into(),
        }
    }

    #[test]
    fn streams_are_the_socket_as_the_manual_has_it() {
        for (text, expected) in [
            ("", [false; 3]),
            ("StandardInput=socket", [true; 3]),
            (
                "StandardInput=socket\nStandardError=journal",
                [true, true, false],
            ),
            (
                "StandardInput=socket\nStandardOutput=journal",
                [true, false, false],
            ),
            ("StandardOutput=socket", [false, true, true]),
        ] {
            assert_eq!(streams(&settings(text)), expected, "{text}");
        }
    }

    #[test]
    fn descriptors_come_in_order_and_a_stream_takes_exactly_one() {
        let passed = || Passed {
            sockets: vec![socket("a")],
            stored: vec![socket("s")],
            variables: vec![("REMOTE_ADDR".to_owned(), "::1".to_owned())],
        };
        let (spec_of, extras) = passed().into_start(start(), &settings("")).unwrap();
        let names: Vec<&str> = extras.descriptors.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a", "s"]);
        let draft: Draft = spec_of.into();
        assert_eq!(draft.env["REMOTE_ADDR"], "::1");
        let inetd = settings("StandardInput=socket");
        let (_, extras) = passed().into_start(start(), &inetd).unwrap();
        assert_eq!((extras.descriptors.len(), extras.streams.len()), (1, 1));
        let none = Passed::default().into_start(start(), &inetd).unwrap_err();
        assert!(none.contains("no socket"), "{none}");
        let mut two = passed();
        two.sockets.push(socket("b"));
        let two = two.into_start(start(), &inetd).unwrap_err();
        assert!(two.contains("2 sockets"), "{two}");
    }
}
