// SPDX-License-Identifier: Apache-2.0
//! Configurations of networks: files of JSON, lists of plugins (`.conflist`) or one alone (`.conf`,
//! `.json`), checked before any plugin sees them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::{Error, Result};

/// The versions that are spoken, newest first.
pub(super) const VERSIONS: [&str; 5] = ["1.1.0", "1.0.0", "0.4.0", "0.3.1", "0.3.0"];

/// A configuration has no reason to be larger, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Files in the folder that are looked at.
const MAX_FILES: usize = 256;
/// Plugins of one network.
const MAX_PLUGINS: usize = 32;

/// A network: what the plugins are told, in their order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Network {
    /// The network's name.
    pub name: String,
    /// The version that is spoken with its plugins.
    pub version: String,
    /// The versions that the file allows, the spoken one among them.
    pub(super) versions: Vec<String>,
    /// Whether the file says not to check interfaces.
    pub disable_check: bool,
    /// Whether the file says not to collect what is of no cell.
    pub disable_gc: bool,
    /// The plugins' own objects.
    pub(super) plugins: Vec<Map<String, Value>>,
}

impl Network {
    /// The plugins' types, in their order.
    pub fn plugins(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().map(type_of)
    }

    pub(super) fn has_capability(&self, name: &str) -> bool {
        let has = |plugin: &Map<String, Value>| {
            let asked = plugin.get("capabilities").and_then(|all| all.get(name));
            asked.and_then(Value::as_bool).unwrap_or(false)
        };
        self.plugins.iter().any(has)
    }

    pub(super) fn collects(&self) -> bool {
        !self.disable_gc && self.collects_or_tells()
    }

    /// Whether the version has the commands `GC` and `STATUS`.
    pub(super) fn collects_or_tells(&self) -> bool {
        self.version == "1.1.0"
    }
}

/// A file that was passed over.
#[derive(Debug)]
pub struct Rejected {
    /// The file that was rejected.
    pub file: PathBuf,
    /// The reason.
    pub error: Error,
}

/// The type of a plugin: its file's name.
pub(super) fn type_of(plugin: &Map<String, Value>) -> &str {
    plugin
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The configurations of a folder, by name. No folder is no configuration.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(Error::io(folder, "listing configurations"))?,
    };
    let mut files = Vec::new();
    for entry in read {
        let path = entry
            .map_err(Error::io(folder, "listing configurations"))?
            .path();
        let kind = path.extension().and_then(|kind| kind.to_str());
        if matches!(kind, Some("conf" | "conflist" | "json")) {
            files.push(path);
        }
    }
    files.sort();
    if files.len() > MAX_FILES {
        let name = folder.display().to_string();
        return Err(Error::configuration(&name, "it has more than 256 files"));
    }
    Ok(files)
}

/// Reads one file.
pub(super) fn read(file: &Path) -> Result<Network> {
    let size = std::fs::metadata(file)
        .map_err(Error::io(file, "reading"))?
        .len();
    let name = file.display().to_string();
    if size > MAX_FILE {
        return Err(Error::configuration(&name, "it is larger than 1 MiB"));
    }
    let bytes = std::fs::read(file).map_err(Error::io(file, "reading"))?;
    let list = file.extension().is_some_and(|kind| kind == "conflist");
    parse(&bytes, list).map_err(|reason| Error::configuration(&name, reason))
}

fn parse(bytes: &[u8], list: bool) -> Result<Network, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let Value::Object(object) = value else {
        return Err("it is no JSON object".to_owned());
    };
    let name = text(&object, "name")?.ok_or("it has no `name`")?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    if !name.bytes().all(plain)
        || !name
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric())
    {
        return Err(format!("`name` {name:?}: letters, digits, _ . and - alone"));
    }
    let versions = versions(&object)?;
    let version = VERSIONS
        .iter()
        .find(|known| versions.iter().any(|v| v == *known));
    let version = version.ok_or_else(|| {
        format!(
            "version {} isn't among {}",
            versions.join(", "),
            VERSIONS.join(", ")
        )
    })?;
    let plugins = if list {
        plugins(&object)?
    } else {
        vec![object.clone()]
    };
    if plugins.is_empty() || plugins.len() > MAX_PLUGINS {
        return Err("`plugins`: 1 to 32".to_owned());
    }
    if let Some(bad) = plugins
        .iter()
        .map(type_of)
        .find(|name| !is_a_file_name(name))
    {
        return Err(format!(
            "`type` {bad:?}: the name of a file in the plugins' folders"
        ));
    }
    Ok(Network {
        name,
        version: (*version).to_owned(),
        versions,
        disable_check: flag(&object, "disableCheck")?,
        disable_gc: flag(&object, "disableGC")?,
        plugins,
    })
}

/// A plugin is found in its folders and nowhere else.
fn is_a_file_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

fn text(object: &Map<String, Value>, field: &str) -> Result<Option<String>, String> {
    match object.get(field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{field}` is no text")),
    }
}

/// Booleans, also as texts: files in use have both.
fn flag(object: &Map<String, Value>, field: &str) -> Result<bool, String> {
    match object.get(field) {
        None => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(Value::String(text)) if text == "true" => Ok(true),
        Some(Value::String(text)) if text == "false" => Ok(false),
        Some(_) => Err(format!("`{field}` is neither true nor false")),
    }
}

/// `cniVersions` (1.1) with `cniVersion`; a file without any means a version that isn't spoken
/// here.
fn versions(object: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut versions: Vec<String> = text(object, "cniVersion")?.into_iter().collect();
    if let Some(more) = object.get("cniVersions") {
        let more = more.as_array().ok_or("`cniVersions` is no list")?;
        let texts = more.iter().filter_map(Value::as_str).map(str::to_owned);
        versions.extend(texts);
    }
    if versions.is_empty() {
        return Err("it has no `cniVersion`".to_owned());
    }
    Ok(versions)
}

fn plugins(object: &Map<String, Value>) -> Result<Vec<Map<String, Value>>, String> {
    let list = object.get("plugins").and_then(Value::as_array);
    list.ok_or("`plugins` is no list")?
        .iter()
        .map(|plugin| match plugin {
            Value::Object(plugin) => Ok(plugin.clone()),
            _ => Err("a plugin is no JSON object".to_owned()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_list_is_read_and_the_newest_common_version_is_taken() {
        let text = br#"{"cniVersion": "0.4.0", "cniVersions": ["1.0.0", "9.0.0"], "name": "a",
            "disableCheck": "true", "plugins": [{"type": "bridge"}, {"type": "tuning"}]}"#;
        let network = parse(text, true).unwrap();
        assert_eq!(network.version, "1.0.0");
        assert!(network.disable_check && !network.disable_gc && !network.collects());
        assert_eq!(network.plugins().collect::<Vec<_>>(), ["bridge", "tuning"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str, list| parse(text.as_bytes(), list).unwrap_err();
        assert!(said("[]", true).contains("no JSON object"));
        assert!(said(r#"{"name": "a"}"#, true).contains("cniVersion"));
        assert!(
            said(
                r#"{"name": "a", "cniVersion": "0.1.0", "type": "x"}"#,
                false
            )
            .contains("0.1.0")
        );
        assert!(
            said(
                r#"{"name": "../a", "cniVersion": "1.0.0", "type": "x"}"#,
                false
            )
            .contains("name")
        );
        let path = r#"{"name": "a", "cniVersion": "1.0.0", "type": "../../bin/sh"}"#;
        assert!(said(path, false).contains("type"));
        assert!(
            said(
                r#"{"name": "a", "cniVersion": "1.0.0", "plugins": []}"#,
                true
            )
            .contains("plugins")
        );
    }

    proptest! {
        #[test]
        fn no_file_is_too_odd(text in "[{}\\[\\]\":,a-z0-9. ]{0,80}") {
            let _ = (parse(text.as_bytes(), true), parse(text.as_bytes(), false));
        }
    }
}
