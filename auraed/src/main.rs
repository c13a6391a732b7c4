// SPDX-License-Identifier: Apache-2.0
//! The `auraed` binary: picks its role, and wires the subsystems together for it.
//!
//! `init` runs before any thread exists and never returns; `serve` is the daemon that it starts.
//! The roles are implemented in `init`, `oci` and the modules here; this file chooses between them.
//! `oci` has a command line of its own, that of every OCI runtime.

mod actions;
mod args;
mod authenticator;
mod boot;
mod capacity;
mod cell_network;
mod config;
mod daemon;
mod declared;
mod elsewhere;
mod first;
mod hooks;
mod host;
mod images;
mod journal;
mod listen;
mod mailed;
mod meters;
mod net;
mod other_cron;
mod past;
mod plugin;
mod pods;
mod reserve;
mod rpc;
mod schedules;
mod serve;
mod syslog;
mod telemetry;
mod units;
mod unowned;
mod unpack;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use args::{Arguments, Common, Role};
use config::{Config, Loaded};

/// Init must not end for lack of memory; the daemon may.
#[global_allocator]
static ALLOCATOR: kernel::oom_wait::WaitForMemory = kernel::oom_wait::WaitForMemory;

fn main() -> ExitCode {
    init::be_spawner_if_named();
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(own) = oci::words(&words) {
        return oci::main(&words, &own);
    }
    let kind = init::find_role();
    // A PID 1 that doesn't know its role yet may be a machine's, and must not end for a word that
    // it doesn't know.
    let container = matches!(kind, Ok(init::protocol::Role::Container));
    let machine = std::process::id() == 1 && !container;
    if std::process::id() == 1 {
        kernel::oom_wait::wait_for_memory();
    }
    let arguments = Arguments::read(machine);
    match run(arguments, machine) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("auraed: {error:#}");
            if machine {
                wait_for_ever();
            }
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments, machine: bool) -> anyhow::Result<ExitCode> {
    let common = arguments.common;
    match arguments.role.unwrap_or(Role::Init) {
        Role::Init => be_init(&common, machine),
        Role::Serve { init_fd } => serve::run(&common, init_fd),
        Role::Unpack {
            parent,
            group,
            options,
        } => Ok(unpack::run(parent, &group, &options)),
        Role::Plugin {
            parent,
            group,
            program,
        } => Ok(plugin::run(parent, group.as_deref(), &program)),
        Role::Hook(options) => Ok(hooks::program::run(&options)),
        Role::Mailed(options) => mailed::run(&options),
        // Only with a flag before it, which that role doesn't know: see `main`.
        Role::Oci { .. } => anyhow::bail!("`oci` comes first: auraed oci …"),
        Role::Config { output } => print_config(&common, &output),
        Role::Credentials => mint_credentials(&common),
    }
}

/// Never returns where it can start at all.
fn be_init(common: &Common, machine: bool) -> anyhow::Result<ExitCode> {
    let config = match common.sources().load() {
        Ok(loaded) => loaded.config,
        // A machine must come up: the daemon will refuse the same configuration, again and again,
        // on the console.
        Err(error) if machine => {
            eprintln!("auraed: {error}; init goes on with its defaults");
            Config::default()
        }
        Err(error) => return Err(error.into()),
    };
    let never = init::run(init_options(common, &config))?;
    match never {}
}

fn init_options(common: &Common, config: &Config) -> init::Options {
    let words = ["auraed".to_owned(), "serve".to_owned()]
        .into_iter()
        .chain(common.to_words());
    let cgroup = &config.paths.cgroup;
    init::Options {
        daemon: words.map(OsString::from).collect(),
        state_dir: config.paths.state.clone(),
        run_dir: config.paths.run.clone(),
        root: config.runtime.root.clone(),
        cgroup: (!cgroup.is_empty()).then(|| PathBuf::from(cgroup)),
        shutdown_bound: config.shutdown.bound.0,
        watchdog: init::WatchdogSettings {
            device: config.watchdog.device.clone(),
            timeout: config.watchdog.timeout.0,
            end: config.watchdog.end.0,
        },
        ..init::Options::default()
    }
}

/// PID 1 of a machine must not end: the kernel would panic before a person can read the error.
fn wait_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

fn print_config(common: &Common, output: &str) -> anyhow::Result<ExitCode> {
    let loaded = common.sources().load()?;
    if output == "json" {
        println!("{}", serde_json::to_string_pretty(&json_of(&loaded))?);
    } else {
        for (key, value, origin) in loaded.entries() {
            println!("{:<52} # {origin}", format!("{key} = {value}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn json_of(loaded: &Loaded) -> Vec<serde_json::Value> {
    loaded
        .entries()
        .map(|(key, value, origin)| {
            serde_json::json!({ "key": key, "value": value, "origin": origin.to_string() })
        })
        .collect()
}

fn mint_credentials(common: &Common) -> anyhow::Result<ExitCode> {
    let config = common.sources().load()?.config;
    let lifetime = config.identity.administrator_lifetime.0;
    let minted = identity::mint_offline(&config.paths.state, lifetime)
        .with_context(|| format!("no credentials from {}", config.paths.state.display()))?;
    println!("certificate  {}", minted.certificate.display());
    println!("key          {}", minted.key.display());
    println!("ca           {}", minted.ca.display());
    println!("identity     {}", minted.spiffe_id);
    println!("serial       {}", minted.serial);
    if minted.enabled_at_start {
        println!("system/admin was disabled: the daemon enables it when it starts again");
    }
    Ok(ExitCode::SUCCESS)
}
