// SPDX-License-Identifier: Apache-2.0
//! Units that a call makes, and scopes of processes that are there.

use schedule::unit::Transient;
use units::name::UnitType;
use zbus::OwnedVariant;

use super::units::api_words::TRANSIENT;
use super::{Call, jobs, text, unit};
use crate::error::Failure;
use crate::serve::Answer;

type Properties = Vec<(String, OwnedVariant)>;

impl Call<'_> {
    pub(super) async fn start_transient(&self) -> Answer {
        type Arguments = (String, String, Properties, Vec<(String, Properties)>);
        let (name, mode, properties, beside): Arguments = self.arguments()?;
        let permit = self.service.permit(self.caller, TRANSIENT, &name).await?;
        let name = unit(&name)?;
        let asked = text::of(name.kind(), &properties)?;
        let units = &self.service.units;
        if name.kind() == UnitType::Scope {
            if !beside.is_empty() {
                return Err(Failure::unsupported("a scope has no units beside it"));
            }
            let mode = jobs::mode(&mode)?;
            let done = units.start_scope(&permit, name, asked.text, asked.processes, mode);
            return self.job_of(done.await?);
        }
        if !asked.processes.is_empty() {
            return Err(Failure::unsupported("a scope alone begins with processes"));
        }
        let draft = match beside.as_slice() {
            [] => Transient {
                unit: name,
                text: asked.text,
                starter: None,
            },
            // systemd-run(1), systemd-mount(1): the timer, socket, path or automount is asked for,
            // with what it starts.
            [(started, properties)] => {
                let started = unit(started)?;
                if started.stem() != name.stem() {
                    let words = "what is started has the name of what starts it";
                    return Err(Failure::unsupported(words));
                }
                let properties: Properties = properties.clone();
                Transient {
                    text: text::of(started.kind(), &properties)?.text,
                    unit: started,
                    starter: Some((name.kind(), asked.text)),
                }
            }
            _ => {
                return Err(Failure::unsupported(
                    "units beside the one are not made here",
                ));
            }
        };
        self.job_of(units.start_transient(&permit, draft, false).await?)
    }
}
