// SPDX-License-Identifier: Apache-2.0
//! Records of `/dev/kmsg`: `priority,sequence,microseconds,flags[,…];text`, then lines ` KEY=value`
//! (Documentation/ABI/testing/dev-kmsg). Pure.

use super::entry::Entry;
use super::syslog;

/// Of a record: the kernel's own, as far as it is known to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) sequence: u64,
    pub(super) entry: Entry,
}

/// A record; `None`: it isn't one.
pub(super) fn parse(bytes: &[u8]) -> Option<Record> {
    let semicolon = bytes.iter().position(|byte| *byte == b';')?;
    let (head, rest) = bytes.split_at(semicolon);
    let head = std::str::from_utf8(head).ok()?;
    let mut numbers = head.split(',');
    let priority: u16 = numbers.next()?.parse().ok()?;
    let sequence: u64 = numbers.next()?.parse().ok()?;
    let micros: u64 = numbers.next()?.parse().ok()?;
    let mut lines = rest.get(1..)?.split(|byte| *byte == b'\n');
    let text = unescape(lines.next()?);
    let mut entry = Entry::default();
    entry.put("PRIORITY", (priority & 7).to_string());
    entry.put("SYSLOG_FACILITY", (priority >> 3).to_string());
    entry.put("_SOURCE_MONOTONIC_TIMESTAMP", micros.to_string());
    // Programs may write there, too: those have another facility than `kern`, and their name at
    // the front, as in a message to `/dev/log`.
    let mut text = text.as_slice();
    if priority >> 3 == 0 {
        entry.put("_TRANSPORT", "kernel");
        entry.put("SYSLOG_IDENTIFIER", "kernel");
    } else {
        entry.put("_TRANSPORT", "syslog");
        let (name, pid, rest) = syslog::tag(text);
        syslog::put_text(&mut entry, "SYSLOG_IDENTIFIER", name);
        syslog::put_text(&mut entry, "SYSLOG_PID", pid);
        text = rest;
    }
    for line in lines {
        let pair = line.strip_prefix(b" ").unwrap_or(line);
        let Some(at) = pair.iter().position(|byte| *byte == b'=') else {
            continue;
        };
        let (name, value) = pair.split_at(at);
        let name = match name {
            b"SUBSYSTEM" => "_KERNEL_SUBSYSTEM",
            b"DEVICE" => "_KERNEL_DEVICE",
            _ => continue,
        };
        entry.put(name, unescape(value.get(1..).unwrap_or_default()));
    }
    entry.put("MESSAGE", text);
    Some(Record { sequence, entry })
}

/// `\x0a` is a byte.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, more)) = rest.split_first() {
        let escaped = match rest {
            [b'\\', b'x', high, low, ..] => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok().filter(|it| it.is_ascii());
                digits.and_then(|it| u8::from_str_radix(it, 16).ok())
            }
            _ => None,
        };
        match escaped {
            Some(byte) => {
                out.push(byte);
                rest = rest.get(4..).unwrap_or_default();
            }
            None => {
                out.push(*byte);
                rest = more;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_kernel_are_entries() {
        let text = b"4,817,12345678,-;usb 1-1: odd\\x0adevice\n SUBSYSTEM=usb\n DEVICE=c189:1\n";
        let record = parse(text).unwrap();
        let get = |name| record.entry.get(name).unwrap_or(b"(none)");
        assert_eq!(record.sequence, 817);
        assert_eq!(get("PRIORITY"), b"4");
        assert_eq!(get("_TRANSPORT"), b"kernel");
        assert_eq!(get("MESSAGE"), b"usb 1-1: odd\ndevice");
        assert_eq!(get("_KERNEL_SUBSYSTEM"), b"usb");
        assert_eq!(get("_KERNEL_DEVICE"), b"c189:1");
        let program = parse(b"30,1,2,-;x[7]: y\n").unwrap();
        let get = |name| program.entry.get(name).unwrap_or(b"(none)");
        assert_eq!(get("_TRANSPORT"), b"syslog");
        assert_eq!(
            (get("SYSLOG_IDENTIFIER"), get("SYSLOG_PID")),
            (&b"x"[..], &b"7"[..])
        );
        assert_eq!(get("MESSAGE"), b"y");
        for wrong in [&b""[..], b"x", b"1,2;x", b"a,2,3,-;x"] {
            assert_eq!(parse(wrong), None);
        }
    }
}
