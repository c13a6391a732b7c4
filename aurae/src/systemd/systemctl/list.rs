// SPDX-License-Identifier: Apache-2.0
//! Verbs that list: units, unit files, timers, sockets, jobs. The columns and the lines behind them
//! are systemctl's; with `-o json` they are its objects.

use api::schedule::v0::UnitStatus;
use serde_json::{Value, json};
use units::glob;
use units::name::UnitName;

use super::args::Options;
use super::plural;
use super::properties::directives;
use crate::failure::Failure;
use crate::output::{print, print_line};
use crate::systemd::node::{Node, whole};
use crate::systemd::time;
use crate::systemd::unitfiles::Files;
use crate::systemd::words::{Columns, dot};

/// Prints a list as JSON, where that is asked for.
fn as_json(options: &Options, rows: &[Value]) -> Result<bool, Failure> {
    let Some(pretty) = options.json() else {
        return Ok(false);
    };
    let text = match pretty {
        true => serde_json::to_string_pretty(rows),
        false => serde_json::to_string(rows),
    };
    let text = text.map_err(|problem| Failure::new(problem.to_string()))?;
    print_line(&text)?;
    Ok(true)
}

/// The units that patterns, types and states leave; without a pattern, a state or `-a` those that
/// systemctl counts as in memory and of interest.
async fn chosen(
    node: &Node,
    options: &Options,
    words: &[String],
) -> Result<Vec<UnitStatus>, Failure> {
    let patterns = words
        .iter()
        .map(|it| whole(it))
        .collect::<Result<Vec<_>, _>>()?;
    let states = options.wanted_states();
    let mut units = node.list(false).await?;
    units.retain(|it| {
        let kind = it.name.rsplit_once('.').map_or("", |it| it.1);
        let of_kind = options.kinds.is_empty()
            || options
                .kinds
                .iter()
                .any(|word| word == kind || *word == it.load);
        let named = patterns.is_empty() || patterns.iter().any(|p| glob::matches(p, &it.name));
        let own = [it.load.as_str(), it.active.as_str(), it.sub.as_str()];
        let in_state = match states.is_empty() {
            true => options.all || !patterns.is_empty() || is_of_interest(it),
            false => states.iter().any(|state| own.contains(state)),
        };
        of_kind && named && in_state
    });
    Ok(units)
}

fn is_of_interest(unit: &UnitStatus) -> bool {
    unit.active != "inactive" || unit.job_id != 0
}

/// `list-units`.
pub(super) async fn units(node: &Node, options: &Options, words: &[String]) -> Result<u8, Failure> {
    let units = chosen(node, options, words).await?;
    let object = |it: &UnitStatus| {
        json!({"unit": it.name, "load": it.load, "active": it.active, "sub": it.sub,
               "description": described(it)})
    };
    if as_json(options, &units.iter().map(object).collect::<Vec<_>>())? {
        return Ok(0);
    }
    let has_jobs = units.iter().any(|it| it.job_id != 0);
    let mut heading = vec!["UNIT", "LOAD", "ACTIVE", "SUB"];
    if has_jobs {
        heading.push("JOB");
    }
    heading.push("DESCRIPTION");
    let mut list = Columns::new(&heading);
    for unit in &units {
        let mut row = vec![&unit.name, &unit.load, &unit.active, &unit.sub];
        if has_jobs {
            row.push(&unit.job_kind);
        }
        let mut row: Vec<String> = row.into_iter().cloned().collect();
        row.push(described(unit).to_owned());
        let marked = unit.active == "failed" || !matches!(unit.load.as_str(), "loaded" | "masked");
        list.push(marked.then_some("●"), row);
    }
    print(&list.render(options.has_legend(), !options.plain))?;
    if !options.has_legend() {
        return Ok(0);
    }
    if list.len() > 0 {
        print(LEGEND)?;
        if has_jobs {
            print_line("JOB    = Pending job for the unit.")?;
        }
        print_line("")?;
    }
    let count = format!("{} loaded units listed.", list.len());
    let hint = "To show all installed unit files use 'systemctl list-unit-files'.";
    match options.all || !options.wanted_states().is_empty() {
        true => print_line(&format!("{count}\n{hint}"))?,
        false => print_line(&format!(
            "{count} Pass --all to see loaded but inactive units, too.\n{hint}"
        ))?,
    }
    Ok(0)
}

const LEGEND: &str = "
LOAD   = Reflects whether the unit definition was properly loaded.
ACTIVE = The high-level unit activation state, i.e. generalization of SUB.
SUB    = The low-level unit activation state, values depend on unit type.
";

/// systemctl shows the name where there are no words.
fn described(unit: &UnitStatus) -> &str {
    match unit.description.as_str() {
        "" => &unit.name,
        words => words,
    }
}

/// `list-unit-files`.
pub(super) async fn files(node: &Node, options: &Options, words: &[String]) -> Result<u8, Failure> {
    let patterns = words
        .iter()
        .map(|it| whole(it))
        .collect::<Result<Vec<_>, _>>()?;
    let states = options.wanted_states();
    let mut units = node.list(true).await?;
    units.retain(|it| {
        let kind = it.name.rsplit_once('.').map_or("", |it| it.1);
        let of_kind = options.kinds.is_empty() || options.kinds.iter().any(|word| word == kind);
        let named = patterns.is_empty() || patterns.iter().any(|p| glob::matches(p, &it.name));
        let in_state = states.is_empty() || states.contains(&it.file_state.as_str());
        !it.file_state.is_empty() && of_kind && named && in_state
    });
    let presets = Files::read(std::path::Path::new("/"), false).ok();
    let preset = |it: &UnitStatus| preset_word(presets.as_ref(), it).unwrap_or("-");
    let object = |it: &UnitStatus| {
        let preset = preset_word(presets.as_ref(), it);
        json!({"unit_file": it.name, "state": it.file_state, "preset": preset})
    };
    if as_json(options, &units.iter().map(object).collect::<Vec<_>>())? {
        return Ok(0);
    }
    let mut list = Columns::new(&["UNIT FILE", "STATE", "PRESET"]);
    for unit in &units {
        let row = [unit.name.as_str(), &unit.file_state, preset(unit)].map(str::to_owned);
        list.push(None, row.to_vec());
    }
    print(&list.render(options.has_legend(), false))?;
    if options.has_legend() {
        print_line(&format!("\n{} unit files listed.", list.len()))?;
    }
    Ok(0)
}

/// What presets say of a unit; `None` where that has no meaning for its state.
pub(super) fn preset_word(files: Option<&Files>, unit: &UnitStatus) -> Option<&'static str> {
    if matches!(
        unit.file_state.as_str(),
        "" | "alias" | "static" | "generated" | "transient"
    ) {
        return None;
    }
    let name = UnitName::parse(&unit.name).ok()?;
    Some(match files?.is_preset(&name) {
        true => "enabled",
        false => "disabled",
    })
}

/// `list-timers`, by the time that is next.
pub(super) async fn timers(
    node: &Node,
    options: &Options,
    words: &[String],
) -> Result<u8, Failure> {
    let kinds = vec!["timer".to_owned()];
    let of_timers = Options {
        kinds,
        ..options.clone()
    };
    let mut units = chosen(node, &of_timers, words).await?;
    units.sort_by_key(|it| (it.next.is_none(), it.next.as_ref().map(time::micros)));
    let (now, zone) = (time::now(), time::zone());
    let object = |it: &UnitStatus| {
        let micros = |at: &Option<prost_types::Timestamp>| at.as_ref().map_or(0, time::micros);
        let next = micros(&it.next);
        json!({"next": next, "left": next, "last": micros(&it.last), "passed": micros(&it.last),
               "unit": it.name, "activates": it.triggers})
    };
    if as_json(options, &units.iter().map(object).collect::<Vec<_>>())? {
        return Ok(0);
    }
    let mut list = Columns::new(&["NEXT", "LEFT", "LAST", "PASSED", "UNIT", "ACTIVATES"]);
    for unit in units {
        let both = |at: Option<prost_types::Timestamp>| match at.as_ref().map(time::micros) {
            Some(at) => [time::full(at, &zone), time::relative(at, now)],
            None => ["-", "-"].map(str::to_owned),
        };
        let [next, left] = both(unit.next);
        let [last, passed] = both(unit.last);
        list.push(
            None,
            vec![next, left, last, passed, unit.name, unit.triggers],
        );
    }
    counted(&list, options, "timer")
}

fn counted(list: &Columns, options: &Options, noun: &str) -> Result<u8, Failure> {
    print(&list.render(options.has_legend(), false))?;
    if options.has_legend() {
        if list.len() > 0 {
            print_line("")?;
        }
        let count = list.len();
        print_line(&format!("{count} {noun}{} listed.", plural(count)))?;
        if !options.all {
            print_line(&format!(
                "Pass --all to see loaded but inactive {noun}s, too."
            ))?;
        }
    }
    Ok(0)
}

/// `list-sockets`, by address.
pub(super) async fn sockets(
    node: &Node,
    options: &Options,
    words: &[String],
) -> Result<u8, Failure> {
    let kinds = vec!["socket".to_owned()];
    let of_sockets = Options {
        kinds,
        ..options.clone()
    };
    let mut rows = Vec::new();
    for unit in chosen(node, &of_sockets, words).await? {
        let Some(detail) = node.get(&unit.name).await? else {
            continue;
        };
        let all = directives(&detail.files);
        let listens = all.iter().filter(|(section, name, _)| {
            section == "Socket" && name.starts_with("Listen") && name.as_str() != "ListenBacklog"
        });
        for (_, _, address) in listens {
            rows.push([address.clone(), unit.name.clone(), unit.triggers.clone()]);
        }
    }
    rows.sort();
    let object = |row: &[String; 3]| {
        let [listen, unit, activates] = row;
        json!({"listen": listen, "unit": unit, "activates": activates})
    };
    if as_json(options, &rows.iter().map(object).collect::<Vec<_>>())? {
        return Ok(0);
    }
    let mut list = Columns::new(&["LISTEN", "UNIT", "ACTIVATES"]);
    rows.into_iter()
        .for_each(|row| list.push(None, row.to_vec()));
    counted(&list, options, "socket")
}

/// `list-jobs`.
pub(super) async fn jobs(node: &Node, options: &Options, words: &[String]) -> Result<u8, Failure> {
    let all = Options {
        all: true,
        ..options.clone()
    };
    let mut units = chosen(node, &all, words).await?;
    units.retain(|it| it.job_id != 0);
    units.sort_by_key(|it| it.job_id);
    let state = |it: &UnitStatus| match it.active.as_str() {
        "activating" | "deactivating" | "reloading" => "running",
        _ => "waiting",
    };
    let object = |it: &UnitStatus| {
        let state = state(it);
        json!({"job": it.job_id, "unit": it.name, "type": it.job_kind, "state": state})
    };
    if as_json(options, &units.iter().map(object).collect::<Vec<_>>())? {
        return Ok(0);
    }
    if units.is_empty() {
        print_line("No jobs running.")?;
        return Ok(0);
    }
    let mut list = Columns::new(&["JOB", "UNIT", "TYPE", "STATE"]);
    for unit in &units {
        let id = unit.job_id.to_string();
        let row = [id.as_str(), &unit.name, &unit.job_kind, state(unit)].map(str::to_owned);
        list.push(None, row.to_vec());
    }
    print(&list.render(options.has_legend(), false))?;
    if options.has_legend() {
        print_line(&format!("\n{} jobs listed.", list.len()))?;
    }
    Ok(0)
}

/// The dot of a unit that is looked up, for lists of dependencies.
pub(super) fn dot_of(units: &[UnitStatus], name: &str) -> &'static str {
    let found = units.iter().find(|it| it.name == name);
    found.map_or("○", |it| dot(&it.active, &it.load))
}
