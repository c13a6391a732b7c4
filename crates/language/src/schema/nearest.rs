// SPDX-License-Identifier: Apache-2.0
//! "Did you mean": the nearest of a few names. Used wherever a name is refused.

/// The candidate that `word` most likely meant; none where nothing is near. Near is: equal but for
/// case and `_`, or at most a third of the letters (and at least one) mistyped, left out, doubled
/// or swapped.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = simplify(word);
    let allowed = (plain.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&plain, &simplify(candidate), allowed), candidate))
        .filter_map(|(distance, candidate)| Some((distance?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Lower case, without what only separates words.
fn simplify(word: &str) -> Vec<char> {
    let letters = word.chars().filter(|c| !matches!(c, '_' | '-' | '.'));
    letters.flat_map(char::to_lowercase).take(64).collect()
}

/// Damerau's distance (adjacent swaps count one); none above `most`.
fn distance(from: &[char], to: &[char], most: usize) -> Option<usize> {
    if from.len().abs_diff(to.len()) > most {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&above, j) + usize::from(a != b))
                .min(at(&above, j + 1) + 1)
                .min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && from.get(i - 1) == Some(b) && to.get(j - 1) == Some(a);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().filter(|found| *found <= most)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn what_was_meant_is_found_and_nothing_is_made_up() {
        let fields = [
            "argv",
            "env",
            "cwd",
            "stopSignal",
            "stopGrace",
            "oomScoreAdj",
        ];
        assert_eq!(nearest("arvg", fields), Some("argv"));
        assert_eq!(nearest("stop_signal", fields), Some("stopSignal"));
        assert_eq!(nearest("stopgrace", fields), Some("stopGrace"));
        assert_eq!(nearest("oomscore", fields), None);
        assert_eq!(nearest("en", fields), Some("env"));
        assert_eq!(nearest("memory", fields), None);
        assert_eq!(nearest("", fields), None);
    }
}
