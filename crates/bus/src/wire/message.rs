// SPDX-License-Identifier: Apache-2.0
//! One message: its header and its body. Pure.

use serde::Serializer;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize};
use zbus::wire::serialized::{Context, Data};
use zbus::wire::{BE, Endian, LE, to_bytes};
use zbus::{DynamicType, ObjectPath, Signature, Type, Variant};

/// The part that says how long the rest is.
pub(crate) const HEAD: usize = 16;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Call,
    Return,
    Failure,
    Signal,
}

impl Kind {
    const ALL: [(u8, Kind); 4] = [
        (1, Kind::Call),
        (2, Kind::Return),
        (3, Kind::Failure),
        (4, Kind::Signal),
    ];

    fn number(self) -> u8 {
        let mut all = Kind::ALL.iter();
        all.find(|(_, kind)| *kind == self).map_or(0, |(n, _)| *n)
    }
}

const NO_REPLY: u8 = 1;

const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR: u8 = 4;
const REPLY_TO: u8 = 5;
const DESTINATION: u8 = 6;
const SENDER: u8 = 7;
const SIGNATURE: u8 = 8;

/// A message that came.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    flags: u8,
    pub(crate) serial: u32,
    pub(crate) path: String,
    pub(crate) interface: String,
    pub(crate) member: String,
    pub(crate) error: String,
    pub(crate) reply_to: u32,
    pub(crate) sender: String,
    pub(crate) signature: String,
    pub(crate) body: Vec<u8>,
    /// It was longer than may be.
    pub(crate) is_too_long: bool,
    endian: Endian,
}

fn endian(head: &[u8; HEAD]) -> Option<Endian> {
    match head.first()? {
        b'l' => Some(LE),
        b'B' => Some(BE),
        _ => None,
    }
}

fn number(endian: Endian, bytes: &[u8]) -> Option<u32> {
    Some(endian.read_u32(bytes.get(..4)?))
}

/// How many bytes of fields and of the body follow.
pub(crate) fn lengths(head: &[u8; HEAD]) -> Option<(usize, usize)> {
    let endian = endian(head)?;
    if head.get(3) != Some(&1) {
        return None;
    }
    let fields = number(endian, head.get(12..)?)?;
    let body = number(endian, head.get(4..)?)?;
    // D-Bus Specification, "Message Format": 128 MiB.
    let all = u64::from(fields) + u64::from(body);
    (all <= 128 << 20).then_some((usize::try_from(fields).ok()?, usize::try_from(body).ok()?))
}

impl Message {
    /// The header; the body comes later.
    pub(crate) fn parse(head: &[u8; HEAD], fields: Vec<u8>) -> Option<Message> {
        let endian = endian(head)?;
        let mut kinds = Kind::ALL.iter();
        let kind = kinds.find(|(n, _)| Some(n) == head.get(1)).map(|it| it.1);
        let mut message = Message {
            // D-Bus Specification: one of another kind is passed over. As a signal it is.
            kind: kind.unwrap_or(Kind::Signal),
            flags: *head.get(2)?,
            serial: number(endian, head.get(8..)?)?,
            path: String::new(),
            interface: String::new(),
            member: String::new(),
            error: String::new(),
            reply_to: 0,
            sender: String::new(),
            signature: String::new(),
            body: Vec::new(),
            is_too_long: false,
            endian,
        };
        let mut array = head.get(12..)?.to_vec();
        array.extend(fields);
        let data = Data::new(array, Context::new(endian, 12));
        let (fields, _): (Vec<(u8, Variant<'_>)>, usize) = data.deserialize().ok()?;
        for (code, value) in fields {
            message.put(code, &value);
        }
        Some(message)
    }

    fn put(&mut self, code: u8, value: &Variant<'_>) {
        let text = match value {
            Variant::Str(text) => text.to_string(),
            Variant::ObjectPath(path) => path.to_string(),
            Variant::Signature(signature) => signature.to_string_no_parens(),
            Variant::U32(number) if code == REPLY_TO => {
                self.reply_to = *number;
                return;
            }
            _ => return,
        };
        match code {
            PATH => self.path = text,
            INTERFACE => self.interface = text,
            MEMBER => self.member = text,
            ERROR => self.error = text,
            SENDER => self.sender = text,
            SIGNATURE => self.signature = text,
            _ => {}
        }
    }

    pub(crate) fn wants_reply(&self) -> bool {
        self.kind == Kind::Call && self.flags & NO_REPLY == 0
    }

    /// The arguments; `None`: they are of other types.
    pub(crate) fn arguments<T>(&self) -> Option<T>
    where
        T: for<'de> Deserialize<'de> + Type,
    {
        if T::SIGNATURE.to_string_no_parens() != self.signature {
            return None;
        }
        let data = Data::new(self.body.clone(), Context::new(self.endian, 0));
        data.deserialize().ok().map(|(value, _)| value)
    }
}

/// The arguments of a message that is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    signature: String,
    bytes: Vec<u8>,
}

impl Body {
    /// A tuple of the arguments.
    ///
    /// # Errors
    /// A text with a zero in it, or values that are nested too deep.
    pub(crate) fn of<T: Serialize + DynamicType>(arguments: &T) -> Result<Body, zbus::Error> {
        let bytes = to_bytes(Context::new(LE, 0), arguments)?;
        Ok(Body {
            signature: arguments.signature().to_string_no_parens(),
            bytes: bytes.to_vec(),
        })
    }
}

/// A message that is sent, without its number.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    kind: Kind,
    flags: u8,
    fields: Vec<(u8, Variant<'static>)>,
    body: Body,
}

fn text(text: &str) -> Variant<'static> {
    Variant::from(text.to_owned())
}

impl Draft {
    fn new(kind: Kind, body: Body) -> Draft {
        Draft {
            kind,
            flags: if kind == Kind::Call { 0 } else { NO_REPLY },
            fields: Vec::new(),
            body,
        }
    }

    fn with(mut self, code: u8, value: Variant<'static>) -> Draft {
        self.fields.push((code, value));
        self
    }

    fn at(self, path: &str, interface: &str, member: &str) -> Draft {
        let path = ObjectPath::from_string_unchecked(path.to_owned());
        self.with(PATH, Variant::from(path))
            .with(INTERFACE, text(interface))
            .with(MEMBER, text(member))
    }

    pub(crate) fn signal(path: &str, interface: &str, member: &str, body: Body) -> Draft {
        Draft::new(Kind::Signal, body).at(path, interface, member)
    }

    pub(crate) fn call(path: &str, interface: &str, member: &str, body: Body) -> Draft {
        Draft::new(Kind::Call, body).at(path, interface, member)
    }

    pub(crate) fn answer(call: &Message, body: Body) -> Draft {
        Draft::new(Kind::Return, body).reply(call)
    }

    pub(crate) fn failure(call: &Message, name: &str, words: &str) -> Draft {
        // Without a zero it is always a text.
        let plain = words.replace('\0', " ");
        let body = Body::of(&(plain,)).unwrap_or_default();
        Draft::new(Kind::Failure, body)
            .with(ERROR, text(name))
            .reply(call)
    }

    fn reply(self, call: &Message) -> Draft {
        let answer = self.with(REPLY_TO, Variant::from(call.serial));
        match call.sender.is_empty() {
            true => answer,
            false => answer.to(&call.sender),
        }
    }

    pub(crate) fn to(self, destination: &str) -> Draft {
        self.with(DESTINATION, text(destination))
    }

    /// As it is sent.
    ///
    /// # Errors
    /// As [`Body::of`].
    pub(crate) fn encode(&self, serial: u32) -> Result<Vec<u8>, zbus::Error> {
        let mut fields = self.fields.clone();
        if !self.body.signature.is_empty() {
            let signature = Signature::try_from(self.body.signature.as_str())?;
            fields.push((SIGNATURE, Variant::Signature(signature)));
        }
        let length = u32::try_from(self.body.bytes.len()).unwrap_or(u32::MAX);
        let head = (
            b'l',
            self.kind.number(),
            self.flags,
            1_u8,
            length,
            serial,
            fields
                .iter()
                .map(|(code, value)| (*code, Field(value)))
                .collect::<Vec<_>>(),
        );
        let mut bytes = to_bytes(Context::new(LE, 0), &head)?.to_vec();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend_from_slice(&self.body.bytes);
        Ok(bytes)
    }
}

/// The value of a field. A signature of several arguments has no parentheses around it there, which
/// zbus gives it: the bus refuses such a call.
struct Field<'a>(&'a Variant<'static>);

impl Type for Field<'_> {
    const SIGNATURE: &'static Signature = <Variant<'static> as Type>::SIGNATURE;
}

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Variant::Signature(signature) = self.0 else {
            return self.0.serialize(serializer);
        };
        let mut value = serializer.serialize_struct("Variant", 2)?;
        value.serialize_field("signature", &Signature::Signature)?;
        value.serialize_field("value", &signature.to_string_no_parens())?;
        value.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Message {
        let head: [u8; HEAD] = bytes[..HEAD].try_into().unwrap();
        let (fields, body) = lengths(&head).unwrap();
        let mut message = Message::parse(&head, bytes[HEAD..HEAD + fields].to_vec()).unwrap();
        message.body = bytes[HEAD + fields.next_multiple_of(8)..].to_vec();
        assert_eq!(message.body.len(), body);
        message
    }

    #[test]
    fn what_is_written_is_read() {
        let body = Body::of(&("ssh.service", 7_u32, vec![("a", true)])).unwrap();
        let draft = Draft::call("/a/b", "x.Y", "Do", body).to("org.x");
        let bytes = draft.encode(9).unwrap();
        // As systemd's own clients write it, without parentheses around all.
        let written = b"\x08\x01g\0\x07sua(sb)\0";
        assert!(bytes.windows(written.len()).any(|it| it == written));
        let message = read(&bytes);
        assert_eq!((message.kind, message.serial), (Kind::Call, 9));
        assert_eq!(
            (message.path.as_str(), message.member.as_str()),
            ("/a/b", "Do")
        );
        assert_eq!(message.signature, "sua(sb)");
        assert!(message.wants_reply());
        let arguments: (String, u32, Vec<(String, bool)>) = message.arguments().unwrap();
        assert_eq!(
            arguments,
            ("ssh.service".into(), 7, vec![("a".into(), true)])
        );
        // Other types are no arguments.
        assert!(message.arguments::<(String,)>().is_none());
        let answer = read(&Draft::answer(&message, Body::default()).encode(1).unwrap());
        assert_eq!((answer.kind, answer.reply_to), (Kind::Return, 9));
        assert!(answer.signature.is_empty());
        let failure = read(&Draft::failure(&message, "a.B", "no\0").encode(1).unwrap());
        assert_eq!(
            (failure.error.as_str(), failure.signature.as_str()),
            ("a.B", "s")
        );
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let good = Draft::signal("/", "a.B", "C", Body::default())
            .encode(1)
            .unwrap();
        let head: [u8; HEAD] = good[..HEAD].try_into().unwrap();
        for (at, byte) in [(0, b'x'), (3, 2), (15, 0xff), (7, 0xff)] {
            let mut wrong = head;
            wrong[at] = byte;
            assert!(lengths(&wrong).is_none(), "{at}");
        }
        assert!(Message::parse(&head, vec![0xff; 3]).is_none());
    }
}
