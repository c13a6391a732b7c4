// SPDX-License-Identifier: Apache-2.0
//! Files of a volume that tell something of the pod, as Kubernetes' `downwardAPI` does: facts that
//! stay, its labels, and what its containers may take. Variables say it as it was when a program
//! began (`env`); files say it as it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::env::{Fact, Facts};
use super::spec::{Container, Draft};
use super::volume::{Files, Source, Volume};
use crate::error::{Error, Result};
use crate::label;

/// A file that tells something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileFact {
    /// Relative; no other file of the volume has it.
    pub path: String,
    /// What it tells.
    pub from: Said,
}

/// What a file tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// A fact of the pod that doesn't change.
    Fact(Fact),
    /// What that label of the pod says; empty: the pod hasn't got it.
    Label(String),
    /// All labels of the pod.
    Labels,
    /// What a container may take.
    Amount(AmountOf),
}

/// What a container may take.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AmountOf {
    /// Of the pod.
    pub container: String,
    /// One of a container's.
    pub fact: Fact,
    /// What it is divided by, in thousandths of a CPU or bytes. `None`: a CPU, a byte.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub divisor: Option<u64>,
}

/// A file as it is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// What is in it.
    pub text: String,
    /// Its mode.
    pub mode: u32,
}

/// Facts of a pod that neither change nor belong to a container.
const LASTING: [Fact; 4] = [Fact::PodName, Fact::Tenant, Fact::PodUid, Fact::NodeName];

/// Whether a file of that pod may tell it.
pub(super) fn check(pod: &Draft, said: &Said) -> Result<()> {
    match said {
        Said::Labels => Ok(()),
        Said::Label(key) => label::check_key(key).map_err(|error| {
            let problem = error.message.clone();
            Error::invalid("label", problem)
        }),
        Said::Fact(fact) if LASTING.contains(fact) => Ok(()),
        Said::Fact(fact) => {
            let problem = match fact.amount(&Container::default()) {
                Some(_) => "is a container's: say it as `amount`, with the container's name",
                None => "is an address, which may change: a variable (`env`) can tell it",
            };
            Err(Error::invalid("fact", problem))
        }
        Said::Amount(of) => check_amount(pod, of),
    }
}

fn check_amount(pod: &Draft, of: &AmountOf) -> Result<()> {
    if container(pod, &of.container).is_none() {
        let problem = format!("is {:?}, which is no container of the pod", of.container);
        return Err(Error::invalid("amount.container", problem));
    }
    if of.fact.amount(&Container::default()).is_none() {
        let problem = "is none of a container: it must be of its CPU, memory or storage";
        return Err(Error::invalid("amount.fact", problem));
    }
    match of.divisor {
        Some(0) => Err(Error::invalid(
            "amount.divisor",
            "must not be 0: leave it out",
        )),
        _ => Ok(()),
    }
}

fn container<'a>(pod: &'a Draft, name: &str) -> Option<&'a Container> {
    let mut all = pod.init_containers.iter().chain(&pod.containers);
    all.find(|container| container.name == name)
}

/// Whether a volume tells labels of the pod, which may change while it runs.
pub fn tells_labels(volume: &Volume) -> bool {
    match &volume.source {
        Source::Files(files) => {
            let of_labels = |fact: &FileFact| matches!(fact.from, Said::Label(_) | Said::Labels);
            files.facts.iter().any(of_labels)
        }
        Source::Empty(_) | Source::Host(_) => false,
    }
}

/// All files of a volume as they are to be now, by path.
pub fn contents(pod: &Draft, files: &Files, facts: &Facts) -> BTreeMap<String, Content> {
    let texts = files.files.iter();
    let texts = texts.map(|(path, text)| (path, text.clone()));
    let told = files.facts.iter();
    let told = told.map(|fact| (&fact.path, text(pod, &fact.from, facts)));
    let all = texts.chain(told);
    let all = all.map(|(path, text)| {
        let mode = files.mode_of(path);
        (path.clone(), Content { text, mode })
    });
    all.collect()
}

fn text(pod: &Draft, said: &Said, facts: &Facts) -> String {
    match said {
        Said::Fact(fact) => facts.text(*fact, &Container::default()),
        Said::Label(key) => facts.labels.get(key).unwrap_or_default().to_owned(),
        Said::Labels => lines(facts.labels.iter()),
        Said::Amount(of) => {
            let container = container(pod, &of.container);
            let amount = container.and_then(|it| of.fact.amount(it));
            amount.unwrap_or_default().divided(of.divisor).to_string()
        }
    }
}

/// Keys with their texts as Kubernetes writes labels and annotations into a file: ordered, a line
/// `key="text"` each, none after the last.
pub fn lines<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let sorted: BTreeMap<_, _> = pairs.collect();
    let lines = sorted.into_iter();
    let lines = lines.map(|(key, text)| format!("{key}={}", quoted(text)));
    lines.collect::<Vec<_>>().join("\n")
}

/// A text in quotes as Go's `%q` writes it.
fn quoted(text: &str) -> String {
    let mut done = String::from('"');
    for c in text.chars() {
        match c {
            '"' => done.push_str("\\\""),
            '\\' => done.push_str("\\\\"),
            '\x07' => done.push_str("\\a"),
            '\x08' => done.push_str("\\b"),
            '\x0b' => done.push_str("\\v"),
            '\x0c' => done.push_str("\\f"),
            '\n' => done.push_str("\\n"),
            '\r' => done.push_str("\\r"),
            '\t' => done.push_str("\\t"),
            c if c < ' ' || c == '\x7f' => done.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => done.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => done.push(c),
        }
    }
    done.push('"');
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::Labels;
    use crate::pod::spec::Needs;

    fn pod() -> Draft {
        let app = Container {
            name: "app".to_owned(),
            image: "x".to_owned(),
            root_bytes: Some(5000),
            needs: Needs {
                cpu_limit_millis: Some(1500),
                memory_limit_bytes: Some((64 << 20) + 1),
                ..Needs::default()
            },
            ..Container::default()
        };
        Draft {
            containers: vec![app],
            ..Draft::default()
        }
    }

    fn amount(fact: Fact, divisor: Option<u64>) -> Said {
        Said::Amount(AmountOf {
            container: "app".to_owned(),
            fact,
            divisor,
        })
    }

    #[test]
    fn files_tell_facts_labels_and_amounts_as_kubernetes_writes_them() {
        let labels = [("b", "2"), ("a.example/x", "1")];
        let labels = labels.map(|(key, text)| (key.to_owned(), text.to_owned()));
        let facts = Facts {
            pod_name: "web".to_owned(),
            labels: Labels::new(labels.into()).unwrap(),
            ..Facts::default()
        };
        for (said, expected) in [
            (Said::Fact(Fact::PodName), "web"),
            (Said::Label("b".to_owned()), "2"),
            (Said::Label("none".to_owned()), ""),
            (Said::Labels, "a.example/x=\"1\"\nb=\"2\""),
            (amount(Fact::CpuLimit, None), "2"),
            (amount(Fact::CpuLimit, Some(1)), "1500"),
            // Without a request it is the limit.
            (amount(Fact::CpuRequest, Some(100)), "15"),
            (amount(Fact::MemoryLimit, None), "67108865"),
            (amount(Fact::MemoryRequest, Some(1 << 20)), "65"),
            (amount(Fact::StorageLimit, Some(1000)), "5"),
        ] {
            check(&pod(), &said).unwrap();
            assert_eq!(text(&pod(), &said, &facts), expected, "{said:?}");
        }
    }

    #[test]
    fn a_file_has_its_own_mode_or_the_volumes() {
        let fact = |path: &str| FileFact {
            path: path.to_owned(),
            from: Said::Labels,
        };
        let files = Files {
            files: [("text".to_owned(), "1".to_owned())].into(),
            facts: vec![fact("a"), fact("b")],
            mode: Some(0o440),
            modes: [("b".to_owned(), 0o400)].into(),
            ..Files::default()
        };
        let all = contents(&pod(), &files, &Facts::default());
        let modes: Vec<_> = all
            .iter()
            .map(|(path, it)| (path.as_str(), it.mode))
            .collect();
        assert_eq!(modes, [("a", 0o440), ("b", 0o400), ("text", 0o440)]);
    }

    #[test]
    fn what_no_file_can_tell_is_refused_by_its_field() {
        let other = Said::Amount(AmountOf {
            container: "none".to_owned(),
            fact: Fact::CpuLimit,
            divisor: None,
        });
        for (said, field) in [
            (Said::Fact(Fact::PodIp), "fact"),
            (Said::Fact(Fact::CpuLimit), "fact"),
            (Said::Label(String::new()), "label"),
            (other, "amount.container"),
            (amount(Fact::PodName, None), "amount.fact"),
            (amount(Fact::CpuLimit, Some(0)), "amount.divisor"),
        ] {
            let error = check(&pod(), &said).unwrap_err();
            assert_eq!(error.field.as_deref(), Some(field), "{error}");
        }
    }

    #[test]
    fn a_text_is_quoted_as_go_quotes_it() {
        let text = "a \"b\" \\ \n\t\x07\x01\x7f\u{85} é";
        assert_eq!(quoted(text), r#""a \"b\" \\ \n\t\a\x01\x7f\u0085 é""#);
    }
}
