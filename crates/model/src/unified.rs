// SPDX-License-Identifier: Apache-2.0
//! Files of cgroup v2 that no field of [`crate::resources::Resources`] is for: by an allow-list,
//! with the value that each has where nothing is limited. What isn't in the list would move
//! processes, hand controllers on, or undo what the node itself has set.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::text::{check_count, check_length, weight};

/// The most files.
pub const MAX_UNIFIED: usize = 16;

/// Files, and what they hold in a new group.
const FILES: [(&str, &str); 9] = [
    ("cpu.idle", "0"),
    ("cpu.max.burst", "0"),
    ("cpu.uclamp.max", "max"),
    ("cpu.uclamp.min", "0"),
    ("io.bfq.weight", "default 100"),
    ("memory.oom.group", "0"),
    ("memory.swap.high", "max"),
    ("memory.zswap.max", "max"),
    ("memory.zswap.writeback", "1"),
];

/// The field that a file has.
const FIELDS: [(&str, &str); 14] = [
    ("cpu.max", "cpu.quota"),
    ("cpu.weight", "cpu.weight"),
    ("cpu.weight.nice", "cpu.weight"),
    ("cpuset.cpus", "cpu.cpus"),
    ("cpuset.mems", "cpu.mems"),
    ("io.max", "io.max"),
    ("io.weight", "io.weight"),
    ("memory.high", "memory.high"),
    ("memory.low", "memory.low"),
    ("memory.max", "memory.max"),
    ("memory.min", "memory.min"),
    ("memory.swap.max", "memory.swap_max"),
    ("pids.max", "pids_max"),
    ("hugetlb", "hugetlb"),
];

/// What a file holds where nothing is limited; `None` for one that can't be set.
pub fn default_of(file: &str) -> Option<&'static str> {
    if has_field(file).is_some() {
        return None;
    }
    let known = FILES.iter().find(|(known, _)| *known == file);
    known
        .map(|(_, value)| *value)
        .or_else(|| reserved_pages(file))
}

/// Whether the kernel refuses other limits because of what this file holds, so that it is lifted
/// before they are changed.
pub fn stands_in_the_way(file: &str) -> bool {
    ["cpu.idle", "cpu.max.burst"].contains(&file)
}

/// `hugetlb.SIZE.rsvd.max`: what is reserved counts, not only what is touched.
fn reserved_pages(file: &str) -> Option<&'static str> {
    let size = file.strip_prefix("hugetlb.")?.strip_suffix(".rsvd.max")?;
    let plain = !size.is_empty() && size.bytes().all(|b| b.is_ascii_alphanumeric());
    plain.then_some("max")
}

fn has_field(file: &str) -> Option<&'static str> {
    let named = FIELDS.iter().find(|(known, _)| *known == file);
    let pages = file.starts_with("hugetlb.") && reserved_pages(file).is_none();
    named
        .map(|(_, field)| *field)
        .or(pages.then_some("hugetlb"))
}

/// What the files take in a record, in bytes.
pub(crate) fn size(files: &BTreeMap<String, String>) -> usize {
    let each = files.iter();
    each.map(|(file, value)| weight(file) + weight(value) + 2)
        .sum()
}

pub(crate) fn check(files: &BTreeMap<String, String>) -> Result<()> {
    check_count("unified", files.len(), MAX_UNIFIED)?;
    for (file, value) in files {
        let shown: String = file.chars().take(80).collect();
        let at = format!("unified[{shown:?}]");
        if let Some(field) = has_field(file) {
            let problem = format!("{file} has a field of its own: {field}");
            return Err(Error::invalid(at, problem).hint(format!("set resources.{field}")));
        }
        if default_of(file).is_none() {
            let known: Vec<_> = FILES.iter().map(|(file, _)| *file).collect();
            let known = known.join(", ");
            return Err(Error::invalid(at, "is no file that can be set")
                .hint(format!("these can: {known}, hugetlb.SIZE.rsvd.max")));
        }
        check_length(&at, value, 256)?;
        if value.is_empty() || value.chars().any(char::is_control) {
            return Err(Error::invalid(at, "must have a value on one line"));
        }
        if file == "cpu.idle" && !["0", "1"].contains(&value.as_str()) {
            return Err(Error::invalid(at, "must be 0 or 1"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_one_of_the_list_and_has_no_field() {
        let refusal = |file: &str, value: &str| {
            let files = [(file.to_owned(), value.to_owned())].into();
            check(&files).map_err(|error| error.message.clone())
        };
        for file in ["cpu.idle", "memory.oom.group", "hugetlb.2MB.rsvd.max"] {
            assert_eq!(refusal(file, "1"), Ok(()), "{file}");
            assert!(default_of(file).is_some());
        }
        for (file, said) in [
            ("memory.max", "memory.max"),
            ("hugetlb.2MB.max", "hugetlb"),
            ("pids.max", "pids_max"),
            ("cgroup.procs", "no file"),
            ("cgroup.freeze", "no file"),
            ("../memory.max", "no file"),
            ("hugetlb./.rsvd.max", "hugetlb"),
        ] {
            let error = refusal(file, "1").unwrap_err();
            assert!(error.contains(said), "{file}: {error}");
            assert_eq!(default_of(file), None, "{file}");
        }
        assert!(refusal("cpu.idle", "").is_err() && refusal("cpu.idle", "1\n2").is_err());
        assert!(refusal("cpu.idle", "0x1").is_err() && refusal("cpu.idle", "0").is_ok());
    }
}
