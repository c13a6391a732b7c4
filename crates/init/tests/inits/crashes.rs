// SPDX-License-Identifier: Apache-2.0
//! What is left after somebody was killed.

use crate::Story;
use crate::bed::*;

pub(crate) const STORIES: &[Story] = &[];
