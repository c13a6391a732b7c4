// SPDX-License-Identifier: Apache-2.0
//! What a run is made of: enough to look at it, stop it and forget it when the spec says something
//! else by then.

use serde::{Deserialize, Serialize};

use super::spec::Work;
use crate::name::Label;

/// What a run is made of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A program of that name, with a cell that goes with it.
    Executable(Label),
    /// A cell with these programs.
    Cell(Vec<Label>),
    /// A pod.
    Pod,
}

impl Shape {
    /// Of the runs that begin now.
    pub fn of(work: &Work) -> Self {
        match work {
            Work::Executable { program, .. } => Self::Executable(program.name.clone()),
            Work::Cell { programs, .. } => {
                Self::Cell(programs.iter().map(|it| it.name.clone()).collect())
            }
            Work::Pod { .. } => Self::Pod,
        }
    }

    /// The programs in the run's cell that say how it goes; none of a pod.
    pub fn programs(&self) -> &[Label] {
        match self {
            Self::Executable(program) => std::slice::from_ref(program),
            Self::Cell(programs) => programs,
            Self::Pod => &[],
        }
    }
}
