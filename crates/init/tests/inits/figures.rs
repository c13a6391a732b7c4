// SPDX-License-Identifier: Apache-2.0
//! What it costs, beside what the kernel alone costs.

pub(crate) fn measure() {}
