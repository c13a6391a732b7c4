// SPDX-License-Identifier: Apache-2.0
//! Integers of a program into those of the wire: whole, within bounds, and never rounded.

use super::{Path, WireError, WireErrorKind};
use crate::value::Value;

/// The greatest integer up to which a `number` is exact, 2^53 - 1.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// An integer of whatever width; `name` says which in errors.
pub(super) fn integer<T: TryFrom<i128>>(
    path: &Path<'_>,
    value: &Value,
    name: &str,
) -> Result<T, WireError> {
    let wide = match value {
        Value::BigInt(number) => *number,
        Value::Number(number) => whole(path, *number)?,
        other => return Err(super::from_value::wrong_type(path, "a number", other)),
    };
    T::try_from(wide).map_err(|_| {
        let message = format!("{wide} is out of range for {name}");
        WireError::new(WireErrorKind::OutOfRange, path, message)
    })
}

fn whole(path: &Path<'_>, number: f64) -> Result<i128, WireError> {
    if !number.is_finite() || number.fract() != 0.0 {
        let message = format!("expected an integer, got {number}");
        return Err(WireError::new(WireErrorKind::WrongType, path, message));
    }
    if number.abs() > SAFE {
        let message = format!("{number} can't be told from its neighbours as a number");
        let error = WireError::new(WireErrorKind::OutOfRange, path, message);
        return Err(error.hint(Some(format!("write it as a bigint: {number}n"))));
    }
    // Exact: checked above.
    Ok(number as i128)
}

/// A number of single precision: rounded to the nearest, but never to infinity.
pub(super) fn float(path: &Path<'_>, number: f64) -> Result<f32, WireError> {
    let narrow = number as f32;
    if narrow.is_infinite() && number.is_finite() {
        let message = format!("{number} is out of range for a number of single precision");
        return Err(WireError::new(WireErrorKind::OutOfRange, path, message));
    }
    Ok(narrow)
}
