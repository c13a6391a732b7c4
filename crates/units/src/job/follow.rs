// SPDX-License-Identifier: Apache-2.0
//! Jobs that no user asks for: a unit that no other needs any more is stopped, one that another one
//! upholds is started again, one that is bound to what has gone is stopped (systemd.unit(5)). Asked
//! whenever a unit or a job is another than before; who asks sees to it that it comes to an end.

use super::{Activity, World};
use crate::depend::Dependency;
use crate::name::UnitName;

/// The units to stop since one has gone down by itself: those bound to it, and those that its stop
/// goes on to (`StopPropagatedFrom=`). Of what is stopped by order they are the transaction's.
pub fn stopped_with(world: &dyn World, gone: &UnitName) -> Vec<UnitName> {
    let bound = world.graph().of_others(gone, Dependency::BindsTo);
    let propagated = world.graph().on(gone, Dependency::PropagatesStopTo);
    let down = !world.activity(gone).is_up();
    let both = bound.into_iter().chain(propagated);
    both.filter(|it| down && world.activity(it) != Activity::Inactive)
        .collect()
}

/// Whether a unit is stopped because no unit needs it (`StopWhenUnneeded=`): it is active, has no
/// job, and whatever requires, wants or upholds it is down and has none either.
pub fn is_unneeded(
    world: &dyn World,
    unit: &UnitName,
    has_job: &dyn Fn(&UnitName) -> bool,
) -> bool {
    use Dependency::{BindsTo, Requires, Requisite, Upholds, Wants};
    if !world.stops_when_unneeded(unit) || !world.activity(unit).is_active() || has_job(unit) {
        return false;
    }
    let kinds = [Requires, Requisite, Wants, BindsTo, Upholds];
    let others = kinds
        .into_iter()
        .flat_map(|kind| world.graph().of_others(unit, kind));
    let mut needing = others.filter(|it| has_job(it) || world.activity(it).is_up());
    needing.next().is_none()
}

/// The units that this one upholds and that are down, with nothing under way (`Upholds=`).
pub fn fallen(
    world: &dyn World,
    unit: &UnitName,
    has_job: &dyn Fn(&UnitName) -> bool,
) -> Vec<UnitName> {
    if !world.activity(unit).is_active() || has_job(unit) {
        return Vec::new();
    }
    let upheld = world.graph().on(unit, Dependency::Upholds);
    let is_down = |it: &UnitName| {
        matches!(world.activity(it), Activity::Inactive | Activity::Failed) && !has_job(it)
    };
    upheld.into_iter().filter(is_down).collect()
}
