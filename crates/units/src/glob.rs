// SPDX-License-Identifier: Apache-2.0
//! Shell patterns as fnmatch(3) has them without flags but no escapes: `*`, `?`, `[a-z]`, `[!a]`.
//! Presets and a few conditions use them.

/// Whether a pattern has a character that isn't taken literally.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether the whole text is as the pattern says.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last star doesn't match: one character more for it.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let step = match (pattern.get(p), text.get(t)) {
            (Some('*'), _) => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            (Some('?'), Some(_)) => Some(p + 1),
            (Some('['), Some(c)) => match class(&pattern, p, *c) {
                Some((true, end)) => Some(end),
                Some((false, _)) => None,
                None => (*c == '[').then_some(p + 1),
            },
            (Some(same), Some(c)) if same == c => Some(p + 1),
            _ => None,
        };
        match (step, star) {
            (Some(next), _) => (p, t) = (next, t + 1),
            (None, Some((after, taken))) => {
                (p, t) = (after, taken + 1);
                star = Some((after, taken + 1));
            }
            (None, None) => return false,
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

/// Whether `c` is in the class that begins at `start`, and where it ends. `None`: it has no end.
fn class(pattern: &[char], start: usize, c: char) -> Option<(bool, usize)> {
    let mut at = start + 1;
    let negated = matches!(pattern.get(at), Some('!' | '^'));
    at += usize::from(negated);
    let first = at;
    let mut found = false;
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && at > first {
            return Some((found != negated, at + 1));
        }
        let range = pattern.get(at + 1) == Some(&'-');
        match pattern.get(at + 2) {
            Some(high) if range && *high != ']' => {
                found |= (low..=*high).contains(&c);
                at += 3;
            }
            _ => {
                found |= low == c;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*.service", "ssh.service", true),
            ("*.service", "ssh.socket", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("systemd-*@*.service", "systemd-x@y.service", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = "*a".repeat(40);
        assert!(!matches(&format!("{pattern}b"), &"a".repeat(2000)));
    }
}
