// SPDX-License-Identifier: Apache-2.0
//! What a unit's end, its failure, or that of a job does to the machine (systemd.unit(5),
//! `FailureAction=`, `SuccessAction=`, `StartLimitAction=`, `JobTimeoutAction=`). Done where the
//! daemon's init is the machine's; elsewhere it is said, in the log and in the unit's status.

use std::time::Duration;

use runtime::PowerMode;
use units::name::UnitName;

use super::{Happened, Manager};

/// What is asked of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wished {
    mode: PowerMode,
    /// Without giving anything the time to end.
    at_once: bool,
}

/// What a word of the directives asks for; `None`: nothing. `exit` ends a service manager; the
/// machine's is the machine.
fn wished(word: &str) -> Option<Wished> {
    let (mode, at_once) = match word {
        "reboot" => (PowerMode::Reboot, false),
        "reboot-force" | "reboot-immediate" => (PowerMode::Reboot, true),
        "poweroff" | "exit" => (PowerMode::PowerOff, false),
        "poweroff-force" | "poweroff-immediate" | "exit-force" => (PowerMode::PowerOff, true),
        _ => return None,
    };
    Some(Wished { mode, at_once })
}

impl Manager {
    /// Does what a directive of a unit asks for now.
    pub(super) fn act(&mut self, unit: &UnitName, field: &'static str) {
        let loaded = self.known.table.find(unit);
        let word = loaded.and_then(|it| it.unit.settings.word(field));
        let Some((word, wished)) = word.and_then(|word| Some((word, wished(word)?))) else {
            return;
        };
        if !self.is_machine {
            tracing::warn!(%unit, field, word, "not done: this node's init is not the machine's");
            let live = self.known.live_mut(unit);
            let words =
                format!("{field}={word} was not done: this node's init is not the machine's");
            live.words = match live.words.is_empty() {
                true => words,
                false => format!("{}; {words}", live.words),
            };
            self.dirty.insert(unit.clone());
            return;
        }
        tracing::error!(%unit, field, word, "the machine goes down, as the unit asks for");
        let init = self.runs.runtime.node_init().clone();
        let bound = wished.at_once.then_some(Duration::ZERO);
        self.jobs.spawn(async move {
            init.shutdown(wished.mode, bound).await;
            Happened::Nothing
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_manual() {
        // systemd.unit(5), FailureAction=.
        let all = [
            ("none", None),
            ("reboot", Some((PowerMode::Reboot, false))),
            ("reboot-force", Some((PowerMode::Reboot, true))),
            ("reboot-immediate", Some((PowerMode::Reboot, true))),
            ("poweroff", Some((PowerMode::PowerOff, false))),
            ("poweroff-force", Some((PowerMode::PowerOff, true))),
            ("poweroff-immediate", Some((PowerMode::PowerOff, true))),
            ("exit", Some((PowerMode::PowerOff, false))),
            ("exit-force", Some((PowerMode::PowerOff, true))),
        ];
        for (word, expected) in all {
            let got = wished(word).map(|it| (it.mode, it.at_once));
            assert_eq!(got, expected, "{word}");
        }
    }
}
