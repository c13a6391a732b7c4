// SPDX-License-Identifier: Apache-2.0
//! Aurae's nouns and rules: names, workload specifications, lifecycles. Pure: it knows nothing of Linux, of
//! the wire or of time, so that everything here can be tested by calling it. Everybody above `kernel` uses it.

pub mod name;
