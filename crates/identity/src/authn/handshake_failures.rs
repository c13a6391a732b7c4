// SPDX-License-Identifier: Apache-2.0
//! Records handshakes that the listener refused, before the client had a name. A flood of them
//! takes a few lines of the audit: they are folded by listener and reason, whatever address or user
//! they come from. Each line has the count and the words of the last one.

use std::fmt;

use crate::Identity;
use crate::audit::Entry;

/// The action of such a line.
pub const HANDSHAKE: &str = "listen.Handshake";

/// Why a handshake was refused: the reasons that are counted apart.
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
    /// Records a failed handshake. `listener` is one of few words; `source` and `words` are the
    /// address and the cause of the last of many. An audit that can't be written reports it in its
    /// health.
    pub fn rejected(
        &self,
        listener: &str,
        uid: Option<u32>,
        source: &str,
        refusal: Refusal,
        words: &str,
    ) {
        let entry = Entry {
            // Folded by actor and action: the actor has no name.
            actor: format!("{listener}: {refusal}"),
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
