// SPDX-License-Identifier: Apache-2.0
//! What programs write to `/dev/log`: `<PRI>Mmm dd hh:mm:ss tag[pid]: text` (RFC 3164, without a
//! host, as syslog(3) writes it), each part of which may be missing; and RFC 5424's
//! `<PRI>1 time host tag pid id data text`. Pure.

use super::entry::Entry;

/// The priority and the facility where none is said: `user.notice`, as RFC 3164 has it.
const DEFAULT: u16 = 13;

/// The entry of a message. Every message is one.
pub(super) fn parse(message: &[u8]) -> Entry {
    let end = message
        .iter()
        .rposition(|byte| !matches!(byte, b'\n' | 0 | b' '));
    let message = message
        .get(..end.map_or(0, |at| at + 1))
        .unwrap_or_default();
    let mut entry = Entry::default();
    let (priority, rest) = priority(message);
    entry.put("PRIORITY", (priority & 7).to_string());
    entry.put("SYSLOG_FACILITY", (priority >> 3).to_string());
    let rest = match rest.strip_prefix(b"1 ").and_then(newer) {
        Some(new) => {
            put_text(&mut entry, "SYSLOG_TIMESTAMP", new.time);
            put_text(&mut entry, "SYSLOG_IDENTIFIER", new.tag);
            put_text(&mut entry, "SYSLOG_PID", new.pid);
            new.text
        }
        None => {
            let (time, rest) = timestamp(rest);
            put_text(&mut entry, "SYSLOG_TIMESTAMP", time);
            let (tag, pid, rest) = tag(rest);
            put_text(&mut entry, "SYSLOG_IDENTIFIER", tag);
            put_text(&mut entry, "SYSLOG_PID", pid);
            rest
        }
    };
    entry.put("MESSAGE", rest);
    entry
}

pub(super) fn put_text(entry: &mut Entry, name: &str, value: &[u8]) {
    if !value.is_empty() && value != b"-" {
        entry.put(name, value);
    }
}

/// `<N>`, N up to 191; what isn't that is text.
fn priority(message: &[u8]) -> (u16, &[u8]) {
    let number = || {
        let rest = message.strip_prefix(b"<")?;
        let end = rest.iter().take(4).position(|byte| *byte == b'>')?;
        let digits = rest
            .get(..end)
            .filter(|it| it.iter().all(u8::is_ascii_digit))?;
        let number: u16 = std::str::from_utf8(digits).ok()?.parse().ok()?;
        (number <= 191).then_some((number, rest.get(end + 1..)?))
    };
    number().unwrap_or((DEFAULT, message))
}

/// `Mmm dd hh:mm:ss ` of RFC 3164, with the day padded by a blank.
fn timestamp(rest: &[u8]) -> (&[u8], &[u8]) {
    const FORM: &[u8; 16] = b"Aaa 00 00:00:00 ";
    let fits = |(form, byte): (&u8, &u8)| match form {
        b'A' => byte.is_ascii_uppercase(),
        b'a' => byte.is_ascii_lowercase(),
        b'0' => byte.is_ascii_digit() || *byte == b' ',
        form => form == byte,
    };
    match rest.split_at_checked(FORM.len()) {
        Some((time, more)) if FORM.iter().zip(time).all(fits) => (time.trim_ascii_end(), more),
        _ => (&[], rest),
    }
}

/// `tag[pid]: `, `tag: `; without a colon it is all text.
pub(super) fn tag(rest: &[u8]) -> (&[u8], &[u8], &[u8]) {
    const LONGEST: usize = 128;
    let is_end = |byte: &u8| byte.is_ascii_whitespace();
    let end = rest
        .iter()
        .take(LONGEST)
        .position(is_end)
        .unwrap_or(rest.len().min(LONGEST));
    let (word, text) = rest.split_at(end);
    let Some(word) = word.strip_suffix(b":").filter(|it| !it.is_empty()) else {
        return (&[], &[], rest);
    };
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let bracket = word.iter().position(|byte| *byte == b'[');
    let with_pid = bracket.and_then(|at| {
        let pid = word.get(at + 1..)?.strip_suffix(b"]")?;
        pid.iter()
            .all(u8::is_ascii_digit)
            .then_some((word.get(..at)?, pid))
    });
    match with_pid {
        Some((tag, pid)) => (tag, pid, text),
        None => (word, &[], text),
    }
}

/// The parts of RFC 5424.
struct Newer<'a> {
    time: &'a [u8],
    tag: &'a [u8],
    pid: &'a [u8],
    text: &'a [u8],
}

/// After `<PRI>1 `.
fn newer(rest: &[u8]) -> Option<Newer<'_>> {
    let mut parts = rest.splitn(6, |byte| *byte == b' ');
    let (time, _host, tag) = (parts.next()?, parts.next()?, parts.next()?);
    let (pid, _id, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let text = match rest.strip_prefix(b"-") {
        Some(text) => text,
        None => structured(rest)?,
    };
    let text = text.strip_prefix(b" ").unwrap_or(text);
    Some(Newer {
        time,
        tag,
        pid,
        text: text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text),
    })
}

/// What is behind `[id a="b"][…]`; a quote, a bracket and a backslash in a value are escaped.
fn structured(rest: &[u8]) -> Option<&[u8]> {
    let mut rest = rest;
    while let Some(inner) = rest.strip_prefix(b"[") {
        let (mut quoted, mut escaped, mut end) = (false, false, None);
        for (at, byte) in inner.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b']' if !quoted => {
                    end = Some(at + 1);
                    break;
                }
                _ => {}
            }
        }
        rest = inner.get(end?..)?;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(message: &str) -> [String; 5] {
        let entry = parse(message.as_bytes());
        let names = [
            "PRIORITY",
            "SYSLOG_FACILITY",
            "SYSLOG_IDENTIFIER",
            "SYSLOG_PID",
            "MESSAGE",
        ];
        names.map(|name| {
            let value = entry.get(name).unwrap_or_default();
            String::from_utf8_lossy(value).into_owned()
        })
    }

    #[test]
    fn messages_are_taken_apart_as_they_are_written() {
        for (message, expected) in [
            (
                "<30>Nov 23 22:46:04 sshd[12]: hello\n",
                ["6", "3", "sshd", "12", "hello"],
            ),
            (
                "<13>Nov  3 02:46:04 root: a: b",
                ["5", "1", "root", "", "a: b"],
            ),
            ("<11>cron[7]: x", ["3", "1", "cron", "7", "x"]),
            ("<191>x", ["7", "23", "", "", "x"]),
            ("<192>x", ["5", "1", "", "", "<192>x"]),
            ("plain words: here", ["5", "1", "", "", "plain words: here"]),
            ("tag: text", ["5", "1", "tag", "", "text"]),
            ("<3", ["5", "1", "", "", "<3"]),
            ("", ["5", "1", "", "", ""]),
            (
                "<165>1 2003-10-11T22:14:15.003Z box evntslog 8 ID47 [a@1 b=\"c\\]\"][d] text",
                ["5", "20", "evntslog", "8", "text"],
            ),
            ("<14>1 - - me - - - words", ["6", "1", "me", "", "words"]),
        ] {
            assert_eq!(parts(message), expected, "{message}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_an_entry(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let entry = parse(&bytes);
            prop_assert!(entry.get("MESSAGE").is_some());
            prop_assert!(entry.fields.iter().all(|(name, _)| !name.starts_with('_')));
        }
    }
}
