// SPDX-License-Identifier: Apache-2.0
//! Devices by the names of the Container Device Interface: `vendor.com/class=name` is what a file
//! of the node's administrator says of it, nodes below `/dev`, folders, and variables (CDI
//! Specification 0.8; the folders are `runtime.cdi` of the configuration). Files are JSON or YAML
//! (`.json`, `.yaml`); a later folder's device is taken before an earlier one's, and two of one
//! folder are a mistake.
//!
//! What can't be had in a cell is refused by its name. All folders that a device brings are
//! read-only.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::cell::{Access, Mount, Propagation};
use model::device::Device;
use model::error::{Error, Reason};
use model::hook::{Hook, Moment};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest file that is read, in bytes, and the most files of a folder.
const MOST_BYTES: u64 = 1 << 20;
const MOST_FILES: usize = 1024;
/// What helps against a file that is wrong.
const MEND: &str = "the node's administrator has to mend that file";
/// What a device may bring in all.
const MOST_EDITS: usize = 128;

/// What a device is, by its file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Edits {
    pub(crate) devices: Vec<Device>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) hooks: Vec<Hook>,
}

/// A file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    cdi_version: String,
    kind: String,
    #[serde(default)]
    devices: Vec<Named>,
    #[serde(default)]
    container_edits: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    name: String,
    #[serde(default)]
    container_edits: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Node {
    path: String,
    host_path: String,
    permissions: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Called {
    hook_name: String,
    path: String,
    args: Vec<String>,
    env: Vec<String>,
    /// In seconds.
    timeout: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Folder {
    host_path: String,
    container_path: String,
    options: Vec<String>,
}

/// What the node's files say of a device. Blocks.
///
/// # Errors
/// `INVALID_FIELD`: no file has it, or two of a folder do; a file can't be read.
/// `UNSUPPORTED`: it needs what a cell can't have.
pub(crate) fn resolve(folders: &[PathBuf], name: &str) -> Result<Edits, Error> {
    let (kind, of_kind) = name.split_once('=').unwrap_or((name, ""));
    for folder in folders.iter().rev() {
        let mut found: Option<(PathBuf, Edits)> = None;
        for file in files(folder)? {
            let Some(edits) = device_of(&file, kind, of_kind)? else {
                continue;
            };
            if let Some((other, _)) = &found {
                let (one, other) = (file.display(), other.display());
                let problem = format!("{name} is in {other} and in {one}");
                return Err(Error::invalid("", problem).hint("have one file say what it is"));
            }
            found = Some((file, edits));
        }
        if let Some((_, edits)) = found {
            return Ok(edits);
        }
    }
    let all: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
    let problem = format!("no file of {} has the device {name}", all.join(", "));
    Err(Error::invalid("", problem).hint("its vendor's program makes one"))
}

/// The files of a folder, which may not be there.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let wrong = |error: std::io::Error| unreadable(folder, &error.to_string());
    let entries = match folder.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong(error)),
    };
    let mut files = Vec::new();
    for entry in entries.take(MOST_FILES) {
        let path = entry.map_err(wrong)?.path();
        if path
            .extension()
            .is_some_and(|it| it == "json" || it == "yaml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, problem: &str) -> Error {
    let message = format!("{} can't be read: {problem}", path.display());
    Error::new(Reason::Degraded, message).hint(MEND)
}

/// What a file says of a device; `None` where it has no such.
fn device_of(file: &Path, kind: &str, name: &str) -> Result<Option<Edits>, Error> {
    let mut text = String::new();
    let opened = File::open(file).and_then(|opened| match opened.metadata()?.is_file() {
        true => opened.take(MOST_BYTES).read_to_string(&mut text),
        false => Err(std::io::Error::other("it is no file")),
    });
    opened.map_err(|error| unreadable(file, &error.to_string()))?;
    // Each JSON text is one of YAML's, too.
    let spec: Spec =
        serde_yaml_ng::from_str(&text).map_err(|error| unreadable(file, &error.to_string()))?;
    if spec.cdi_version.is_empty() {
        return Err(unreadable(file, "it has no cdiVersion"));
    }
    if spec.kind != kind {
        return Ok(None);
    }
    let Some(device) = spec.devices.into_iter().find(|it| it.name == name) else {
        return Ok(None);
    };
    let mut edits = Edits::default();
    for part in [&spec.container_edits, &device.container_edits] {
        edits.take(part).map_err(|error| {
            let message = format!("{kind}={name} of {}: {}", file.display(), error.message);
            let hint = error.hint.clone().unwrap_or_default();
            Error::new(error.reason, message).hint(hint)
        })?;
    }
    Ok(Some(edits))
}

impl Edits {
    fn take(&mut self, part: &Map<String, Value>) -> Result<(), Error> {
        for (key, value) in part {
            let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            match key.as_str() {
                _ if is_empty => {}
                "env" => self
                    .env
                    .extend(variables(&read::<Vec<String>>(key, value)?)?),
                "deviceNodes" => self.nodes(read(key, value)?)?,
                "mounts" => self.folders(read(key, value)?)?,
                "hooks" => self.hooks(read(key, value)?)?,
                other => return Err(impossible(other)),
            }
        }
        let parts = [self.devices.len(), self.mounts.len(), self.env.len()];
        let count = parts.iter().sum::<usize>() + self.hooks.len();
        match count > MOST_EDITS {
            true => Err(impossible(&format!("more than {MOST_EDITS} edits"))),
            false => Ok(()),
        }
    }

    fn hooks(&mut self, all: Vec<Called>) -> Result<(), Error> {
        for called in all {
            let Some(moment) = Moment::named(&called.hook_name) else {
                return Err(impossible(&format!("a hook {:?}", called.hook_name)));
            };
            let hook = Hook {
                argv: called.args,
                env: variables(&called.env)?.into_iter().collect(),
                timeout: called.timeout.map(Duration::from_secs),
                ..Hook::new(moment, called.path)
            };
            hook.check().map_err(|error| {
                let problem = format!("its hook {}: {}", called.hook_name, error.message);
                Error::invalid("", problem).hint(MEND)
            })?;
            self.hooks.push(hook);
        }
        Ok(())
    }

    fn nodes(&mut self, all: Vec<Node>) -> Result<(), Error> {
        for node in all {
            let on_the_node = match node.host_path.is_empty() {
                true => &node.path,
                false => &node.host_path,
            };
            let device = Device {
                path: real(on_the_node)?,
                target: node.path,
                access: node.permissions,
            };
            device.check().map_err(|error| {
                let problem = format!("its node {}: {}", device.target, error.message);
                Error::invalid("", problem).hint(MEND)
            })?;
            self.devices.push(device);
        }
        Ok(())
    }

    fn folders(&mut self, all: Vec<Folder>) -> Result<(), Error> {
        for folder in all {
            if folder.options.iter().any(|option| option == "rw") {
                let path = &folder.host_path;
                return Err(impossible(&format!("{path} for writing")));
            }
            self.mounts.push(Mount {
                source: real(&folder.host_path)?,
                target: folder.container_path,
                access: Access::Read,
                owner_uid: None,
                owner_gid: None,
                allow_root_owner: false,
                propagation: Propagation::None,
            });
        }
        Ok(())
    }
}

fn variables(all: &[String]) -> Result<Vec<(String, String)>, Error> {
    let variable = |pair: &String| match pair.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => {
            let problem = format!("its variable {pair:?} isn't NAME=VALUE");
            Err(Error::invalid("", problem).hint(MEND))
        }
    };
    all.iter().map(variable).collect()
}

fn read<'a, T: Deserialize<'a>>(key: &str, value: &'a Value) -> Result<T, Error> {
    T::deserialize(value)
        .map_err(|error| Error::invalid("", format!("its {key}: {error}")).hint(MEND))
}

/// Where a path leads: the file is the administrator's, so its links are, too.
fn real(path: &str) -> Result<String, Error> {
    let real = std::fs::canonicalize(path);
    let wrong = |problem: String| Error::invalid("", format!("{path} {problem}")).hint(MEND);
    let real = real.map_err(|error| wrong(format!("can't be found: {error}")))?;
    let text = real.to_str().map(str::to_owned);
    text.ok_or_else(|| wrong("leads to a path that isn't UTF-8".to_owned()))
}

fn impossible(what: &str) -> Error {
    let message = format!("it wants {what}; a cell can't have that");
    Error::new(Reason::Unsupported, message)
        .hint("have its file made without, or give its nodes by --device /dev/…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, name: &str, spec: &str) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join(name), spec).unwrap();
    }

    const FUSE: &str = r#"{"cdiVersion": "0.6.0", "kind": "example.com/disk",
        "containerEdits": {"env": ["DISK=yes", "A=b=c"]},
        "devices": [
          {"name": "one", "containerEdits": {
             "deviceNodes": [{"path": "/dev/one", "hostPath": "/dev/null", "permissions": "r"}],
             "mounts": [{"hostPath": "/etc", "containerPath": "/opt/etc",
                         "options": ["ro", "bind"]}], "hooks": [
               {"hookName": "createContainer", "path": "/bin/true", "args": ["true", "-x"],
                "env": ["A=b=c"], "timeout": 3}]}},
          {"name": "hooked", "containerEdits": {"hooks": [{"hookName": "someday",
             "path": "/bin/true"}]}},
          {"name": "written", "containerEdits": {"mounts": [{"hostPath": "/etc",
             "containerPath": "/x", "options": ["rw"]}]}},
          {"name": "missing", "containerEdits": {"deviceNodes": [{"path": "/dev/no/such"}]}},
          {"name": "groups", "containerEdits": {"additionalGids": [7]}}]}"#;

    #[test]
    fn a_device_is_what_its_file_says() {
        let dir = tempfile::tempdir().unwrap();
        let folders = [dir.path().join("etc"), dir.path().join("run")];
        put(&folders[0], "disk.json", FUSE);
        let edits = resolve(&folders, "example.com/disk=one").unwrap();
        let device = &edits.devices[0];
        assert_eq!(
            (&*device.path, &*device.target, &*device.access),
            ("/dev/null", "/dev/one", "r")
        );
        assert_eq!(edits.mounts[0].target, "/opt/etc");
        assert_eq!(edits.mounts[0].access, Access::Read);
        let hook = &edits.hooks[0];
        assert_eq!(
            (hook.moment, &*hook.path),
            (Moment::CreateContainer, "/bin/true")
        );
        assert_eq!((&*hook.argv[1], &*hook.env["A"]), ("-x", "b=c"));
        assert_eq!(hook.timeout, Some(Duration::from_secs(3)));
        let pairs = [("DISK", "yes"), ("A", "b=c")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(edits.env, pairs);
        for (name, reason, word) in [
            ("hooked", Reason::Unsupported, "someday"),
            ("written", Reason::Unsupported, "for writing"),
            ("groups", Reason::Unsupported, "additionalGids"),
            ("missing", Reason::InvalidField, "/dev/no/such"),
            ("other", Reason::InvalidField, "no file"),
        ] {
            let error = resolve(&folders, &format!("example.com/disk={name}")).unwrap_err();
            assert_eq!(error.reason, reason, "{error}");
            assert!(error.message.contains(word), "{}", error.message);
        }
        // The later folder's counts, and two of one folder are a mistake.
        let other = r#"{"cdiVersion": "0.6.0", "kind": "example.com/disk", "devices":
            [{"name": "one", "containerEdits": {"env": ["LATER=yes"]}}]}"#;
        put(&folders[1], "a.json", other);
        let edits = resolve(&folders, "example.com/disk=one").unwrap();
        assert_eq!(edits.env, [("LATER".to_owned(), "yes".to_owned())]);
        put(&folders[1], "b.json", other);
        let error = resolve(&folders, "example.com/disk=one").unwrap_err();
        assert!(error.message.contains("b.json"), "{}", error.message);
        let yaml = "cdiVersion: 0.6.0\nkind: example.com/disk\ndevices:\n- name: yaml\n  \
                    containerEdits:\n    env: [\"FROM=yaml\"]\n    deviceNodes:\n    \
                    - {path: /dev/y, hostPath: /dev/null}\n";
        put(&folders[1], "y.yaml", yaml);
        put(&folders[1], "none.txt", "{");
        let edits = resolve(&folders, "example.com/disk=yaml").unwrap();
        assert_eq!(edits.devices[0].target, "/dev/y");
        assert_eq!(edits.env, [("FROM".to_owned(), "yaml".to_owned())]);
        // An alias for an alias, and so on: what it stands for is never written out.
        let bomb = (1..40).fold("a0: &a0 [x,x]\n".to_owned(), |text, n| {
            format!("{text}a{n}: &a{n} [*a{0},*a{0},*a{0}]\n", n - 1)
        });
        put(&folders[1], "bomb.yaml", &bomb);
        let error = resolve(&folders, "example.com/disk=two").unwrap_err();
        assert_eq!(error.reason, Reason::Degraded, "{error}");
        std::fs::remove_file(folders[1].join("bomb.yaml")).unwrap();
        put(&folders[1], "c.json", "{");
        let error = resolve(&folders, "example.com/disk=two").unwrap_err();
        assert_eq!(error.reason, Reason::Degraded);
    }
}
