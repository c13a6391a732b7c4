// SPDX-License-Identifier: Apache-2.0
//! Why a node can't be reached. `Display` is one sentence that names the object; [`Error::hint`]
//! says what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::address::Address;
use crate::refusal::Refusal;

/// Why a call to a node gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node's socket isn't there.
    #[error("no node listens at {address}: there is no such socket")]
    NoSocket {
        /// Where a node was expected.
        address: Address,
    },
    /// The socket is there, but no process accepts.
    #[error("no node listens at {address}: connection refused")]
    ConnectionRefused {
        /// Where a node was expected.
        address: Address,
    },
    /// The socket may not be opened.
    #[error("the node's socket {address} can't be opened: permission denied")]
    PermissionDenied {
        /// The socket whose mode forbids it.
        address: Address,
    },
    /// Any other failure of connect(2) or of name resolution.
    #[error("can't connect to {address}: {problem}")]
    Connect {
        /// The address that was connected to.
        address: Address,
        /// The system's error.
        problem: io::Error,
    },
    /// The node closed the handshake with a TLS alert, or without one.
    #[error("the node at {address} refused the handshake: {problem}")]
    Handshake {
        /// The node's address.
        address: Address,
        /// The alert in words.
        problem: String,
        /// The alert's name as of RFC 8446, e.g. `certificate_required`; `goaway` where the node
        /// sent HTTP/2's GOAWAY.
        alert: Option<&'static str>,
    },
    /// The node's certificate isn't the expected one.
    #[error("the node at {address} is not to be trusted: {problem}")]
    UntrustedNode {
        /// The node's address.
        address: Address,
        /// The defect of its certificate.
        problem: String,
    },
    /// No answer in time.
    #[error("no answer from {address} within {after:?}")]
    Deadline {
        /// The node's address.
        address: Address,
        /// How long was waited.
        after: Duration,
    },
    /// A file that can't be read or written.
    #[error("can't {action} {path}: {problem}")]
    File {
        /// The file's path.
        path: PathBuf,
        /// `read`, `write` or `make`.
        action: &'static str,
        /// The system's error.
        problem: io::Error,
    },
    /// A certificate or key that isn't one.
    #[error("{path}: {problem}")]
    Credentials {
        /// The file's path.
        path: PathBuf,
        /// The content that was expected in it.
        problem: String,
    },
    /// The configuration file is wrong.
    #[error("{path}: {problem}")]
    Config {
        /// The file's path.
        path: PathBuf,
        /// The defect, with line and key where known.
        problem: String,
    },
    /// The node answered, with a refusal.
    #[error("{0}")]
    Refused(Box<Refusal>),
}

impl Error {
    pub(crate) fn file(path: &Path, action: &'static str, problem: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            action,
            problem,
        }
    }

    pub(crate) fn credentials(path: &Path, problem: impl Into<String>) -> Self {
        Self::Credentials {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }

    /// The error for an errno of connect(2).
    pub(crate) fn connect(address: &Address, problem: io::Error) -> Self {
        let address = address.clone();
        match (problem.kind(), &address) {
            (io::ErrorKind::NotFound, Address::Unix(_)) => Self::NoSocket { address },
            (io::ErrorKind::ConnectionRefused, _) => Self::ConnectionRefused { address },
            (io::ErrorKind::PermissionDenied, _) => Self::PermissionDenied { address },
            _ => Self::Connect { address, problem },
        }
    }

    /// The hint: what the user can do. `None` when there is nothing better to say than the error
    /// itself.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoSocket { .. } | Self::ConnectionRefused { .. } => start_hint(&first_process()),
            Self::PermissionDenied { .. } => "become root, or ask for the socket's group",
            Self::Handshake { alert, .. } => return alert.map(handshake_hint).map(str::to_owned),
            Self::UntrustedNode { .. } => {
                "compare the context's `ca`, `id` and `trust-domain` with those of the node \
                 (`aurae config view`)"
            }
            Self::Deadline { .. } => "see whether the node is overloaded, or give --timeout",
            Self::File { problem, .. } if problem.kind() == io::ErrorKind::PermissionDenied => {
                "become root, or set a context of your own with `aurae config set-context`"
            }
            Self::File { path, .. } if path.starts_with("/var/lib/aurae/pki") => {
                "the node writes its administrator's credentials on its first start; elsewhere, \
                 set a context with `aurae config set-context`"
            }
            Self::Refused(refusal) => return refusal.hint(),
            _ => return None,
        };
        Some(text.to_owned())
    }

    /// The node's own refusal, where it answered at all.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Whether the same call may succeed later by itself: the node is away or restarting.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NoSocket { .. } | Self::ConnectionRefused { .. } => true,
            Self::Connect { .. } | Self::Deadline { .. } => true,
            Self::Handshake { alert, .. } => alert.is_none(),
            Self::Refused(refusal) => refusal.is_lost_connection(),
            _ => false,
        }
    }
}

fn handshake_hint(alert: &'static str) -> &'static str {
    match alert {
        "certificate_required" => "give the context a user with `certificate` and `key`",
        "unknown_ca" => "the certificate is of another trust domain: use one that this node issued",
        "certificate_expired" => {
            "get a new one with `aurae identity renew`, or `auraed credentials` as root"
        }
        crate::tls::GOAWAY_ALERT => {
            "try again when connections have ended; the node's log names refused clients"
        }
        "protocol_version" => "the node speaks TLS 1.3 only",
        _ => "see the node's log for the reason",
    }
}

/// The name of PID 1's program; empty where it can't be read.
fn first_process() -> String {
    std::fs::read_to_string("/proc/1/comm").unwrap_or_default()
}

/// How the daemon is started, by the name of PID 1's program. The folder that sd_booted(3) looks
/// for says nothing: where auraed is PID 1, it makes that folder itself.
fn start_hint(first: &str) -> &'static str {
    match first.trim_end() {
        "systemd" => {
            "start the daemon (systemctl start auraed), or name another node with --node; \
             `aurae config get-contexts` lists those that are configured"
        }
        "auraed" => {
            "PID 1 of this machine is auraed, and the daemon comes back by itself: try again in a \
             moment, or name another node with --node; `aurae config get-contexts` lists those \
             that are configured"
        }
        // Only root may read what that name leads to.
        "init" => {
            "start the daemon (auraed &; where PID 1 is auraed it comes back by itself), or name \
             another node with --node; `aurae config get-contexts` lists those that are configured"
        }
        _ => {
            "start the daemon (auraed &), or name another node with --node; `aurae config \
             get-contexts` lists those that are configured"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemctl_is_hinted_at_where_systemd_is_pid_1() {
        assert!(start_hint("systemd\n").contains("systemctl start auraed"));
        for first in ["sh\n", "openrc-init\n", "init\n", ""] {
            let hint = start_hint(first);
            assert!(!hint.contains("systemctl"), "{first:?}: {hint}");
            assert!(hint.contains("auraed &"), "{first:?}: {hint}");
        }
    }

    #[test]
    fn where_auraed_is_pid_1_its_daemon_is_waited_for_and_not_started() {
        let hint = start_hint("auraed\n");
        assert!(hint.contains("comes back by itself: try again"), "{hint}");
        for other in ["auraed &", "systemctl", "start the daemon"] {
            assert!(!hint.contains(other), "{hint}");
        }
        assert!(start_hint("init\n").contains("comes back by itself"));
    }
}
