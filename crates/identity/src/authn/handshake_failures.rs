// SPDX-License-Identifier: Apache-2.0
//! Who was refused before anybody knew who it was, on record: handshakes that the listener did not
//! let through. A flood of them is a handful of lines: they are folded by door and reason, whatever
//! address or user they come from, and the last of each is told with the count.

use std::fmt;

use crate::Identity;
use crate::audit::Entry;

/// The action of such a line.
pub const HANDSHAKE: &str = "listen.Handshake";

/// Why a handshake was refused, as coarsely as it is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The client showed none.
    NoCertificate,
    /// It showed one that isn't of our authority, or isn't a user's.
    Certificate,
    /// It speaks no TLS 1.3, or nothing that we know.
    Protocol,
    /// It did not finish in time.
    TooLate,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NoCertificate => "no certificate",
            Refusal::Certificate => "certificate refused",
            Refusal::Protocol => "not our protocol",
            Refusal::TooLate => "too late",
        })
    }
}

impl Identity {
    /// Records a failed handshake. `door` is one of few words; `source` and `words` say
    /// who and why, of the last of many. An audit that can't be written says so in its health.
    pub fn turned_away(
        &self,
        door: &str,
        uid: Option<u32>,
        source: &str,
        refusal: Refusal,
        words: &str,
    ) {
        let entry = Entry {
            // Folded by actor and action: the actor has no name.
            actor: format!("{door}: {refusal}"),
            uid,
            action: HANDSHAKE.to_owned(),
            note: format!("{words} (from {source})"),
            ..Entry::default()
        };
        if let Err(error) = self.audit.record(entry) {
            tracing::warn!(%error, "a refused handshake is not on record");
        }
    }
}
