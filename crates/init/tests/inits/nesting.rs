// SPDX-License-Identifier: Apache-2.0
//! Cells in cells, and cells that share.

use crate::Story;
use crate::bed::*;
use init::protocol::*;

pub(crate) const STORIES: &[Story] = &[];
