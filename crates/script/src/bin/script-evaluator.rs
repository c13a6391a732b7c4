// SPDX-License-Identifier: Apache-2.0
//! The evaluator as a program of its own, for this crate's tests; what is shipped is the same role
//! of `aurae`.

use std::process::ExitCode;

fn main() -> ExitCode {
    script::evaluator::main()
}
