// SPDX-License-Identifier: Apache-2.0
//! Plugins of CNI, the Container Network Interface, versions 0.3.0 to 1.1.0
//! (<https://www.cni.dev/docs/spec>), for nodes whose administrator has configured them: the
//! plugins are programs of others, run as they are, as root, in the caller's network namespace.
//!
//! Called by the daemon beside [`crate::Network`], or in its place: [`Cni::named`] and [`Cni::add`]
//! for each interface of a cell, [`Added`] at the end of a cell, and at a start for what is of no
//! living one. It pins, publishes and isolates nothing by itself: what the plugins do is what there
//! is, and their administrator's to answer for.
//!
//! * `config`: the files of `/etc/cni/net.d`, and what a plugin is told. Pure but for reading.
//! * `plugin`: one run of one plugin, with bounds on its time and its words.
//! * `cache`: what was added, so that it can be removed when configuration and daemon have
//!   changed.

mod added;
mod cache;
mod config;
mod error;
mod plugin;
mod result;

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::port::HostPort;
pub use added::{Added, Kept};
use cache::{Cache, Entry};
pub use config::{Network, Rejected};
pub use error::{Error, Result};
use plugin::{Call, Runner};
use programs::Apart;
pub use result::{Address, Interface, Outcome};

/// Where things are, and how long they may take.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of configurations; `/etc/cni/net.d` by custom.
    pub configurations: PathBuf,
    /// The folders of plugins, first found first taken; `/usr/lib/cni` in Debian, `/opt/cni/bin` by
    /// custom.
    pub plugins: Vec<PathBuf>,
    /// The daemon's own folder for what was added.
    pub cache: PathBuf,
    /// How long one plugin may take, before it and its children are killed.
    pub timeout: Duration,
    /// How plugins are kept apart from the caller; none: they are its children in a process group
    /// of their own, and no more.
    pub apart: Option<Apart>,
}

/// A cell's network namespace, as a plugin can be told it.
#[derive(Debug)]
pub enum Namespace {
    /// By a file that stays.
    Path(PathBuf),
    /// By a descriptor of this process: the plugin sees `/proc/PID/fd/N`.
    Fd(OwnedFd),
    /// Gone with the cell's processes: for [`Cni::del`] alone.
    Gone,
}

impl Namespace {
    /// Whether it can be given an interface: the node's own links are no cell's to have.
    fn check(&self) -> Result<()> {
        let opened;
        let fd = match self {
            Namespace::Gone => {
                return Err(Error::request("netns", "an interface needs a namespace"));
            }
            Namespace::Fd(fd) => fd,
            Namespace::Path(path) => {
                opened = kernel::namespace::open(path).map_err(|e| Error::namespace(path, e))?;
                &opened
            }
        };
        let own = std::path::Path::new("/proc/thread-self/ns/net");
        let failed = |error| Error::namespace(own, error);
        let here = kernel::namespace::open(own).map_err(failed)?;
        let identity = |fd: &OwnedFd| kernel::namespace::identity(fd).map_err(failed);
        match identity(fd)? == identity(&here)? {
            true => Err(Error::request(
                "netns",
                "it is the node's own network namespace",
            )),
            false => Ok(()),
        }
    }

    fn path(&self) -> OsString {
        match self {
            Namespace::Path(path) => path.clone().into(),
            Namespace::Fd(fd) => {
                format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()).into()
            }
            Namespace::Gone => OsString::new(),
        }
    }
}

/// One interface of one cell.
#[derive(Debug)]
pub struct Attachment {
    /// The cell's uid, or another id of letters, digits and `_.-`.
    pub container: String,
    /// The interface's name in the cell, at most 15 bytes.
    pub interface: String,
    /// The cell's namespace.
    pub netns: Namespace,
    /// Ports of the node, for plugins with the capability `portMappings`.
    pub host_ports: Vec<HostPort>,
    /// Arguments of `CNI_ARGS`, such as Kubernetes' `K8S_POD_NAME`.
    pub arguments: Vec<(String, String)>,
    /// Values for other capabilities: `bandwidth`, `ips`, `mac`, `dns` and what plugins define.
    pub capabilities: Map<String, Value>,
}

impl Attachment {
    fn check(&self) -> Result<()> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        let begins = |text: &str| {
            text.bytes()
                .next()
                .is_some_and(|b| b.is_ascii_alphanumeric())
        };
        let id = &self.container;
        if id.len() > 128 || !begins(id) || !id.bytes().all(plain) {
            return Err(Error::request("container", "letters, digits, _ . and -"));
        }
        let name = &self.interface;
        let bad = |b: u8| !b.is_ascii_graphic() || b"/:".contains(&b);
        if !(1..=15).contains(&name.len()) || name.bytes().any(bad) || name.starts_with('.') {
            return Err(Error::request(
                "interface",
                "1 to 15 visible characters, no / or :",
            ));
        }
        let odd = |text: &str| text.contains([';', '=', '\0']);
        if self
            .arguments
            .iter()
            .any(|(key, value)| odd(key) || odd(value))
        {
            return Err(Error::request("arguments", "no ; and no ="));
        }
        Ok(())
    }

    /// `runtimeConfig`: what plugins may ask for by their capabilities.
    fn offers(&self) -> Map<String, Value> {
        let mut offers = self.capabilities.clone();
        if !self.host_ports.is_empty() {
            let mappings: Vec<Value> = self
                .host_ports
                .iter()
                .map(|port| {
                    json!({
                        "hostPort": port.host_port,
                        "containerPort": port.port,
                        "protocol": port.protocol.as_str(),
                        "hostIP": port.address.map(|a| a.to_string()).unwrap_or_default(),
                    })
                })
                .collect();
            offers.insert("portMappings".to_owned(), Value::Array(mappings));
        }
        offers
    }
}

/// The network that the node's administrator has configured.
///
/// Calls may be made at once, but for those about one cell, which the specification wants one after
/// the other: the cell's owner makes them.
#[derive(Debug)]
pub struct Cni {
    network: Network,
    /// Files that were passed over, and why: for the node's log.
    rejected: Vec<Rejected>,
    runner: Runner,
    cache: Cache,
}

impl Cni {
    /// Reads the configurations and takes the first valid one, by file name; none where the folder
    /// has none. Valid is one whose plugins are there and speak its version.
    ///
    /// # Errors
    /// The folder can't be read, or it has files and none of them is valid.
    pub async fn load(settings: Settings) -> Result<Option<Cni>> {
        let runner = Runner::of(settings.clone());
        let mut rejected = Vec::new();
        for file in config::files(&settings.configurations)? {
            let found = match config::read(&file) {
                Ok(network) => runner.settle_version(network).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(network) => {
                    return Ok(Some(Cni {
                        network,
                        rejected,
                        runner,
                        cache: Cache::open(settings.cache)?,
                    }));
                }
                Err(error) => rejected.push(Rejected { file, error }),
            }
        }
        match rejected.into_iter().next() {
            None => Ok(None),
            Some(first) => Err(first.error),
        }
    }

    /// The network of that name; where no file has it, the files that can't be worked with: one of
    /// them may be the one that was meant. Files are read anew: an administrator changes them at
    /// any time.
    ///
    /// # Errors
    /// Its file can't be worked with, or its plugins aren't there.
    pub async fn named(
        settings: Settings,
        name: &str,
    ) -> Result<std::result::Result<Cni, Vec<Rejected>>> {
        let runner = Runner::of(settings.clone());
        let mut rejected = Vec::new();
        for file in config::files(&settings.configurations)? {
            match config::read(&file) {
                Ok(network) if network.name == name => {
                    return Ok(Ok(Cni {
                        network: runner.settle_version(network).await?,
                        rejected,
                        runner,
                        cache: Cache::open(settings.cache)?,
                    }));
                }
                Ok(_) => {}
                Err(error) => rejected.push(Rejected { file, error }),
            }
        }
        Ok(Err(rejected))
    }

    /// Whether one of its plugins publishes ports of the node.
    pub fn publishes(&self) -> bool {
        self.network.has_capability("portMappings")
    }

    /// The network that was taken.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Files that were passed over.
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }

    /// Adds an interface: each plugin in its order, the next one told what the ones before did.
    ///
    /// # Errors
    /// The plugin that failed, with its code. What was added is removed again then.
    pub async fn add(&self, attachment: &Attachment) -> Result<Outcome> {
        attachment.check()?;
        attachment.netns.check()?;
        let mut entry = Entry::new(&self.network, attachment);
        // Before the first plugin: what a killed daemon had begun is found by `gc` and removed.
        self.cache.write(&entry)?;
        let added = match self.add_each(attachment, &entry).await {
            Ok(result) => {
                let outcome = Outcome::read(&result, &attachment.interface, &self.network.name);
                entry.result = Some(result);
                outcome.and_then(|outcome| self.cache.write(&entry).map(|()| outcome))
            }
            Err(error) => Err(error),
        };
        if added.is_err() {
            // The first error is the one that says why; what can't be removed now is in the cache
            // still. With the result, if there was one, whether it could be kept or not.
            let _ = added::del(&self.runner, &self.cache, &entry, &attachment.netns).await;
        }
        added
    }

    async fn add_each(&self, attachment: &Attachment, entry: &Entry) -> Result<Value> {
        let mut previous = None;
        for plugin in &entry.network.plugins {
            let call = Call::new("ADD", entry, plugin, &attachment.netns, previous.as_ref());
            previous = Some(self.runner.run(&call).await?);
        }
        previous.ok_or_else(|| Error::configuration(&entry.network.name, "it has no plugin"))
    }

    /// Removes an interface: each plugin, the last one first, as it was configured when the
    /// interface was added. That there is none is no error; that the namespace is gone isn't
    /// either.
    ///
    /// # Errors
    /// The first plugin that failed. All others were run; the interface is kept in mind, and can be
    /// removed again.
    pub async fn del(&self, attachment: &Attachment) -> Result<()> {
        attachment.check()?;
        let Some(entry) = self.cache.read(attachment, &self.network.name)? else {
            return Ok(());
        };
        added::del(&self.runner, &self.cache, &entry, &attachment.netns).await
    }

    /// Asks the plugins whether an interface is as they made it.
    ///
    /// # Errors
    /// The plugin that says no, or that there is no such interface.
    pub async fn check(&self, attachment: &Attachment) -> Result<()> {
        attachment.check()?;
        let found = self.cache.read(attachment, &self.network.name)?;
        let entry = found.ok_or_else(|| Error::request("interface", "it was not added"))?;
        if entry.network.disable_check {
            return Ok(());
        }
        for plugin in &entry.network.plugins {
            let result = entry.result.as_ref();
            let call = Call::new("CHECK", &entry, plugin, &attachment.netns, result);
            self.runner.run(&call).await?;
        }
        Ok(())
    }

    /// Removes what was added for cells that don't live any more, and lets plugins that can
    /// (version 1.1) remove what they alone know of. Living: container id and interface.
    ///
    /// # Errors
    /// The first plugin that failed; all others were run.
    pub async fn gc(&self, living: &[(String, String)]) -> Result<()> {
        let mut outcome = Ok(());
        let listed = self.cache.list()?;
        let gone = listed.iter().filter(|it| !living.contains(it));
        for (container, interface) in gone {
            for entry in self.cache.of(container)? {
                let done = match entry {
                    Ok(entry) if entry.interface == *interface => {
                        added::del(&self.runner, &self.cache, &entry, &Namespace::Gone).await
                    }
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                };
                outcome = outcome.and(done);
            }
        }
        if !self.network.collects() {
            return outcome;
        }
        let valid: Vec<Value> = living
            .iter()
            .map(|(id, name)| json!({"containerID": id, "ifname": name}))
            .collect();
        for plugin in &self.network.plugins {
            let call = Call::collect(&self.network, plugin, &valid);
            outcome = outcome.and(self.runner.run(&call).await.map(drop));
        }
        outcome
    }

    /// Asks the plugins whether they can add interfaces now; plugins before version 1.1 can't be
    /// asked.
    ///
    /// # Errors
    /// The plugin that can't, with what it says.
    pub async fn status(&self) -> Result<()> {
        if !self.network.collects_or_tells() {
            return Ok(());
        }
        for plugin in &self.network.plugins {
            let call = Call::status(&self.network, plugin);
            self.runner.run(&call).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_own_namespace_is_no_cells() {
        let own = PathBuf::from("/proc/thread-self/ns/net");
        let by_fd = Namespace::Fd(kernel::namespace::open(&own).unwrap());
        for netns in [by_fd, Namespace::Path(own), Namespace::Gone] {
            let refused = netns.check().unwrap_err();
            assert!(matches!(refused, Error::Request { field: "netns", .. }));
        }
    }
}
