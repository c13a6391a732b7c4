// SPDX-License-Identifier: Apache-2.0
//! Brings what there is of a pod to what its spec says now: its volumes, the content of files, what
//! containers may take. Done again, it changes nothing: the next daemon does it, too, where this
//! one was killed in between.

use std::sync::{Arc, PoisonError};

use model::cell::{self, CellSpec};
use model::error::{Error, Reason};
use model::label::Labels;
use model::object::Kind;
use model::pod::PodSpec;
use model::pod::spec::Container;
use model::request::UpdateCell;
use model::status::Object;
use model::update::Mask;

use super::{CellSandbox, UPDATE_CELL, program};

/// The limits that a container's resources are.
const LIMITS: [&str; 4] = [
    "spec.resources.cpu.quota",
    "spec.resources.cpu.period",
    "spec.resources.cpu.weight",
    "spec.resources.memory.max",
];

impl CellSandbox {
    /// Limits come first: they may be refused, files can't.
    pub(super) async fn settle_now(&self, spec: &PodSpec) -> Result<(), Error> {
        let now = Arc::new(spec.clone());
        *self.spec.write().unwrap_or_else(PoisonError::into_inner) = now.clone();
        for container in spec.all() {
            self.resize(container).await?;
        }
        let volumes = self.volumes.clone();
        let made = tokio::task::spawn_blocking(move || volumes.make(&now)).await;
        made.map_err(|e| Error::internal(e.to_string()))?
    }

    async fn resize(&self, container: &Container) -> Result<(), Error> {
        let path = self.container(&container.name)?;
        let found = self.runtime.seen(&self.tenant, &path);
        let Some(Object::Cell(cell)) = found.as_deref() else {
            return Ok(());
        };
        let resources = program::resources(&container.needs);
        if cell.state.is_final() || cell.spec.resources == resources {
            return Ok(());
        }
        let spec = cell::Draft {
            resources,
            ..cell::Draft::default()
        };
        let request = UpdateCell {
            target: self.target(path.clone(), Some(cell.meta.uid), Kind::Cell),
            spec: spec.try_into()?,
            labels: Labels::default(),
            mask: Mask::new(LIMITS)?,
            expected_generation: None,
        };
        let permit = self.permit(UPDATE_CELL, &path)?;
        match self.runtime.update_cell(permit, request).await {
            // One that ends just now has no limits.
            Err(error) if !matches!(error.reason, Reason::NotFound | Reason::WrongState) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn label_now(&self, labels: &Labels) -> Result<(), Error> {
        let request = UpdateCell {
            target: self.pod(),
            spec: CellSpec::default(),
            labels: labels.clone(),
            mask: Mask::new(["labels"])?,
            expected_generation: None,
        };
        let permit = self.permit(UPDATE_CELL, &self.path)?;
        self.runtime.update_cell(permit, request).await.map(drop)
    }
}
