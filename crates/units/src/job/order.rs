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
pub(super) fn awaited<'a>(
    graph: &'a Graph,
    unit: &UnitName,
    own: JobType,
    job: &'a dyn Fn(&UnitName) -> Option<JobType>,
) -> impl Iterator<Item = &'a UnitName> + use<'a> {
    let earlier = (!earlier_waits(own)).then(|| graph.each_on(unit, Dependency::After));
    let earlier = earlier.into_iter().flatten();
    let later = graph.each_on(unit, Dependency::Before);
    let earlier = earlier.filter(|it| job(it).is_some());
    earlier.chain(later.filter(|it| job(it).is_some_and(earlier_waits)))
}
