// SPDX-License-Identifier: Apache-2.0
//! What is removed of a unit that is down: its PID file, its folders below /run, and on demand its
//! other folders (systemctl(1), `clean`). What makes them is [`super::folders`].

use std::io;
use std::path::Path;

use units::service::Service;
use units::unit::Unit;
use units::value::Value;

use super::folders::{FOLDERS, PRIVATE, leads_to};

/// Removes what is a service's alone while it runs: its PID file, which would name a process of
/// another service one day.
pub(crate) fn clear_pid_file(service: &Service) {
    if let Some(path) = &service.pid_file
        && let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path, %error, "a PID file stays");
    }
}

/// Removes the folders below /run of a unit that is down.
pub(crate) fn clear(unit: &Unit) {
    if let Err(words) = remove(unit, "RuntimeDirectory", "/run") {
        tracing::warn!(unit = %unit.id, words, "a folder of a unit stays");
    }
}

/// The word of `systemctl clean --what=` for each kind of folder.
fn word(field: &str) -> String {
    field.trim_end_matches("Directory").to_ascii_lowercase()
}

/// The kinds of folders that the unit has: `state`, `cache` and so on.
pub(crate) fn kinds(unit: &Unit) -> Vec<String> {
    let fields = FOLDERS.iter().map(|(field, ..)| *field);
    let has = fields.filter(|it| unit.settings.get(it).is_some());
    has.map(word).collect()
}

/// Removes the folders of these kinds, `all` of them, or where none is named those that are made
/// anew by themselves, of the cache and below /run.
///
/// # Errors
/// Words: a kind that there is none of, or a folder that stays.
pub(crate) fn clean(unit: &Unit, what: &[String]) -> Result<(), String> {
    let known = FOLDERS.map(|(field, ..)| word(field));
    let unknown = what.iter().find(|it| *it != "all" && !known.contains(it));
    if let Some(unknown) = unknown {
        let known = known.join(", ");
        return Err(format!(
            "{unknown} is no kind of folder: there are {known}, all"
        ));
    }
    let wanted = |kind: &str| match what {
        [] => matches!(kind, "cache" | "runtime"),
        what => what.iter().any(|it| it == "all" || it == kind),
    };
    let fields = FOLDERS.iter().filter(|(field, ..)| wanted(&word(field)));
    let mut wrong = Vec::new();
    for (field, base, ..) in fields {
        wrong.extend(remove(unit, field, base).err());
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("; ")),
    }
}

/// Removes the folders that a directive names, those of a dynamic user with the links to them.
fn remove(unit: &Unit, field: &str, base: &str) -> Result<(), String> {
    let Some(Value::Binds(folders)) = unit.settings.get(field) else {
        return Ok(());
    };
    let base = Path::new(base);
    for folder in folders {
        let plain = base.join(&folder.source);
        let private = base.join(PRIVATE).join(&folder.source);
        let removed = match leads_to(&plain, &private) {
            Ok(true) => std::fs::remove_file(&plain).and(std::fs::remove_dir_all(&private)),
            _ => std::fs::remove_dir_all(&plain),
        };
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(format!("{}: {error}", plain.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use units::calendar::zones::UtcOnly;
    use units::name::UnitName;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    use super::*;

    fn unit(text: &str) -> Unit {
        let name = UnitName::parse("a.service").unwrap();
        let text = format!("[Service]\nExecStart=/bin/x\n{text}\n");
        from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly)
    }

    #[test]
    fn folders_of_the_named_kinds_go_and_no_others() {
        let name = format!("aurae-clean-{}", std::process::id());
        let unit = unit(&format!("StateDirectory={name}\nCacheDirectory={name}/in"));
        assert_eq!(kinds(&unit), ["state", "cache"]);
        let (state, cache) = (
            Path::new("/var/lib").join(&name),
            Path::new("/var/cache").join(&name),
        );
        std::fs::create_dir_all(state.join("kept")).unwrap();
        std::fs::create_dir_all(cache.join("in/more")).unwrap();
        assert!(
            clean(&unit, &["other".to_owned()])
                .unwrap_err()
                .contains("state, cache")
        );
        clean(&unit, &[]).unwrap();
        assert!(state.join("kept").exists() && cache.exists() && !cache.join("in").exists());
        clean(&unit, &["state".to_owned()]).unwrap();
        clean(&unit, &["all".to_owned()]).unwrap();
        assert!(!state.exists());
        std::fs::remove_dir(cache).unwrap();
    }
}
