// SPDX-License-Identifier: Apache-2.0
//! One run of one plugin: its environment, its configuration on standard input, its result on
//! standard output. Bounded in time and in words; its children end with it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::cache::Entry;
use super::config::{Network, type_of};
use super::error::{Error, Result};
use super::leaf::Apart;
use super::{Namespace, Settings};

/// A result has no reason to be larger, in bytes.
const MAX_WORDS: u64 = 1 << 20;
/// What is kept of standard error for a message, in bytes.
const KEPT: usize = 512;

/// For how long its output is read on when a plugin has ended.
const GRACE: Duration = Duration::from_secs(1);

/// What plugins that run programs find them by.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

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

/// What a plugin wrote, and whether it ended well.
struct Said {
    out: Vec<u8>,
    err: Vec<u8>,
    well: bool,
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
        let leaf = self.apart.as_ref().map(Apart::leaf).transpose()?.flatten();
        let mut command = match &self.apart {
            Some(apart) => Command::from(apart.command(leaf.as_ref(), &path)),
            None => Command::new(&path),
        };
        command
            .env_clear()
            .env("PATH", PATH)
            .env("CNI_COMMAND", call.command)
            .env("CNI_PATH", self.folder_list())
            .envs(call.environment.iter().map(|(key, value)| (key, value)))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Of its own, so that its children can be killed with it.
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(Error::io(&path, "running"))?;
        let mut group = Group(child.id());
        let said = tokio::time::timeout(self.timeout, converse(&mut child, &call.input)).await;
        // Once the plugin is waited for, its number may be another's.
        if said.is_ok() {
            group.0 = None;
        }
        drop(group);
        // Nothing of it lives on when the next plugin runs, not even what has made itself a daemon.
        if let Some(leaf) = leaf {
            leaf.end().await?;
        }
        match said {
            Err(_) => Err(Error::Timeout {
                plugin: call.plugin.clone(),
                command: call.command,
                seconds: self.timeout.as_secs(),
            }),
            Ok(said) => read(call, &said.map_err(Error::io(&path, "speaking with it"))?),
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

/// The process group of a plugin that isn't waited for yet, killed where no caller will.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self
            .0
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // No process may be left in it, which is as good.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

async fn converse(child: &mut Child, input: &Value) -> std::io::Result<Said> {
    let input = input.to_string();
    let (mut stdin, stdout, stderr) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let tell = async {
        if let Some(mut stdin) = stdin.take() {
            // A plugin that doesn't read ends with a result all the same.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let hear = async {
        match stdout {
            Some(stdout) => stdout.take(MAX_WORDS).read_to_end(&mut out).await,
            None => Ok(0),
        }
    };
    let overhear = async {
        match stderr {
            Some(stderr) => stderr.take(MAX_WORDS).read_to_end(&mut err).await,
            None => Ok(0),
        }
    };
    {
        let speech = async { tokio::join!(tell, hear, overhear) };
        let mut speech = std::pin::pin!(speech);
        let spoken = tokio::select! {
            biased;
            spoken = &mut speech => Some(spoken),
            status = child.wait() => {
                status?;
                // What it has left behind may hold its output open.
                tokio::time::timeout(GRACE, &mut speech).await.ok()
            }
        };
        if let Some(((), heard, overheard)) = spoken {
            heard.and(overheard)?;
        }
    }
    // The same answer again where it was waited for.
    let well = child.wait().await?.success();
    Ok(Said { out, err, well })
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
    if said.well {
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
