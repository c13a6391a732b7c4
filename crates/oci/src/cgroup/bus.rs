// SPDX-License-Identifier: Apache-2.0
//! As much of D-Bus as it takes to ask systemd for a scope: the types of its arguments, calls with
//! an answer, and one signal. It speaks to systemd's own socket, where there is no bus and no name
//! to be got first. Sizes of what comes are bounded; an answer has 30 seconds.
//!
//! Written after the D-Bus Specification (message format, SASL) and org.freedesktop.systemd1(5).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::error::{Doing, Error, Result, refuse};

/// How long systemd may take for an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// The longest message that is read, in bytes. systemd's answers here have some hundred.
const LONGEST: usize = 1 << 20;
/// Signals that are read and passed over while one is awaited.
const MOST_SIGNALS: usize = 100_000;

const CALL: u8 = 1;
const RETURN: u8 = 2;
const FAILURE: u8 = 3;
const SIGNAL: u8 = 4;

/// An argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    /// `s`
    Text(String),
    /// `b`
    Bool(bool),
    /// `t`
    Long(u64),
    /// `au`
    Words(Vec<u32>),
    /// `ay`
    Bytes(Vec<u8>),
    /// `a(sv)`
    Properties(Vec<(String, Value)>),
    /// `a(sa(sv))`, with nothing in it
    NoUnits,
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }

    fn signature(&self) -> &'static str {
        match self {
            Value::Text(_) => "s",
            Value::Bool(_) => "b",
            Value::Long(_) => "t",
            Value::Words(_) => "au",
            Value::Bytes(_) => "ay",
            Value::Properties(_) => "a(sv)",
            Value::NoUnits => "a(sa(sv))",
        }
    }
}

/// What is sent, little-endian, each value at a multiple of its size.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn pad(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn word(&mut self, word: u32) {
        self.pad(4);
        self.0.extend(word.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.word(length(text.len()));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, signature: &str) {
        self.0
            .push(u8::try_from(signature.len()).unwrap_or(u8::MAX));
        self.0.extend(signature.as_bytes());
        self.0.push(0);
    }

    /// An array whose elements begin at multiples of `to`.
    fn array(&mut self, to: usize, fill: impl FnOnce(&mut Self)) {
        self.word(0);
        let at = self.0.len();
        self.pad(to);
        let from = self.0.len();
        fill(self);
        let bytes = length(self.0.len() - from).to_le_bytes();
        if let Some(place) = at.checked_sub(4).and_then(|at| self.0.get_mut(at..at + 4)) {
            place.copy_from_slice(&bytes);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Text(text) => self.text(text),
            Value::Bool(is) => self.word((*is).into()),
            Value::Long(number) => {
                self.pad(8);
                self.0.extend(number.to_le_bytes());
            }
            Value::Words(words) => self.array(4, |w| words.iter().for_each(|it| w.word(*it))),
            Value::Bytes(bytes) => self.array(1, |w| w.0.extend(bytes)),
            Value::NoUnits => self.array(8, |_| {}),
            Value::Properties(all) => self.array(8, |w| {
                for (name, value) in all {
                    w.pad(8);
                    w.text(name);
                    w.signature(value.signature());
                    w.value(value);
                }
            }),
        }
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// What has come. An offset beyond its end is an error of systemd's.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| Error::new("what systemd said can't be read"))?;
        self.at += count;
        Ok(taken)
    }

    fn pad(&mut self, to: usize) -> Result<()> {
        let missing = self.at.next_multiple_of(to) - self.at;
        self.take(missing).map(|_| ())
    }

    fn word(&mut self) -> Result<u32> {
        self.pad(4)?;
        let bytes = self.take(4)?.try_into();
        bytes.map(u32::from_le_bytes).map_err(|_| wrong())
    }

    fn byte(&mut self) -> Result<u8> {
        self.take(1)?.first().copied().ok_or_else(wrong)
    }

    /// A string or an object's path.
    fn text(&mut self) -> Result<String> {
        let count = self.word()?;
        let text = self.take(usize::try_from(count).unwrap_or(usize::MAX))?;
        let text = String::from_utf8_lossy(text).into_owned();
        self.take(1)?;
        Ok(text)
    }

    fn signature(&mut self) -> Result<String> {
        let count = self.byte()?;
        let text = self.take(count.into())?;
        let text = String::from_utf8_lossy(text).into_owned();
        self.take(1)?;
        Ok(text)
    }
}

fn wrong() -> Error {
    Error::new("what systemd said can't be read")
}

/// A message of systemd's.
#[derive(Debug, Default)]
pub(crate) struct Message {
    kind: u8,
    answers: Option<u32>,
    member: String,
    error: String,
    signature: String,
    body: Vec<u8>,
}

impl Message {
    /// Its first argument, a text.
    pub(crate) fn text(&self) -> Result<String> {
        match self.signature.as_bytes().first() {
            Some(b's' | b'o') => Reader::new(&self.body).text(),
            _ => Err(wrong()),
        }
    }

    /// Its first argument, a text in a variant.
    pub(crate) fn variant_text(&self) -> Result<String> {
        let mut reader = Reader::new(&self.body);
        match (self.signature.as_str(), reader.signature()?.as_str()) {
            ("v", "s") => reader.text(),
            _ => Err(wrong()),
        }
    }

    /// Of `JobRemoved`: the job's path, and its result.
    fn removed(&self) -> Result<(String, String)> {
        let mut reader = Reader::new(&self.body);
        reader.word()?;
        let (job, _unit, result) = (reader.text()?, reader.text()?, reader.text()?);
        Ok((job, result))
    }

    fn header(&mut self, mut fields: Reader<'_>) -> Result<()> {
        while fields.at < fields.bytes.len() {
            fields.pad(8)?;
            let (code, signature) = (fields.byte()?, fields.signature()?);
            match (code, signature.as_str()) {
                (5, "u") => self.answers = Some(fields.word()?),
                (3, "s") => self.member = fields.text()?,
                (4, "s") => self.error = fields.text()?,
                (8, "g") => self.signature = fields.signature()?,
                (_, "s" | "o") => drop(fields.text()?),
                (_, "u") => drop(fields.word()?),
                (_, "g") => drop(fields.signature()?),
                _ => return Err(wrong()),
            }
        }
        Ok(())
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Bus {
    stream: UnixStream,
    serial: u32,
    /// Jobs that ended before the runtime asked.
    removed: Vec<(String, String)>,
}

impl Bus {
    pub(crate) fn connect(path: &Path) -> Result<Bus> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let uid = kernel::process::effective_uid().to_string();
        let hex: String = uid.bytes().map(|byte| format!("{byte:02x}")).collect();
        // In one piece, as systemd's own clients do it: what comes to systemd together with BEGIN,
        // but not with what is before it, stays in its buffer until something more comes.
        stream.write_all(format!("\0AUTH EXTERNAL {hex}\r\nBEGIN\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            if line.len() > 512 || stream.read(&mut byte)? == 0 {
                return refuse("it ended the talk");
            }
            line.extend(byte);
        }
        if !line.starts_with(b"OK ") {
            let line = String::from_utf8_lossy(&line);
            return refuse(format!("it takes no one of this user: {:?}", line.trim()));
        }
        Ok(Bus {
            stream,
            serial: 0,
            removed: Vec::new(),
        })
    }

    /// Calls a method of an object (path, interface), and waits for its answer.
    pub(crate) fn call(
        &mut self,
        (path, interface): (&str, &str),
        method: &str,
        arguments: &[Value],
    ) -> Result<Message> {
        self.serial += 1;
        let message = message(self.serial, path, interface, method, arguments);
        self.stream.write_all(&message).doing(method)?;
        for _ in 0..MOST_SIGNALS {
            let message = self.read().doing(method)?;
            match message.kind {
                RETURN if message.answers == Some(self.serial) => return Ok(message),
                FAILURE if message.answers == Some(self.serial) => {
                    let said = message.text().unwrap_or_default();
                    return refuse(format!("{method}: {} ({})", said, message.error));
                }
                _ => self.note(&message)?,
            }
        }
        refuse(format!("{method}: systemd doesn't answer"))
    }

    /// Waits until a job has ended; how.
    pub(crate) fn job_result(&mut self, job: &str) -> Result<String> {
        for _ in 0..MOST_SIGNALS {
            if let Some((_, result)) = self.removed.iter().find(|(one, _)| one == job) {
                return Ok(result.clone());
            }
            let message = self.read().doing("wait for systemd's job")?;
            self.note(&message)?;
        }
        refuse("systemd's job doesn't end")
    }

    fn note(&mut self, message: &Message) -> Result<()> {
        if message.kind == SIGNAL && message.member == "JobRemoved" {
            self.removed.push(message.removed()?);
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Message> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        let mut reader = Reader::new(&head);
        let (order, kind) = (reader.byte()?, reader.byte()?);
        if order != b'l' {
            return refuse("it speaks with the highest byte first");
        }
        reader.take(2)?;
        let (body, _serial, fields) = (reader.word()?, reader.word()?, reader.word()?);
        let size = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let (body, fields) = (size(body), size(fields));
        if body > LONGEST || fields > LONGEST {
            return refuse("a message of it is too long");
        }
        let mut rest = vec![0; fields.next_multiple_of(8) + body];
        self.stream.read_exact(&mut rest)?;
        let body = rest.split_off(fields.next_multiple_of(8));
        let mut message = Message {
            kind,
            body,
            ..Message::default()
        };
        message.header(Reader::new(rest.get(..fields).unwrap_or_default()))?;
        Ok(message)
    }
}

/// A call's message.
fn message(serial: u32, path: &str, interface: &str, method: &str, arguments: &[Value]) -> Vec<u8> {
    let mut body = Writer::default();
    arguments.iter().for_each(|argument| body.value(argument));
    let signature: String = arguments.iter().map(Value::signature).collect();
    let mut out = Writer::default();
    out.0.extend([b'l', CALL, 0, 1]);
    out.word(length(body.0.len()));
    out.word(serial);
    let fields = [
        (1, "o", path),
        (2, "s", interface),
        (3, "s", method),
        (6, "s", "org.freedesktop.systemd1"),
    ];
    out.array(8, |out| {
        for (code, kind, text) in fields {
            out.pad(8);
            out.0.push(code);
            out.signature(kind);
            out.text(text);
        }
        if !signature.is_empty() {
            out.pad(8);
            out.0.push(8);
            out.signature("g");
            out.signature(&signature);
        }
    });
    out.pad(8);
    out.0.extend(body.0);
    out.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_aligned_and_counted() {
        let mut writer = Writer::default();
        writer.value(&Value::Properties(vec![(
            "A".to_owned(),
            Value::Long(u64::MAX),
        )]));
        let expected = [
            // The array's length, padding to 8, the struct: name, signature, padding, number.
            &[16, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'A', 0, 1, b't', 0][..],
            &[0; 7],
            &[255; 8],
        ]
        .concat();
        // The length counts from the first element on.
        assert_eq!(writer.0.len(), expected.len());
        assert_eq!(writer.0[0], 24);
        assert_eq!(writer.0[1..], expected[1..]);
    }

    #[test]
    fn a_call_is_read_back() {
        let arguments = [Value::text("unit.scope"), Value::Words(vec![7])];
        let bytes = message(3, "/a", "b.c", "Go", &arguments);
        let fields = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let mut read = Message {
            kind: bytes[1],
            body: bytes[16 + fields.next_multiple_of(8)..].to_vec(),
            ..Message::default()
        };
        read.header(Reader::new(&bytes[16..16 + fields])).unwrap();
        assert_eq!(
            (read.member.as_str(), read.signature.as_str()),
            ("Go", "sau")
        );
        assert_eq!(read.text().unwrap(), "unit.scope");
        // Cut anywhere it is an error, and no panic.
        for end in 0..fields {
            let _ = Message::default().header(Reader::new(&bytes[16..16 + end]));
        }
        read.body.truncate(6);
        assert!(read.text().is_err());
    }
}
