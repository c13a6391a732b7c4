// SPDX-License-Identifier: Apache-2.0
//! Brings what there is of a pod to what its spec says now: its volumes, the content of files, what
//! containers may take. Done again, it changes nothing: the next daemon does it, too, where this
//! one was killed in between.

use std::sync::{Arc, MutexGuard, PoisonError};

use model::cell::{self, CellSpec};
use model::error::{Error, Reason};
use model::label::Labels;
use model::object::Kind;
use model::pod::spec::Container;
use model::pod::{PodSpec, told};
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
        self.make_volumes(now).await
    }

    async fn make_volumes(&self, spec: Arc<PodSpec>) -> Result<(), Error> {
        let (volumes, facts) = (self.volumes.clone(), self.around().facts);
        let labels = facts.labels.clone();
        let made = tokio::task::spawn_blocking(move || volumes.make(&spec, &facts)).await;
        made.map_err(|e| Error::internal(e.to_string()))??;
        *self.told() = Some(labels);
        Ok(())
    }

    /// The labels that files tell.
    fn told(&self) -> MutexGuard<'_, Option<Labels>> {
        // Nothing panics while it is held.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod's labels may be changed at its cell, too, of which its task isn't told.
    pub(super) async fn tell_now(&self) -> Result<(), Error> {
        let spec = self.spec();
        if !spec.volumes.iter().any(told::tells_labels) {
            return Ok(());
        }
        let Some(pod) = self.runtime.seen(&self.tenant, &self.path) else {
            return Ok(());
        };
        let is_told = self.told().as_ref() == Some(&pod.meta().labels.told());
        match is_told {
            true => Ok(()),
            false => self.make_volumes(spec).await,
        }
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
