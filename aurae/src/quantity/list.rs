// SPDX-License-Identifier: Apache-2.0
//! Lists of numbers as the kernel writes CPUs: `0,2-3`.

/// The most numbers in a list.
const MOST: usize = 4096;

/// Parses `0,2-3` into `[0, 2, 3]`.
pub(crate) fn parse_numbers(text: &str) -> Result<Vec<u32>, String> {
    let fail = || "write numbers and ranges as in 0,2-3".to_owned();
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.parse().map_err(|_| fail())?;
        let last: u32 = last.parse().map_err(|_| fail())?;
        if first > last || usize::try_from(last - first).map_or(true, |n| numbers.len() + n >= MOST)
        {
            return Err(fail());
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        assert_eq!(parse_numbers("0,2-3"), Ok(vec![0, 2, 3]));
        for text in ["", "a", "3-2", "0-4294967295", "1,", "-1"] {
            assert!(parse_numbers(text).is_err(), "{text}");
        }
    }
}
