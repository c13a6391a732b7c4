// SPDX-License-Identifier: Apache-2.0
//! One line of the audit, and the chain: every line ends with the SHA-256 over the hash before it
//! and its own text, so that no line can be changed, moved, added or taken out without breaking all
//! that follow.

use std::fmt::Write;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// A SHA-256.
pub type Hash = [u8; 32];

/// What a line says.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Counts from 1, without gaps.
    pub sequence: u64,
    /// RFC 3339, UTC.
    pub time: String,
    /// The caller's SPIFFE ID; empty for what the node itself notes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// The caller's uid on the node, where it came over the Unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// `subsystem.Method`, or `audit.…` for notes of the audit itself.
    pub action: String,
    /// Whose objects it was about; `*` for every tenant's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// Which object, where one was named.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What the request does beside its action: `ACTION PATH`, with `/**` where it reaches below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The user or the certificate that it was about, where it was about one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The decision.
    pub allowed: bool,
    /// The policies that decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// How many equal reads or denials this line stands for; at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u64,
    /// The caller's request id, where there was one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request_id: String,
    /// Words: which effect was not allowed, or what the audit itself notes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

fn one() -> u64 {
    1
}

fn is_one(count: &u64) -> bool {
    *count == 1
}

const BEFORE_HASH: &str = ",\"hash\":\"";
const AFTER_HASH: &str = "\"}";
/// The longest line that is read back; a longer one is a broken one.
pub(super) const MAX_LINE: usize = 64 * 1024;

/// The hash of a line's text (the JSON without its hash) after the one before.
fn chain(previous: &Hash, text: &str) -> Hash {
    let mut context = Context::new(&SHA256);
    context.update(previous);
    context.update(text.as_bytes());
    let mut hash = [0; 32];
    for (to, from) in hash.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    hash
}

/// Hexadecimal, lower case.
pub fn hex(hash: &Hash) -> String {
    hash.iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            // Writing into a String can't fail.
            let _never = write!(text, "{byte:02x}");
            text
        })
}

pub(super) fn unhex(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (i, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(i * 2..i * 2 + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// How long the line will be at most, in bytes, whatever its number.
pub(super) fn longest(entry: &Entry) -> Option<usize> {
    let rest = "18446744073709551615".len() + BEFORE_HASH.len() + 64 + AFTER_HASH.len();
    Some(serde_json::to_string(entry).ok()?.len() + rest)
}

/// The line with its line feed, and its hash.
pub(super) fn seal(entry: &Entry, previous: &Hash) -> Option<(String, Hash)> {
    let mut line = serde_json::to_string(entry).ok()?;
    let hash = chain(previous, &line);
    line.pop();
    line.push_str(BEFORE_HASH);
    line.push_str(&hex(&hash));
    line.push_str(AFTER_HASH);
    line.push('\n');
    Some((line, hash))
}

/// A line as it was read: the entry, and the hash that it claims.
pub(super) fn parse(line: &str) -> Option<(Entry, Hash)> {
    let (text, hash) = split(line)?;
    Some((serde_json::from_str(&text).ok()?, hash))
}

/// Whether the line follows `previous`; then its entry and hash.
pub(super) fn verify(line: &str, previous: &Hash) -> Option<(Entry, Hash)> {
    let (text, hash) = split(line)?;
    let entry = serde_json::from_str(&text).ok()?;
    (chain(previous, &text) == hash).then_some((entry, hash))
}

fn split(line: &str) -> Option<(String, Hash)> {
    let (text, rest) = line.rsplit_once(BEFORE_HASH)?;
    let hash = rest.strip_suffix(AFTER_HASH)?;
    // Only the spelling that `seal` writes: no other may pass for the same line.
    if hash.bytes().any(|b| b.is_ascii_uppercase()) {
        return None;
    }
    Some((format!("{text}}}"), unhex(hash)?))
}
