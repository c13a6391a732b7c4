// SPDX-License-Identifier: Apache-2.0
//! Forms that people type by habit and that clap's grammar has no room for: `kill -9 NAME` and
//! `kill -HUP NAME`, as of kill(1). They are rewritten before anything is parsed.

use std::ffi::{OsStr, OsString};

/// Options of every command that take their value as a word of its own.
const WITH_VALUE: [&str; 4] = ["--node", "--tenant", "--timeout", "--color"];

/// The same words in the form that the commands know.
pub(crate) fn rewrite(mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(command) = command(&words) else {
        return words;
    };
    if words.get(command).is_none_or(|word| word != "kill") {
        return words;
    }
    let rest = words.iter().enumerate().skip(command + 1);
    let mut rest = rest.take_while(|(_, word)| *word != "--");
    let signal = rest.find_map(|(at, word)| Some((at, signal_of(word)?.to_owned())));
    if let Some((at, signal)) = signal {
        words.splice(at..=at, ["-s".into(), signal.into()]);
    }
    words
}

/// Where the command stands: the first word that is no option and no option's value.
pub(crate) fn command(words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        let word = words.get(at)?.to_str().unwrap_or_default();
        if !word.starts_with('-') {
            return Some(at);
        }
        at += if WITH_VALUE.contains(&word) { 2 } else { 1 };
    }
}

/// `9` of `-9`, `HUP` of `-HUP`.
fn signal_of(word: &OsStr) -> Option<&str> {
    let signal = word.to_str()?.strip_prefix('-')?;
    let is_number = !signal.is_empty() && signal.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = signal.len() > 1
        && signal
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'+');
    (is_number || is_name).then_some(signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        let words = text.split(' ').map(OsString::from).collect();
        let words: Vec<_> = rewrite(words)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        words.join(" ")
    }

    #[test]
    fn kill_takes_its_signal_as_kill_does() {
        assert_eq!(rewritten("aurae kill -9 web"), "aurae kill -s 9 web");
        assert_eq!(
            rewritten("aurae --node home kill web -HUP"),
            "aurae --node home kill web -s HUP"
        );
        for same in [
            "aurae kill -a web",
            "aurae run -- kill -9 1",
            "aurae",
            "aurae kill -- -9",
        ] {
            assert_eq!(rewritten(same), same);
        }
    }
}
