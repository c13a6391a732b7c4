// SPDX-License-Identifier: Apache-2.0
//! The flags of a health check, called as docker's are.

use std::time::Duration;

use api::pod::v0::probe::Ask;
use api::pod::v0::{ExecAction, GrpcAction, HttpAction, Probe, TcpAction};

use crate::quantity::parse_duration;
use crate::spec::wire_duration;

/// What a run is asked while it goes on.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "health")]
pub(super) struct HealthFlags {
    /// Ask each run by a command of its shell; it is well while that exits with 0
    #[arg(long, value_name = "COMMAND", group = "asked")]
    health_cmd: Option<String>,
    /// Ask by a GET; well is a status from 200 to 399
    #[arg(long, value_name = "PORT[/PATH]", group = "asked")]
    health_http: Option<String>,
    /// Ask by a connection to a port
    #[arg(long, value_name = "PORT", group = "asked")]
    health_tcp: Option<u16>,
    /// Ask the standard health service of gRPC
    #[arg(long, value_name = "PORT[/SERVICE]", group = "asked")]
    health_grpc: Option<String>,
    /// Between two questions. Default 10s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "asked")]
    health_interval: Option<Duration>,
    /// How long an answer may take. Default 1s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "asked")]
    health_timeout: Option<Duration>,
    /// Bad answers in a row after which a run is stopped, and has failed. Default 3
    #[arg(long, value_name = "NUMBER", requires = "asked")]
    health_retries: Option<u32>,
    /// From a run's start to the first question
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "asked")]
    health_start_period: Option<Duration>,
}

impl HealthFlags {
    /// The probe of these flags, where one says what is asked.
    ///
    /// # Errors
    /// What is no port.
    pub(super) fn build(&self) -> Result<Option<Probe>, String> {
        let Some(ask) = self.ask()? else {
            return Ok(None);
        };
        Ok(Some(Probe {
            ask: Some(ask),
            initial_delay: self.health_start_period.map(wire_duration),
            period: self.health_interval.map(wire_duration),
            timeout: self.health_timeout.map(wire_duration),
            failure_threshold: self.health_retries,
            ..Probe::default()
        }))
    }

    fn ask(&self) -> Result<Option<Ask>, String> {
        if let Some(command) = &self.health_cmd {
            let argv = ["/bin/sh", "-c", command].map(str::to_owned).into();
            return Ok(Some(Ask::Exec(ExecAction { argv })));
        }
        if let Some(text) = &self.health_http {
            let (port, path) = port_and("--health-http", text)?;
            return Ok(Some(Ask::Http(HttpAction {
                port,
                path: format!("/{path}"),
                ..HttpAction::default()
            })));
        }
        if let Some(text) = &self.health_grpc {
            let (port, service) = port_and("--health-grpc", text)?;
            let service = service.to_owned();
            return Ok(Some(Ask::Grpc(GrpcAction { port, service })));
        }
        let tcp = self.health_tcp.map(|port| TcpAction {
            port: port.into(),
            ..TcpAction::default()
        });
        Ok(tcp.map(Ask::Tcp))
    }
}

/// A port, and what is behind the first slash.
fn port_and<'a>(flag: &str, text: &'a str) -> Result<(u32, &'a str), String> {
    let (port, rest) = text.split_once('/').unwrap_or((text, ""));
    let port: u16 = port
        .parse()
        .map_err(|_| format!("{flag} {text}: {port:?} is no port"))?;
    Ok((port.into(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_have_a_path_behind_it() {
        assert_eq!(port_and("--x", "80"), Ok((80, "")));
        assert_eq!(port_and("--x", "80/a/b?c"), Ok((80, "a/b?c")));
        assert!(port_and("--x", "http").unwrap_err().contains("--x http"));
        assert!(port_and("--x", "70000").is_err());
    }
}
