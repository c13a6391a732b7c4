// SPDX-License-Identifier: Apache-2.0
//! The runtime subsystem: cells and executables.

pub(crate) mod ids;
pub(crate) mod link;
