// SPDX-License-Identifier: Apache-2.0
//! Probes and hooks, as asked for. What their answers come to is [`super::verdict`]'s.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, Within};
use crate::executable::MAX_STOP_GRACE;
use crate::text::{check_count, check_length, check_printable};

/// The longest delay, period and timeout.
pub const MAX_TIME: Duration = Duration::from_secs(3600);
/// The highest threshold.
pub const MAX_THRESHOLD: u32 = 1000;

/// A question that is asked again and again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// The question.
    pub ask: Ask,
    /// From the start to the first time. `None`: 0.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub initial_delay: Option<Duration>,
    /// `None`: 10 s.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub period: Option<Duration>,
    /// `None`: 1 s.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub timeout: Option<Duration>,
    /// In a row. `None`: 1.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub success_threshold: Option<u32>,
    /// In a row. `None`: 3.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub failure_threshold: Option<u32>,
    /// Of startup and liveness: how long the container has to end where it fails. `None`: the
    /// pod's.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub grace: Option<Duration>,
}

impl Probe {
    /// The time between two questions.
    pub fn period(&self) -> Duration {
        self.period.unwrap_or(Duration::from_secs(10))
    }

    /// How long an answer may take.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(1))
    }

    /// Checks a probe; `once`: one success is enough, as for startup and liveness.
    pub(crate) fn check(&self, once: bool) -> Result<()> {
        self.ask.check()?;
        let second = Duration::from_secs(1);
        let times = [
            ("initial_delay", self.initial_delay, Duration::ZERO),
            ("period", self.period, second),
            ("timeout", self.timeout, second),
        ];
        for (field, time, least) in times {
            if time.is_some_and(|time| time < least || time > MAX_TIME) {
                let problem = format!("must be from {} s to 1 h", least.as_secs());
                return Err(Error::invalid(field, problem));
            }
        }
        let thresholds = [
            ("success_threshold", self.success_threshold),
            ("failure_threshold", self.failure_threshold),
        ];
        for (field, threshold) in thresholds {
            if threshold.is_some_and(|n| !(1..=MAX_THRESHOLD).contains(&n)) {
                let problem = format!("must be from 1 to {MAX_THRESHOLD}");
                return Err(Error::invalid(field, problem));
            }
        }
        match self.grace {
            Some(_) if !once => {
                let problem = "is for startup and liveness: a container that isn't ready goes on";
                return Err(Error::invalid("grace", problem));
            }
            Some(grace) if grace < second || grace > MAX_STOP_GRACE => {
                return Err(Error::invalid("grace", "must be from 1 s to 1 h"));
            }
            _ => {}
        }
        if once && self.success_threshold.is_some_and(|n| n != 1) {
            let problem = "must be 1 for startup and liveness";
            return Err(Error::invalid("success_threshold", problem));
        }
        Ok(())
    }
}

/// What a probe asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Does the program exit with 0?
    Exec(Vec<String>),
    /// Does a GET answer with a status from 200 to 399?
    Http(Http),
    /// Does the port take a connection?
    Tcp(Tcp),
    /// Does the health service answer SERVING?
    Grpc(Grpc),
}

impl Ask {
    fn check(&self) -> Result<()> {
        match self {
            Ask::Exec(argv) => check_argv(argv).within("exec"),
            Ask::Http(http) => http.check().within("http"),
            Ask::Tcp(tcp) => check_port(tcp.port).within("tcp"),
            Ask::Grpc(grpc) => {
                check_port(grpc.port).within("grpc")?;
                check_text("grpc.service", &grpc.service)
            }
        }
    }
}

/// A connection.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "KeptTcp")]
pub struct Tcp {
    /// From 1.
    pub port: u16,
    /// `None`: the pod.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub host: Option<IpAddr>,
}

/// As it is in records: earlier daemons knew the port alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum KeptTcp {
    Port(u16),
    Whole {
        port: u16,
        #[serde(default)]
        host: Option<IpAddr>,
    },
}

impl From<KeptTcp> for Tcp {
    fn from(kept: KeptTcp) -> Tcp {
        match kept {
            KeptTcp::Port(port) => Tcp { port, host: None },
            KeptTcp::Whole { port, host } => Tcp { port, host },
        }
    }
}

/// A GET.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Http {
    /// From 1.
    pub port: u16,
    /// Empty: `/`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub path: String,
    /// Names and values.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub headers: Vec<(String, String)>,
    /// By TLS, whatever certificate the server has.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub tls: bool,
    /// `None`: the pod.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub host: Option<IpAddr>,
}

impl Http {
    /// The path, with the default.
    pub fn effective_path(&self) -> &str {
        match self.path.as_str() {
            "" => "/",
            path => path,
        }
    }

    fn check(&self) -> Result<()> {
        check_port(self.port)?;
        check_text("path", &self.path)?;
        if !self.effective_path().starts_with('/') {
            return Err(Error::invalid("path", "must begin with '/'"));
        }
        if self.path.contains(' ') {
            return Err(Error::invalid(
                "path",
                "must not contain a space: write %20",
            ));
        }
        check_count("headers", self.headers.len(), 32)?;
        for (i, (name, value)) in self.headers.iter().enumerate() {
            let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            if name.is_empty() || !name.bytes().all(token) {
                let field = format!("headers[{i}].name");
                return Err(Error::invalid(field, "is no name of a header"));
            }
            check_text(&format!("headers[{i}].value"), value)?;
        }
        Ok(())
    }
}

/// The health protocol of gRPC.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Grpc {
    /// From 1.
    pub port: u16,
    /// Empty: the server as a whole.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub service: String,
}

/// Something that is done once, when a container has started or is about to be stopped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// A program in the container.
    Exec(Vec<String>),
    /// A GET within the pod.
    Http(Http),
    /// Nothing, for so long.
    Sleep(Duration),
}

impl Hook {
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Hook::Exec(argv) => check_argv(argv).within("exec"),
            Hook::Http(http) => http.check().within("http"),
            Hook::Sleep(time) if *time > MAX_TIME => {
                Err(Error::invalid("sleep.duration", "must be at most 1 h"))
            }
            Hook::Sleep(_) => Ok(()),
        }
    }
}

fn check_argv(argv: &[String]) -> Result<()> {
    if argv.first().is_none_or(String::is_empty) {
        return Err(Error::invalid("argv", "must begin with a program"));
    }
    match argv.iter().position(|word| word.contains('\0')) {
        Some(i) => Err(Error::invalid(format!("argv[{i}]"), "contains a NUL byte")),
        None => Ok(()),
    }
}

fn check_port(port: u16) -> Result<()> {
    match port {
        0 => Err(Error::invalid("port", "must be from 1 to 65535")),
        _ => Ok(()),
    }
}

fn check_text(field: &str, text: &str) -> Result<()> {
    check_length(field, text, 1024)?;
    check_printable(field, text)?;
    match text.is_ascii() {
        true => Ok(()),
        false => Err(Error::invalid(field, "must be ASCII")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_earlier_daemons_are_read() {
        let tcp = |port, host| Ask::Tcp(Tcp { port, host });
        let read = |text: &str| serde_json::from_str::<Ask>(text).unwrap();
        assert_eq!(read(r#"{"tcp":80}"#), tcp(80, None));
        let host = Some(IpAddr::from([192, 0, 2, 1]));
        for ask in [tcp(80, None), tcp(443, host)] {
            assert_eq!(read(&serde_json::to_string(&ask).unwrap()), ask);
        }
        serde_json::from_str::<Ask>(r#"{"tcp":{"host":"::1"}}"#).unwrap_err();
    }
}
