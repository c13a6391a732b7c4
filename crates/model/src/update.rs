// SPDX-License-Identifier: Apache-2.0
//! Changes of a running cell: a typed mask of fields, and the pure step from the old spec to the
//! new one. A field that can't change while the cell runs is refused by name.

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::cell::{CellSpec, Draft};
use crate::error::{Error, Result};
use crate::label::Labels;
use crate::resources::{Cpu, Io, Memory, Resources};

/// A field that can be changed on a running cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "each is the field of that path; see `PATHS`")]
pub enum Field {
    Labels,
    Mounts,
    CpuQuota,
    CpuPeriod,
    CpuWeight,
    CpuCpus,
    CpuMems,
    MemoryMin,
    MemoryLow,
    MemoryHigh,
    MemoryMax,
    MemorySwapMax,
    PidsMax,
    IoWeight,
    IoMax,
    Hugetlb,
    Unified,
}

const PATHS: [(&str, Field); 17] = [
    ("labels", Field::Labels),
    ("spec.mounts", Field::Mounts),
    ("spec.resources.cpu.quota", Field::CpuQuota),
    ("spec.resources.cpu.period", Field::CpuPeriod),
    ("spec.resources.cpu.weight", Field::CpuWeight),
    ("spec.resources.cpu.cpus", Field::CpuCpus),
    ("spec.resources.cpu.mems", Field::CpuMems),
    ("spec.resources.memory.min", Field::MemoryMin),
    ("spec.resources.memory.low", Field::MemoryLow),
    ("spec.resources.memory.high", Field::MemoryHigh),
    ("spec.resources.memory.max", Field::MemoryMax),
    ("spec.resources.memory.swap_max", Field::MemorySwapMax),
    ("spec.resources.pids_max", Field::PidsMax),
    ("spec.resources.io.weight", Field::IoWeight),
    ("spec.resources.io.max", Field::IoMax),
    ("spec.resources.hugetlb", Field::Hugetlb),
    ("spec.resources.unified", Field::Unified),
];

/// Messages whose path stands for all the fields below it.
const GROUPS: [&str; 4] = [
    "spec.resources",
    "spec.resources.cpu",
    "spec.resources.memory",
    "spec.resources.io",
];

/// Fields of a cell that never change.
const FIXED: [&str; 9] = [
    "spec.light",
    "spec.share",
    "spec.volumes",
    "spec.hostname",
    "spec.id_range",
    "spec.container",
    "spec.sysctls",
    "spec.network",
    "spec",
];

/// The fields of a cell that are to change; at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mask(BTreeSet<Field>);

impl Mask {
    /// The mask of these paths, as in a `google.protobuf.FieldMask`. A message's path stands for
    /// all its fields.
    ///
    /// # Errors
    /// `INVALID_FIELD`, below `update_mask`: there is no path, or one that is no field or that
    /// can't be changed while the cell exists.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut fields = BTreeSet::new();
        for (i, path) in paths.into_iter().enumerate() {
            let at = || format!("update_mask.paths[{i}]");
            if GROUPS.contains(&path) {
                let below = format!("{path}.");
                let inner = PATHS.iter().filter(|(p, _)| p.starts_with(&below));
                fields.extend(inner.map(|(_, field)| *field));
            } else if let Ok(field) = path.parse::<Field>() {
                fields.insert(field);
            } else {
                return Err(refusal(at(), path));
            }
        }
        if fields.is_empty() {
            return Err(Error::invalid("update_mask", "names no field")
                .hint("name what is to change, such as spec.resources.memory.max"));
        }
        Ok(Self(fields))
    }

    /// Whether that field is to change.
    pub fn has(&self, field: Field) -> bool {
        self.0.contains(&field)
    }

    /// All fields of the mask, in the order of their definition.
    pub fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        self.0.iter().copied()
    }

    /// All fields of the mask as paths.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> + '_ {
        let named = PATHS.iter().filter(|(_, field)| self.has(*field));
        named.map(|(path, _)| *path)
    }
}

impl FromStr for Field {
    type Err = Error;

    fn from_str(path: &str) -> Result<Self> {
        let found = PATHS.iter().find(|(p, _)| *p == path);
        found
            .map(|(_, field)| *field)
            .ok_or_else(|| refusal(String::new(), path))
    }
}

fn refusal(at: String, path: &str) -> Error {
    let shown: String = path.chars().take(80).collect();
    if FIXED.contains(&path) {
        let problem = format!("{shown:?} can't be changed while the cell exists");
        return Error::invalid(at, problem).hint("make another cell with it");
    }
    Error::invalid(at, format!("{shown:?} is not a field that can be changed"))
        .hint("give paths such as spec.resources.memory.max, spec.mounts or labels")
}

/// The spec and labels after the change: the masked fields from `new`, the others as they were.
///
/// # Errors
/// `INVALID_FIELD`, below `spec`: the changed spec isn't valid as a whole; below `labels`: with
/// those that the node wrote, they are too many.
pub fn apply(
    mask: &Mask,
    old: (&CellSpec, &Labels),
    new: (&CellSpec, &Labels),
) -> Result<(CellSpec, Labels)> {
    let mut draft = Draft::from(old.0.clone());
    let mut labels = old.1.clone();
    for field in mask.fields() {
        match field {
            Field::Labels => labels = old.1.relabelled(new.1).map_err(|e| e.within("labels"))?,
            Field::Mounts => draft.mounts.clone_from(&new.0.mounts),
            other => copy_resource(other, &mut draft.resources, &new.0.resources),
        }
    }
    // A period goes with its quota.
    if draft.resources.cpu.quota.is_none() {
        draft.resources.cpu.period = None;
    }
    CellSpec::try_from(draft)
        .map(|spec| (spec, labels))
        .map_err(|e| e.within("spec"))
}

fn copy_resource(field: Field, old: &mut Resources, new: &Resources) {
    match field {
        Field::PidsMax => old.pids_max = new.pids_max,
        Field::Hugetlb => old.hugetlb.clone_from(&new.hugetlb),
        Field::Unified => old.unified.clone_from(&new.unified),
        Field::IoWeight | Field::IoMax => copy_io(field, &mut old.io, &new.io),
        other => {
            copy_cpu(other, &mut old.cpu, &new.cpu);
            copy_memory(other, &mut old.memory, &new.memory);
        }
    }
}

fn copy_io(field: Field, old: &mut Io, new: &Io) {
    match field {
        Field::IoWeight => old.weight = new.weight,
        _ => old.max.clone_from(&new.max),
    }
}

fn copy_cpu(field: Field, old: &mut Cpu, new: &Cpu) {
    match field {
        Field::CpuQuota => old.quota = new.quota,
        Field::CpuPeriod => old.period = new.period,
        Field::CpuWeight => old.weight = new.weight,
        Field::CpuCpus => old.cpus.clone_from(&new.cpus),
        Field::CpuMems => old.mems.clone_from(&new.mems),
        _ => {}
    }
}

fn copy_memory(field: Field, old: &mut Memory, new: &Memory) {
    match field {
        Field::MemoryMin => old.min = new.min,
        Field::MemoryLow => old.low = new.low,
        Field::MemoryHigh => old.high = new.high,
        Field::MemoryMax => old.max = new.max,
        Field::MemorySwapMax => old.swap_max = new.swap_max,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(max: u64, weight: u64, hostname: &str) -> CellSpec {
        let mut draft = Draft {
            hostname: hostname.into(),
            ..Default::default()
        };
        draft.resources.memory.max = Some(max);
        draft.resources.cpu.weight = Some(weight);
        draft.try_into().unwrap()
    }

    #[test]
    fn only_what_the_mask_names_changes() {
        let none = Labels::default();
        let mask = Mask::new(["spec.resources.memory"]).unwrap();
        let (after, _) = apply(
            &mask,
            (&spec(1 << 20, 1, "a"), &none),
            (&spec(2 << 20, 2, "b"), &none),
        )
        .unwrap();
        assert_eq!(after, spec(2 << 20, 1, "a"));
    }

    #[test]
    fn a_masked_field_that_is_absent_is_taken_away() {
        let none = Labels::default();
        let mask = Mask::new(["spec.resources"]).unwrap();
        let (after, _) = apply(
            &mask,
            (&spec(1 << 20, 1, "a"), &none),
            (&CellSpec::default(), &none),
        )
        .unwrap();
        assert!(after.resources.is_empty());
        assert_eq!(after.hostname, "a");
    }

    #[test]
    fn fixed_and_unknown_fields_are_refused_by_name() {
        let fixed = Mask::new(["labels", "spec.share"]).unwrap_err();
        assert_eq!(fixed.field.as_deref(), Some("update_mask.paths[1]"));
        assert!(fixed.message.contains("while the cell exists"));
        assert!(Mask::new(["spec.resources.memory.maximum"]).is_err());
        assert!(Mask::new([]).is_err());
    }

    #[test]
    fn every_path_comes_back() {
        let mask = Mask::new(PATHS.iter().map(|(p, _)| *p)).unwrap();
        assert_eq!(mask.paths().count(), PATHS.len());
    }
}
