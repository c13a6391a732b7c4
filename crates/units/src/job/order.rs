// SPDX-License-Identifier: Apache-2.0
//! Which of two jobs on ordered units waits for the other.

use super::JobType;
use crate::depend::{Dependency, Graph};
use crate::name::UnitName;

/// Given that the first unit is ordered before the second: whether the first one's job waits. A
/// stop of the later unit comes first, whatever is done to the earlier one; in all other cases the
/// order is the units'.
pub(super) const fn earlier_waits(later: JobType) -> bool {
    matches!(later, JobType::Stop | JobType::Restart)
}

/// The units for whose jobs the job of a unit waits. `job` says which job a unit has.
pub(super) fn awaited(
    graph: &Graph,
    unit: &UnitName,
    own: JobType,
    job: &dyn Fn(&UnitName) -> Option<JobType>,
) -> Vec<UnitName> {
    let mut found = Vec::new();
    if !earlier_waits(own) {
        let earlier = graph.on(unit, Dependency::After);
        found.extend(earlier.into_iter().filter(|it| job(it).is_some()));
    }
    let later = graph.on(unit, Dependency::Before);
    found.extend(
        later
            .into_iter()
            .filter(|it| job(it).is_some_and(earlier_waits)),
    );
    found
}
