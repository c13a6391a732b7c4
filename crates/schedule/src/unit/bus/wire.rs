// SPDX-License-Identifier: Apache-2.0
//! As much of D-Bus's messages as it takes to ask a bus who has a name, and to be told: calls and
//! signals whose arguments are texts. Pure. Written after the D-Bus Specification ("Message
//! Protocol"); what comes in is bounded and read as it claims, or refused.

/// The longest message that is read, in bytes: the bus's own about names have some hundred.
pub(super) const LONGEST: usize = 1 << 20;
/// The part of each message that says how long it is.
pub(super) const HEAD: usize = 16;

const CALL: u8 = 1;
const RETURN: u8 = 2;
const FAILURE: u8 = 3;
const SIGNAL: u8 = 4;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The answer to the call of that number.
    Answer(u32),
    /// So is this: it failed.
    Failure(u32),
    /// No call has asked for it.
    Signal,
    /// A peer calls.
    Other,
}

/// A message of the bus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) member: String,
    /// Who sends it: the bus itself, or a peer.
    pub(super) sender: String,
    /// The name of a failure.
    pub(super) error: String,
    /// The arguments, where all of them are texts.
    pub(super) arguments: Vec<String>,
}

fn pad(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

fn put_word(out: &mut Vec<u8>, word: usize) {
    pad(out, 4);
    out.extend(u32::try_from(word).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_word(out, text.len());
    out.extend(text.as_bytes());
    out.push(0);
}

fn put_signature(out: &mut Vec<u8>, signature: &str) {
    out.push(u8::try_from(signature.len()).unwrap_or(u8::MAX));
    out.extend(signature.as_bytes());
    out.push(0);
}

/// A call of one of the bus's own methods.
pub(super) fn call(number: u32, method: &str, arguments: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    arguments.iter().for_each(|text| put_text(&mut body, text));
    let fields = [
        (1, "o", "/org/freedesktop/DBus"),
        (2, "s", "org.freedesktop.DBus"),
        (3, "s", method),
        (6, "s", "org.freedesktop.DBus"),
    ];
    let mut list = Vec::new();
    for (code, kind, text) in fields {
        pad(&mut list, 8);
        list.push(code);
        put_signature(&mut list, kind);
        put_text(&mut list, text);
    }
    if !arguments.is_empty() {
        pad(&mut list, 8);
        list.push(8);
        put_signature(&mut list, "g");
        put_signature(&mut list, &"s".repeat(arguments.len()));
    }
    let mut out = vec![b'l', CALL, 0, 1];
    put_word(&mut out, body.len());
    out.extend(number.to_le_bytes());
    put_word(&mut out, list.len());
    out.extend(list);
    pad(&mut out, 8);
    out.extend(body);
    out
}

/// How long the rest of a message is, by its head. `None`: it is too long, or of another order.
pub(super) fn rest_of(head: &[u8; HEAD]) -> Option<usize> {
    let mut reader = Reader { bytes: head, at: 4 };
    let body = reader.word()?;
    reader.word()?;
    let fields = reader.word()?;
    let whole = fields.checked_next_multiple_of(8)?.checked_add(body)?;
    (head.first() == Some(&b'l') && whole <= LONGEST).then_some(whole)
}

/// Reads a message by its head and what follows.
pub(super) fn parse(head: &[u8; HEAD], rest: &[u8]) -> Option<Message> {
    let mut reader = Reader { bytes: head, at: 4 };
    let (body, _, fields) = (reader.word()?, reader.word()?, reader.word()?);
    let (list, _) = rest.split_at_checked(fields)?;
    let body = rest.get(rest.len().checked_sub(body)?..)?;
    let mut message = Message {
        kind: Kind::Other,
        member: String::new(),
        sender: String::new(),
        error: String::new(),
        arguments: Vec::new(),
    };
    let (mut answers, mut signature) = (None, String::new());
    let mut reader = Reader { bytes: list, at: 0 };
    while reader.at < list.len() {
        reader.pad(8)?;
        let (code, kind) = (reader.byte()?, reader.signature()?);
        match (code, kind.as_str()) {
            (5, "u") => answers = u32::try_from(reader.word()?).ok(),
            (3, "s") => message.member = reader.text()?,
            (4, "s") => message.error = reader.text()?,
            (7, "s") => message.sender = reader.text()?,
            (8, "g") => signature = reader.signature()?,
            (_, "s" | "o") => drop(reader.text()?),
            (_, "u") => drop(reader.word()?),
            (_, "g") => drop(reader.signature()?),
            _ => return None,
        }
    }
    message.kind = match (head.get(1)?, answers) {
        (&RETURN, Some(number)) => Kind::Answer(number),
        (&FAILURE, Some(number)) => Kind::Failure(number),
        (&SIGNAL, _) => Kind::Signal,
        _ => Kind::Other,
    };
    let mut reader = Reader { bytes: body, at: 0 };
    if !signature.is_empty() && signature.bytes().all(|it| it == b's') {
        for _ in signature.bytes() {
            message.arguments.push(reader.text()?);
        }
    }
    Some(message)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn pad(&mut self, to: usize) -> Option<()> {
        let missing = self.at.checked_next_multiple_of(to)? - self.at;
        self.take(missing).map(drop)
    }

    fn word(&mut self) -> Option<usize> {
        self.pad(4)?;
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn text(&mut self) -> Option<String> {
        let count = self.word()?;
        let text = String::from_utf8(self.take(count)?.to_vec()).ok()?;
        (self.byte()? == 0).then_some(text)
    }

    fn signature(&mut self) -> Option<String> {
        let count = self.byte()?;
        let text = String::from_utf8(self.take(count.into())?.to_vec()).ok()?;
        (self.byte()? == 0).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A signal of the bus, as it comes.
    fn signal(arguments: &[&str]) -> Vec<u8> {
        let mut bytes = call(7, "NameOwnerChanged", arguments);
        bytes[1] = SIGNAL;
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Message> {
        let head: [u8; HEAD] = bytes.get(..HEAD)?.try_into().ok()?;
        let rest = bytes.get(HEAD..)?;
        (rest_of(&head)? == rest.len()).then(|| parse(&head, rest))?
    }

    #[test]
    fn a_call_is_as_the_specification_has_it() {
        let bytes = call(3, "Hello", &[]);
        let head = [b'l', 1, 0, 1, 0, 0, 0, 0, 3, 0, 0, 0];
        assert_eq!(bytes[..12], head);
        assert_eq!(bytes.len() % 8, 0);
        // The path, first of the fields: code, signature, length, text.
        assert_eq!(bytes[16..20], [1, 1, b'o', 0]);
        assert_eq!(bytes[20..24], [21, 0, 0, 0]);
    }

    #[test]
    fn a_signal_is_read_with_its_texts() {
        let message = read(&signal(&["org.x", "", ":1.5"])).unwrap();
        assert_eq!(message.kind, Kind::Signal);
        assert_eq!(message.member, "NameOwnerChanged");
        assert_eq!(message.arguments, ["org.x", "", ":1.5"]);
    }

    #[test]
    fn what_is_cut_or_wrong_is_no_message_and_no_panic() {
        let bytes = signal(&["org.x", "", ":1.5"]);
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), None);
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 127, 255] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                let _ = read(&bytes);
            }
        }
        let mut long = bytes.clone();
        long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        let head: [u8; HEAD] = long[..HEAD].try_into().unwrap();
        assert_eq!(rest_of(&head), None);
    }
}
