// SPDX-License-Identifier: Apache-2.0
//! `set-property`: settings that a unit is given while it is there. The node keeps them as drop-ins
//! in the folders of systemctl's (systemctl(1)), which `revert` empties. Limits hold for what runs
//! at once; other settings when it is started anew.

use api::schedule::v0::{SetUnitPropertiesRequest, UnitSetting};

use super::args::Options;
use super::too_few;
use crate::failure::Failure;
use crate::output::printable;
use crate::session::is_not_found;
use crate::systemd::node::{LONGEST, Node, whole};

pub(super) async fn set(node: &Node, options: &Options, words: &[String]) -> Result<u8, Failure> {
    let Some((unit, assignments)) = words.split_first().filter(|(_, all)| !all.is_empty()) else {
        return Err(too_few("set-property"));
    };
    let unit = whole(unit)?;
    let settings = assignments.iter().map(|it| setting(it));
    let request = SetUnitPropertiesRequest {
        name: unit.clone(),
        settings: settings.collect::<Result<_, _>>()?,
        runtime: options.runtime,
    };
    let request = node.session.node.within(request, LONGEST);
    let set = node.units().set_unit_properties(request).await;
    set.map_err(|status| {
        let error = client::Error::from(status);
        let why = match is_not_found(&error) {
            true => format!("Unit {unit} not found."),
            false => Failure::from(error).message().to_owned(),
        };
        let unit = printable(&unit);
        Failure::new(format!("Failed to set unit properties on {unit}: {why}"))
    })?;
    Ok(0)
}

fn setting(assignment: &str) -> Result<UnitSetting, Failure> {
    let (name, value) = assignment
        .split_once('=')
        .ok_or_else(|| Failure::new(format!("Not an assignment: {assignment}")))?;
    Ok(UnitSetting {
        name: name.to_owned(),
        value: value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_an_assignment() {
        let made = setting("IPAddressAllow=10.0.0.1 10.0.0.2=x").unwrap();
        assert_eq!(made.name, "IPAddressAllow");
        assert_eq!(made.value, "10.0.0.1 10.0.0.2=x");
        assert!(setting("MemoryMax").is_err());
    }
}
