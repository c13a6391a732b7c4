// SPDX-License-Identifier: Apache-2.0
//! What a schedule runs: the runtime's and pods' own requests, and what has no meaning in them for
//! a run that no client asks for at that moment.

use model::error::{Error, Result, Within};
use model::name::{ObjectPath, Tenant};
use model::request::{RunCell, RunExecutable, WaitFor};
use model::schedule::Work;
use model::schedule::request::Named;
use model::schedule::spec::Program;

use super::config;
use crate::convert::scalar::required;
use crate::convert::{pod, request};
use crate::schedule::v0 as wire;

pub(super) fn work(named: &Named, message: wire::Work) -> Result<Work> {
    use wire::work::Run;
    let given = message.given.into_iter().enumerate();
    let given = given.map(|(i, it)| config::given(it).within(&format!("given[{i}]")));
    let given = given.collect::<Result<Vec<_>>>()?;
    if !given.is_empty() && !matches!(message.run, Some(Run::Pod(_))) {
        return Err(Error::invalid("given", "is for pods alone"));
    }
    let missing = || Error::invalid("", "must have one of `executable`, `cell` and `pod`");
    match message.run.ok_or_else(missing)? {
        Run::Executable(message) => executable(named, message).within("executable"),
        Run::Cell(message) => cell(named, message).within("cell"),
        Run::Pod(message) => {
            without_keys(&message.registry_credentials).within("pod")?;
            let run = pod::run(&named.tenant, message).within("pod")?;
            at(named, &run.tenant, &run.path, 1, "pod").within("pod")?;
            if run.wait_for != model::pod::request::WaitFor::Created {
                return Err(Error::invalid("pod.wait_for", NOBODY));
            }
            Ok(Work::Pod {
                labels: run.labels,
                spec: Box::new(run.spec),
                given,
            })
        }
    }
}

/// Credentials are for one request: what is kept has none.
fn without_keys(keys: &[crate::image::v0::RegistryCredentials]) -> Result<()> {
    match keys {
        [] => Ok(()),
        _ => {
            let problem = "can't be kept: configure those of the registry on the node";
            Err(Error::invalid("registry_credentials", problem))
        }
    }
}

const NOBODY: &str = "has no meaning for runs of a schedule";

fn executable(named: &Named, message: crate::runtime::v0::RunExecutableRequest) -> Result<Work> {
    without_keys(&message.registry_credentials)?;
    let run = request::run_executable(&named.tenant, message)?;
    let cell = run.own_cell.clone().unwrap_or_default();
    Ok(Work::Executable {
        program: Box::new(program(named, run)?),
        cell: Box::new(cell),
    })
}

fn cell(named: &Named, message: wire::CellWork) -> Result<Work> {
    let run = required("cell", message.cell)?;
    without_keys(&run.registry_credentials).within("cell")?;
    let run: RunCell = request::run_cell(&named.tenant, run).within("cell")?;
    at(named, &run.tenant, &run.path, 1, "cell").within("cell")?;
    if run.request_id.is_some() || run.wait_for != WaitFor::Started {
        let field = if run.request_id.is_some() {
            "request_id"
        } else {
            "wait_for"
        };
        return Err(Error::invalid(format!("cell.{field}"), NOBODY));
    }
    let mut programs = Vec::new();
    for (i, message) in message.executables.into_iter().enumerate() {
        let each = || {
            if message.own_cell.is_some() {
                return Err(Error::invalid(
                    "own_cell",
                    "is not for what is in a cell already",
                ));
            }
            without_keys(&message.registry_credentials)?;
            program(named, request::run_executable(&named.tenant, message)?)
        };
        programs.push(each().within(&format!("executables[{i}]"))?);
    }
    Ok(Work::Cell {
        labels: run.labels,
        spec: Box::new(run.spec),
        programs,
    })
}

fn program(named: &Named, run: RunExecutable) -> Result<Program> {
    at(named, &run.tenant, &run.path, 2, "executable")?;
    let meaningless = [
        ("request_id", run.request_id.is_some()),
        ("wait_for", run.wait_for != WaitFor::Started),
        ("attach_follows", run.attach_follows),
    ];
    if let Some((field, _)) = meaningless.iter().find(|(_, given)| *given) {
        return Err(Error::invalid(*field, NOBODY));
    }
    let name = run.path.labels().last().cloned();
    Ok(Program {
        name: name.ok_or_else(|| Error::invalid("executable.ref.path", "is empty"))?,
        labels: run.labels,
        spec: run.spec,
    })
}

/// A path is the schedule's: its name, and with two labels one more.
fn at(named: &Named, tenant: &Tenant, path: &ObjectPath, labels: usize, kind: &str) -> Result<()> {
    if *tenant != named.tenant {
        let problem = format!("is {tenant}, but the schedule is of {}", named.tenant);
        return Err(Error::invalid(format!("{kind}.ref.tenant"), problem));
    }
    let own = path.labels().first() == Some(&named.name);
    if own && path.labels().len() == labels {
        return Ok(());
    }
    let form = match labels {
        1 => named.name.to_string(),
        _ => format!("{}/NAME", named.name),
    };
    let problem = format!("is {path}, but must be {form}: a run's number is added to it");
    Err(Error::invalid(format!("{kind}.ref.path"), problem))
}
