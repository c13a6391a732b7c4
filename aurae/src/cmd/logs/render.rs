// SPDX-License-Identifier: Apache-2.0
//! Log lines on our standard streams: with names and times for people, as objects for programs, or
//! as bytes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use api::observe::v0::{LogData, LogGap, LogsResponse, log_gap, logs_response};
use api::runtime::v0::{ObjectRef, Stream};
use prost_types::Timestamp;
use serde_json::json;

use super::LogFormat;
use super::lines::Lines;
use crate::failure::Failure;
use crate::output::{Color, Style};
use crate::quantity::{format_instant, show_bytes};
use crate::session::Session;

const COLORS: [Color; 6] = [
    Color::Cyan,
    Color::Yellow,
    Color::Green,
    Color::Magenta,
    Color::Blue,
    Color::Red,
];

/// Prints the messages of logs as they come.
pub(crate) struct Renderer {
    format: LogFormat,
    timestamps: bool,
    prefix: bool,
    style: Style,
    err_style: Style,
    /// By uid and stream, in the order in which they first came.
    sources: BTreeMap<(String, i32), Source>,
    colors: BTreeMap<String, Color>,
    /// The first failure to write; nothing is written after it.
    broken: Option<io::Error>,
}

struct Source {
    reference: ObjectRef,
    stream: Stream,
    lines: Lines,
    /// Of the piece that began the unfinished line.
    time: Option<Timestamp>,
}

impl Renderer {
    pub(crate) fn new(
        session: &Session,
        format: LogFormat,
        timestamps: bool,
        prefix: bool,
    ) -> Self {
        Self {
            format,
            timestamps,
            prefix,
            style: session.style,
            err_style: session.err_style,
            sources: BTreeMap::new(),
            colors: BTreeMap::new(),
            broken: None,
        }
    }

    /// Shows one answer of the node; `false`: it couldn't be written, and [`Self::finish`] will say
    /// why.
    pub(crate) fn show(&mut self, answer: LogsResponse) -> bool {
        let reference = answer.r#ref.unwrap_or_default();
        let written = match answer.message {
            Some(logs_response::Message::Data(data)) => self.data(&reference, data),
            Some(logs_response::Message::Gap(gap)) => self.gap(&reference, &gap),
            Some(logs_response::Message::End(_)) => self.end_of(&reference.uid),
            None => Ok(()),
        };
        if let Err(problem) = written {
            self.broken.get_or_insert(problem);
        }
        self.broken.is_none()
    }

    /// Shows the lines that have no end, and says whether everything could be written.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        if let Some(problem) = self.broken.take() {
            return Err(problem.into());
        }
        let uids: Vec<String> = self.sources.keys().map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            self.end_of(&uid)?;
        }
        Ok(())
    }

    fn data(&mut self, reference: &ObjectRef, data: LogData) -> io::Result<()> {
        if self.format == LogFormat::Raw {
            return write(data.stream(), &data.data);
        }
        let stream = data.stream();
        let key = (reference.uid.clone(), i32::from(stream));
        let source = self.sources.entry(key).or_insert_with(|| Source {
            reference: reference.clone(),
            stream,
            lines: Lines::default(),
            time: None,
        });
        // A line's time is that of its first byte.
        let mut time = source.time.take().or(data.time);
        let lines = source.lines.push(&data.data);
        let mut text = Vec::new();
        for line in &lines {
            self.line(&mut text, reference, stream, time.as_ref(), line);
            time = data.time;
        }
        if let Some(source) = self
            .sources
            .get_mut(&(reference.uid.clone(), i32::from(stream)))
        {
            source.time = time;
        }
        write(self.place(stream), &text)
    }

    /// Where lines of that stream go: objects all go to standard output.
    fn place(&self, stream: Stream) -> Stream {
        match self.format {
            LogFormat::Json => Stream::Stdout,
            LogFormat::Text | LogFormat::Raw => stream,
        }
    }

    fn end_of(&mut self, uid: &str) -> io::Result<()> {
        let keys: Vec<_> = self
            .sources
            .keys()
            .filter(|(of, _)| of == uid)
            .cloned()
            .collect();
        for key in keys {
            let Some(mut source) = self.sources.remove(&key) else {
                continue;
            };
            if let Some(rest) = source.lines.finish() {
                let mut text = Vec::new();
                self.line(
                    &mut text,
                    &source.reference,
                    source.stream,
                    source.time.as_ref(),
                    &rest,
                );
                write(self.place(source.stream), &text)?;
            }
        }
        Ok(())
    }

    fn line(
        &mut self,
        out: &mut Vec<u8>,
        reference: &ObjectRef,
        stream: Stream,
        time: Option<&Timestamp>,
        line: &[u8],
    ) {
        if self.format == LogFormat::Json {
            out.extend(json_line(reference, stream, time, line).into_bytes());
        } else {
            let style = if stream == Stream::Stderr {
                self.err_style
            } else {
                self.style
            };
            out.extend(self.head(style, reference, time).into_bytes());
            out.extend_from_slice(line);
        }
        out.push(b'\n');
    }

    /// The prefix of a line: the name and the time, where wanted.
    fn head(&mut self, style: Style, reference: &ObjectRef, time: Option<&Timestamp>) -> String {
        let mut head = String::new();
        if self.prefix {
            let next = COLORS
                .get(self.colors.len() % COLORS.len())
                .copied()
                .unwrap_or(Color::Cyan);
            let color = *self.colors.entry(reference.path.clone()).or_insert(next);
            head.push_str(&style.paint(color, &format!("{} | ", reference.path)));
        }
        if self.timestamps {
            head.push_str(&style.paint(Color::Dim, &format_instant(time)));
            head.push(' ');
        }
        head
    }

    fn gap(&mut self, reference: &ObjectRef, gap: &LogGap) -> io::Result<()> {
        let reason = match gap.reason() {
            log_gap::Reason::Unspecified => "for an unknown reason",
            log_gap::Reason::Retention => "not kept any longer",
            log_gap::Reason::DiskFull => "the disk was full",
            log_gap::Reason::PowerLoss => "lost with the power",
            log_gap::Reason::IoError => "the disk refused them",
        };
        if self.format == LogFormat::Json {
            let line = json!({
                "name": reference.path, "uid": reference.uid,
                "gap": {"bytes": gap.bytes, "reason": gap.reason().as_str_name()},
            });
            return write(Stream::Stdout, format!("{line}\n").as_bytes());
        }
        let head = self.head(self.err_style, reference, None);
        let text = format!("[{} are missing here: {reason}]", show_bytes(gap.bytes));
        let text = format!("{head}{}\n", self.err_style.paint(Color::Yellow, &text));
        write(Stream::Stderr, text.as_bytes())
    }
}

fn json_line(
    reference: &ObjectRef,
    stream: Stream,
    time: Option<&Timestamp>,
    line: &[u8],
) -> String {
    let stream = match stream {
        Stream::Stderr => "stderr",
        Stream::Stdout | Stream::Unspecified => "stdout",
    };
    let time = format_instant(time);
    let (name, uid) = (&reference.path, &reference.uid);
    match std::str::from_utf8(line) {
        Ok(line) => json!({"name": name, "uid": uid, "stream": stream, "time": time, "line": line}),
        Err(_) => {
            let line = base64(line);
            json!({"name": name, "uid": uid, "stream": stream, "time": time, "base64": line})
        }
    }
    .to_string()
}

/// Base64 of RFC 4648, padded.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (index, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = DIGITS
                .get((bits >> shift & 63) as usize)
                .copied()
                .unwrap_or(b'A');
            text.push(if index <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

fn write(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    if stream == Stream::Stderr {
        return io::stderr().write_all(bytes);
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_of_rfc_4648() {
        for (text, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
    }

    #[test]
    fn a_line_for_programs_is_text_or_base64() {
        let reference = ObjectRef {
            path: "web/nginx".into(),
            ..Default::default()
        };
        let text = json_line(&reference, Stream::Stderr, None, b"hi");
        assert_eq!(
            text,
            r#"{"name":"web/nginx","uid":"","stream":"stderr","time":"-","line":"hi"}"#
        );
        assert!(
            json_line(&reference, Stream::Stdout, None, b"\xff").contains(r#""base64":"/w==""#)
        );
    }
}
