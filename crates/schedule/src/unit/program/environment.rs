// SPDX-License-Identifier: Apache-2.0
//! The variables of a command, and where its program is (systemd.exec(5)).

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use model::executable::DEFAULT_PATH;
use rustix::fs::OFlags;
use units::exec::environment::{Environment, parse_file};
use units::unit::Settings;
use units::value::Value;

use super::account::Account;
use super::folders::Variables;
use super::{Failure, Told, failure};
use crate::unit::facts;
use crate::unit::steps::{End, Phase};

/// At most so many bytes of variables are read from a file.
const MOST_VARIABLES: u64 = 1 << 20;

/// `ExecSearchPath=`, and `$PATH` by default.
fn search_path(settings: &Settings) -> String {
    match settings.texts("ExecSearchPath") {
        [] => DEFAULT_PATH.to_owned(),
        folders => folders.join(":"),
    }
}

/// Where the scripts of System V's init are.
const INIT_SCRIPTS: &str = "/etc/init.d/";

/// Debian's init scripts hand over to systemctl, and so wait for themselves, unless their parent is
/// PID 1, as under systemd. That of a unit's command is an init of its cell's, so the script is
/// told otherwise (init-functions.d/40-systemd).
pub(super) fn of_init_script(program: &str, all: &mut Environment) {
    if program.starts_with(INIT_SCRIPTS) {
        let skip = all.entry("SYSTEMCTL_SKIP_REDIRECT".to_owned());
        skip.or_insert_with(|| "1".to_owned());
    }
}

/// The variables of a command (systemd.exec(5), "Environment Variables Set or Propagated").
///
/// # Errors
/// [`Failure`]: a file of variables that can't be read.
pub(super) fn of(
    settings: &Settings,
    account: &Account,
    folders: Variables,
    phase: Phase,
    told: &Told,
) -> Result<Environment, Failure> {
    let mut all = Environment::from([("PATH".to_owned(), DEFAULT_PATH.to_owned())]);
    all.extend(told.environment.clone());
    if !settings.texts("ExecSearchPath").is_empty() {
        all.insert("PATH".to_owned(), search_path(settings));
    }
    all.insert("INVOCATION_ID".to_owned(), told.invocation.clone());
    let mut put = |name: &str, value: &str| all.insert(name.to_owned(), value.to_owned());
    if let Some(user) = &account.user {
        put("USER", &user.name);
        put("LOGNAME", &user.name);
        // One that is there for the unit alone has neither.
        if !account.is_dynamic {
            put("HOME", &user.home);
            put("SHELL", &user.shell);
        }
    }
    for (variable, value) in &folders {
        put(variable, value);
    }
    if let Some(name) = super::terminal::name(settings) {
        put("TERM", name);
    }
    if let Some(pid) = told.main_pid {
        put("MAINPID", &pid.to_string());
    }
    if let Some(socket) = &told.notify {
        put("NOTIFY_SOCKET", socket);
    }
    if let Some(every) = told.watchdog {
        put("WATCHDOG_USEC", &every.to_string());
    }
    for (variable, value) in &told.monitored {
        put(variable, value);
    }
    if matches!(phase, Phase::Stop | Phase::StopPost) {
        put("SERVICE_RESULT", told.result.as_str());
        if let Some((code, status)) = told.ended.map(End::words) {
            put("EXIT_CODE", code);
            put("EXIT_STATUS", &status);
        }
    }
    for name in settings.texts("PassEnvironment") {
        // What isn't text can't be told.
        if let Ok(value) = std::env::var(name) {
            all.insert(name.clone(), value);
        }
    }
    if let Some(Value::Variables(variables)) = settings.get("Environment") {
        all.extend(variables.iter().cloned());
    }
    for file in settings.paths("EnvironmentFile") {
        variables_from(&file.path, file.optional, &mut all)?;
    }
    for unset in settings.texts("UnsetEnvironment") {
        match unset.split_once('=') {
            Some((name, value)) if all.get(name).is_some_and(|it| it == value) => {
                all.remove(name);
            }
            Some(_) => {}
            None => {
                all.remove(unset);
            }
        }
    }
    Ok(all)
}

/// The variables of a file, or of all that a pattern names, in their order.
fn variables_from(path: &str, optional: bool, all: &mut Environment) -> Result<(), Failure> {
    let wrong = |path: &str, error: &dyn std::fmt::Display| {
        let words = format!("EnvironmentFile={path}: {error}");
        Err(failure(1, words))
    };
    let paths = match path.contains(['*', '?', '[']) {
        true => facts::matching(path),
        false => vec![path.to_owned()],
    };
    if paths.is_empty() && !optional {
        return wrong(path, &"no file matches");
    }
    for path in paths {
        match variables_of(&path) {
            Ok(bytes) => all.extend(parse_file(&bytes).variables),
            Err(_) if optional => {}
            Err(error) => return wrong(&path, &error),
        }
    }
    Ok(())
}

/// A file of variables. The workload may own it: what isn't a file, or never ends, isn't read.
fn variables_of(path: &str) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    let refused = |words| io::Error::new(io::ErrorKind::InvalidInput, words);
    if !file.metadata()?.is_file() {
        return Err(refused("it isn't a file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_VARIABLES + 1).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()) {
        Ok(0..=MOST_VARIABLES) => Ok(bytes),
        _ => Err(refused("it has more than a mebibyte")),
    }
}

/// The program's file: as it is, or as the search path has it.
///
/// # Errors
/// [`Failure`]: none of the folders has it.
pub(super) fn found(program: &str, settings: &Settings) -> Result<String, Failure> {
    if program.starts_with('/') {
        return Ok(program.to_owned());
    }
    let path = search_path(settings);
    let mut places = path.split(':').map(|folder| format!("{folder}/{program}"));
    let place = places.find(|it| Path::new(it).is_file());
    place.ok_or_else(|| failure(203, format!("{program} is in no folder of {path}")))
}
