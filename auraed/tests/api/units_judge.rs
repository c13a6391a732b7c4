// SPDX-License-Identifier: Apache-2.0
//! Debian's `test-execute` units, run by a node and held to what systemd's own test wants of each:
//! `./x judge execute`, which says by variables where they are and prepares the machine as that
//! test does. The expectations are those of `src/test/test-execute.c` of systemd 252.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use api::schedule::v0 as wire;

use crate::caller::Person;
use crate::units::{Machine, job, status, units};

/// Where the units are.
const UNITS: &str = "AURAE_JUDGE_UNITS";
/// The variables that `PassEnvironment=` is tried with are there.
const PASSED: &str = "VAR1";
/// How long a unit may take, as in systemd's test.
const LONGEST: Duration = Duration::from_secs(120);

/// Units that end otherwise than by themselves with 0: how, and with what.
const OTHERWISE: &[(&str, &str, &str)] = &[
    ("exec-ignoresigpipe-no", "killed", "PIPE"),
    ("exec-restrictnamespaces-mnt-deny-list", "exited", "1"),
    ("exec-restrictnamespaces-yes", "exited", "1"),
    ("exec-systemcallerrornumber-name", "exited", "13"),
    ("exec-systemcallerrornumber-number", "exited", "255"),
    ("exec-systemcallfilter-failing", "killed", "SYS"),
    ("exec-systemcallfilter-failing2", "killed", "SYS"),
    ("exec-systemcallfilter-failing3", "killed", "SYS"),
    (
        "exec-systemcallfilter-override-error-action",
        "killed",
        "SYS",
    ),
    (
        "exec-systemcallfilter-override-error-action2",
        "exited",
        "84",
    ),
    (
        "exec-systemcallfilter-with-errno-in-allow-list",
        "exited",
        "84",
    ),
    ("exec-systemcallfilter-with-errno-multi", "exited", "84"),
    ("exec-systemcallfilter-with-errno-name", "exited", "84"),
    ("exec-systemcallfilter-with-errno-number", "exited", "255"),
    // The result counts: the main process isn't begun.
    ("exec-condition-failed", "result", "exit-code"),
    ("exec-condition-skip", "result", "exec-condition"),
];

/// Units that go on in the order of the list, after all others: each needs what the one before it
/// has left.
const IN_ORDER: &[&str] = &[
    "exec-dynamicuser-statedir",
    "exec-dynamicuser-statedir-migrate-step1",
    "exec-dynamicuser-statedir-migrate-step2",
    "exec-dynamicuser-statedir-migrate-step1",
    "exec-dynamicuser-runtimedirectory1",
    "exec-dynamicuser-runtimedirectory2",
    "exec-dynamicuser-runtimedirectory3",
];

/// Why a unit isn't run on this machine, as systemd's test wouldn't run it either.
fn skipped(name: &str, text: &str) -> Option<&'static str> {
    let has = |file: &str, name: &str| {
        let lines = fs::read_to_string(file).unwrap_or_default();
        lines.lines().any(|it| it.split(':').next() == Some(name))
    };
    let cpu = |number: usize| Path::new(&format!("/sys/devices/system/cpu/cpu{number}")).exists();
    let there = |program: &str| Path::new(program).exists();
    let personality = match std::env::consts::ARCH {
        "x86_64" => "exec-personality-x86-64",
        "aarch64" => "exec-personality-aarch64",
        _ => "",
    };
    for id in ["nobody", "nfsnobody", "nogroup", "adm", "games"] {
        let Some(stem) = name.strip_suffix(&format!("-{id}")) else {
            continue;
        };
        let group = stem.ends_with("-group") || stem.ends_with("-owner");
        let (user, group) = match group {
            true => (true, has("/etc/group", id)),
            false => (has("/etc/passwd", id), true),
        };
        if !user || !group {
            return Some("the machine has no such user or group");
        }
    }
    match name {
        _ if name.starts_with("exec-personality") && name != personality => {
            Some("another machine's kernel")
        }
        "exec-cpuaffinity3" if !cpu(2) => Some("the machine has two processors"),
        "exec-oomscoreadjust-negative" if !may_lower_score() => {
            Some("the machine keeps scores of the OOM killer from being lowered")
        }
        _ if text.contains("capsh") && !there("/sbin/capsh") => Some("capsh is not installed"),
        _ if text.contains("python3") && !there("/usr/bin/python3") => {
            Some("python3 is not installed")
        }
        "exec-specifier@" => Some("a template; its instance is run"),
        _ => None,
    }
}

fn may_lower_score() -> bool {
    let script = "echo -100 > /proc/self/oom_score_adj";
    let tried = std::process::Command::new("sh")
        .args(["-c", script])
        .stderr(std::process::Stdio::null())
        .status();
    tried.is_ok_and(|it| it.success())
}

/// What a unit is given before it runs.
fn prepare(machine: &Machine, name: &str) {
    let variables = "VAR1='word1 word2'\nVAR2=word3 \n# comment1\n\n; comment2\n ; # comment3\n\
                     line without an equal\nVAR3='$word 5 6'\nVAR4='new\nline'\n\
                     VAR5=password\\with\\backslashes";
    let folder = |path: &str| fs::create_dir_all(path).unwrap();
    let write = |path: &str, text: &str| fs::write(path, text).unwrap();
    match name {
        "exec-bindpaths" => {
            folder("/tmp/test-exec-bindpaths");
            folder("/tmp/test-exec-bindreadonlypaths");
        }
        "exec-workingdirectory" | "exec-workingdirectory-trailing-dot" => {
            folder("/tmp/test-exec_workingdirectory");
        }
        "exec-execsearchpath" => {
            folder("/tmp/test-exec_execsearchpath");
            fs::copy("/bin/ls", "/tmp/test-exec_execsearchpath/ls_temp").unwrap();
        }
        "exec-environmentfile" => write("/tmp/test-exec_environmentfile.conf", variables),
        "exec-execsearchpath-environmentfile" => {
            write(
                "/tmp/test-exec_execsearchpath_environmentfile.conf",
                variables,
            );
        }
        "exec-execsearchpath-environmentfile-set" => write(
            "/tmp/test-exec_execsearchpath_environmentfile-set.conf",
            &format!("{variables}\nPATH=/usr"),
        ),
        _ if name.starts_with("exec-privatetmp") => write("/tmp/test-exec_privatetmp", ""),
        "exec-mount-apivfs-no" => {
            folder("/tmp/test-exec-mount-apivfs-no/root");
            machine.unit("exec-mount-apivfs-no.service.d/10-bind.conf", &bound());
        }
        _ => {}
    }
}

/// A root that has two programs with their libraries, and a command of each.
fn bound() -> String {
    let programs = ["/usr/bin/touch", "/usr/bin/test"];
    let mut paths: Vec<String> = programs.iter().map(ToString::to_string).collect();
    for program in programs {
        let output = Command::new("ldd").arg(program).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let words = text.split_whitespace().filter(|it| it.starts_with('/'));
        paths.extend(words.map(str::to_owned));
    }
    let binds = paths.iter().map(|it| format!("BindReadOnlyPaths={it}\n"));
    let [touch, test] = programs;
    format!(
        "[Service]\nExecStart={touch} /aaa\nExecStart={test} -f /aaa\n{}",
        binds.collect::<String>()
    )
}

/// How a unit has ended.
async fn ended(person: &Person, name: &str) -> Result<wire::UnitStatus, String> {
    let asked = units(person).start_unit(job(name)).await;
    asked.map_err(|it| api::status::from_status(&it).message)?;
    let begun = Instant::now();
    loop {
        let status = status(person, name).await;
        if matches!(status.active.as_str(), "inactive" | "failed") {
            return Ok(status);
        }
        if begun.elapsed() > LONGEST {
            return Err(format!("it is {} for two minutes", status.sub));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Why it isn't as wanted; `None`: it is.
async fn judged(person: &Person, name: &str) -> Option<String> {
    let wanted = OTHERWISE.iter().find(|(it, ..)| *it == name);
    let (_, how, what) = wanted.unwrap_or(&("", "exited", "0"));
    match ended(person, &format!("{name}.service")).await {
        Err(words) => Some(words),
        Ok(status) if *how == "result" && status.result == *what => None,
        // What a signal has ended may have been written down, or not.
        Ok(status)
            if status.exit_code.replace("dumped", "killed") == *how
                && status.exit_status == *what =>
        {
            None
        }
        Ok(status) => Some(format!(
            "{} {} ({}), not {how} {what}: {}",
            status.exit_code, status.exit_status, status.result, status.message
        )),
    }
}

/// The units in the order in which they run.
fn names(all: &BTreeMap<String, String>) -> Vec<String> {
    let passes = |name: &String| {
        name.contains("passenvironment") && !name.ends_with("-absent") && !name.ends_with("-empty")
    };
    let with_variables = std::env::var_os(PASSED).is_some();
    let set = std::env::var("PATH").is_ok_and(|it| it == "/usr");
    if with_variables {
        let passing = all.keys().filter(|it| passes(it));
        return passing
            .filter(|it| it.ends_with("-set") == set)
            .cloned()
            .collect();
    }
    let plain = all
        .keys()
        .filter(|it| !passes(it) && !IN_ORDER.contains(&it.as_str()));
    let ordered = IN_ORDER.iter().map(ToString::to_string);
    plain.cloned().chain(ordered).collect()
}

#[tokio::test]
async fn debians_test_execute_units_end_as_systemds_own_test_wants() {
    // Not a skipped test: a judge that only `./x judge execute` calls, since it gets the units.
    let Some(folder) = std::env::var_os(UNITS) else {
        return;
    };
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(PathBuf::from(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        all.insert(name, fs::read_to_string(path).unwrap());
    }
    let Some(machine) = Machine::start() else {
        return;
    };
    let person = machine.node.administrator().await;
    for (name, text) in &all {
        fs::write(machine.at("lib").join(format!("{name}.service")), text).unwrap();
    }
    let (mut passed, mut failed, mut left_out) = (0, Vec::new(), 0);
    for name in names(&all) {
        if let Some(why) = skipped(&name, all.get(&name).map_or("", String::as_str)) {
            println!("judge: {name}: left out: {why}");
            left_out += 1;
            continue;
        }
        let instance = match name.as_str() {
            "exec-specifier" => Some("exec-specifier@foo-bar"),
            _ => None,
        };
        for name in [Some(name.as_str()), instance].into_iter().flatten() {
            prepare(&machine, name);
            match judged(&person, name).await {
                None => passed += 1,
                Some(why) => {
                    println!("judge: {name}: FAILED: {why}");
                    failed.push(name.to_owned());
                }
            }
        }
    }
    // Once more without what it needs.
    if failed.is_empty() || !failed.contains(&"exec-execsearchpath".to_owned()) {
        let _ = fs::remove_dir_all("/tmp/test-exec_execsearchpath");
        if all.contains_key("exec-execsearchpath") && std::env::var_os(PASSED).is_none() {
            let status = ended(&person, "exec-execsearchpath.service").await.unwrap();
            assert_eq!(status.exit_status, "203");
        }
    }
    println!(
        "judge: {passed} passed, {} failed, {left_out} left out",
        failed.len()
    );
    assert!(failed.is_empty(), "{failed:?}");
    machine.node.stop();
}
