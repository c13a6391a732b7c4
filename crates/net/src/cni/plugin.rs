// SPDX-License-Identifier: Apache-2.0
//! One run of one plugin: its environment, its configuration on standard input, its result on
//! standard output. How a program is run and bounded is crate `programs`'.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use programs::{Apart, Program, Said};
use serde_json::{Map, Value, json};

use super::cache::Entry;
use super::config::{Network, type_of};
use super::error::{Error, Result};
use super::{Namespace, Settings};

/// What is kept of standard error for a message, in bytes.
const KEPT: usize = 512;

/// A call of a plugin, whole.
pub(super) struct Call {
    plugin: String,
    command: &'static str,
    environment: Vec<(&'static str, OsString)>,
    input: Value,
}

impl Call {
    /// A call about one interface.
    pub(super) fn new(
        command: &'static str,
        entry: &Entry,
        plugin: &Map<String, Value>,
        netns: &Namespace,
        previous: Option<&Value>,
    ) -> Self {
        let mut input = told(&entry.network, plugin, &entry.offers);
        if let Some(previous) = previous {
            input.insert("prevResult".to_owned(), previous.clone());
        }
        let pairs = entry
            .arguments
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let arguments = pairs.collect::<Vec<_>>().join(";");
        let environment = vec![
            ("CNI_CONTAINERID", OsString::from(&entry.container)),
            ("CNI_NETNS", netns.path()),
            ("CNI_IFNAME", OsString::from(&entry.interface)),
            ("CNI_ARGS", OsString::from(arguments)),
        ];
        Self {
            plugin: type_of(plugin).to_owned(),
            command,
            environment,
            input: Value::Object(input),
        }
    }

    /// `GC`: what of the network is of none of these is to be removed.
    pub(super) fn collect(network: &Network, plugin: &Map<String, Value>, valid: &[Value]) -> Self {
        let mut call = Self::status(network, plugin);
        call.command = "GC";
        if let Value::Object(input) = &mut call.input {
            let valid = Value::Array(valid.to_vec());
            input.insert("cni.dev/valid-attachments".to_owned(), valid);
        }
        call
    }

    /// `STATUS`: whether interfaces could be added.
    pub(super) fn status(network: &Network, plugin: &Map<String, Value>) -> Self {
        Self {
            plugin: type_of(plugin).to_owned(),
            command: "STATUS",
            environment: Vec::new(),
            input: Value::Object(told(network, plugin, &Map::new())),
        }
    }

    fn version(plugin: &str, version: &str) -> Self {
        Self {
            plugin: plugin.to_owned(),
            command: "VERSION",
            environment: Vec::new(),
            input: json!({ "cniVersion": version }),
        }
    }
}

/// The configuration of one plugin: its own object, the network's name and version, and what it
/// asks for by its capabilities.
fn told(
    network: &Network,
    plugin: &Map<String, Value>,
    offers: &Map<String, Value>,
) -> Map<String, Value> {
    let mut input = plugin.clone();
    let asked = input.remove("capabilities");
    let asks = |name: &String| {
        let asked = asked.as_ref().and_then(|asked| asked.get(name));
        asked.and_then(Value::as_bool).unwrap_or(false)
    };
    let given: Map<String, Value> = offers
        .iter()
        .filter(|(name, _)| asks(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !given.is_empty() {
        input.insert("runtimeConfig".to_owned(), Value::Object(given));
    }
    input.remove("cniVersions");
    input.insert("name".to_owned(), Value::from(network.name.clone()));
    input.insert(
        "cniVersion".to_owned(),
        Value::from(network.version.clone()),
    );
    input
}

/// Finds plugins and runs them.
#[derive(Debug)]
pub(super) struct Runner {
    folders: Vec<PathBuf>,
    timeout: Duration,
    apart: Option<Apart>,
}

impl Runner {
    pub(super) fn of(settings: Settings) -> Self {
        Self {
            folders: settings.plugins,
            timeout: settings.timeout,
            apart: settings.apart,
        }
    }

    /// The network with the newest version that its file and all its plugins have.
    pub(super) async fn settle_version(&self, mut network: Network) -> Result<Network> {
        let mut spoken: Vec<&str> = super::config::VERSIONS.to_vec();
        spoken.retain(|version| network.versions.iter().any(|has| has == version));
        for plugin in &network.plugins {
            let call = Call::version(type_of(plugin), &network.version);
            let result = self.run(&call).await?;
            let supported = result.get("supportedVersions").and_then(Value::as_array);
            let supported = supported.map(Vec::as_slice).unwrap_or_default();
            spoken.retain(|version| supported.iter().any(|has| has.as_str() == Some(version)));
        }
        let Some(version) = spoken.first() else {
            let wanted = network.versions.join(", ");
            let reason = format!("not all of its plugins speak version {wanted}");
            return Err(Error::configuration(&network.name, reason));
        };
        network.version = (*version).to_owned();
        Ok(network)
    }

    fn find(&self, plugin: &str) -> Result<PathBuf> {
        let candidates = self.folders.iter().map(|folder| folder.join(plugin));
        candidates
            .into_iter()
            .find(|path| path.is_file())
            .ok_or_else(|| {
                let folders = self.folders.iter().map(|f| f.display().to_string());
                Error::NotFound {
                    plugin: plugin.to_owned(),
                    folders: folders.collect::<Vec<_>>().join(", "),
                }
            })
    }

    /// Runs a plugin to its end; null where the command has no result.
    pub(super) async fn run(&self, call: &Call) -> Result<Value> {
        let path = self.find(&call.plugin)?;
        let mut environment = vec![
            ("CNI_COMMAND", OsString::from(call.command)),
            ("CNI_PATH", self.folder_list()),
        ];
        environment.extend(call.environment.iter().cloned());
        let program = Program {
            words: Vec::new(),
            environment: environment
                .into_iter()
                .map(|(key, value)| (OsString::from(key), value))
                .collect(),
            input: call.input.to_string().into_bytes(),
            timeout: self.timeout,
            path,
        };
        match program.run(self.apart.as_ref()).await {
            Ok(said) => read(call, &said),
            Err(programs::Error::Timeout { seconds }) => Err(Error::Timeout {
                plugin: call.plugin.clone(),
                command: call.command,
                seconds,
            }),
            Err(programs::Error::Io { path, what, source }) => {
                Err(Error::Io { path, what, source })
            }
        }
    }

    fn folder_list(&self) -> OsString {
        let mut list = OsString::new();
        for (number, folder) in self.folders.iter().enumerate() {
            if number > 0 {
                list.push(":");
            }
            list.push(folder);
        }
        list
    }
}

fn read(call: &Call, said: &Said) -> Result<Value> {
    let unreadable = |reason: String| {
        let from = said.err.len().saturating_sub(KEPT);
        let said = said.err.get(from..).unwrap_or_default();
        Error::Unreadable {
            plugin: call.plugin.clone(),
            command: call.command,
            reason,
            said: Error::words(String::from_utf8_lossy(said).trim_end()),
        }
    };
    let parsed = serde_json::from_slice::<Value>(&said.out);
    if said.status.success() {
        // Only two commands have a result.
        return match parsed {
            Ok(value) => Ok(value),
            Err(_) if !matches!(call.command, "ADD" | "VERSION") => Ok(Value::Null),
            Err(error) => Err(unreadable(format!("no result: {error}"))),
        };
    }
    let error = parsed.map_err(|_| unreadable("it failed without a word".to_owned()))?;
    let text = |field: &str| error.get(field).and_then(Value::as_str).unwrap_or_default();
    let details = match text("details") {
        "" => String::new(),
        details => format!(": {}", Error::words(details)),
    };
    Err(Error::Plugin {
        plugin: call.plugin.clone(),
        command: call.command,
        code: error.get("code").and_then(Value::as_u64).unwrap_or(0),
        message: Error::words(text("msg")),
        details,
    })
}
