// SPDX-License-Identifier: Apache-2.0
//! The commands: a file each, with their flags, their help and what they do.

pub(crate) mod apply;
pub(crate) mod attach;
pub(crate) mod cell;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod cp;
pub(crate) mod declaring;
pub(crate) mod exec;
pub(crate) mod fetch;
pub(crate) mod fmt;
pub(crate) mod identity;
pub(crate) mod image;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod kill;
mod launch;
pub(crate) mod logs;
pub(crate) mod lsp;
pub(crate) mod man;
mod names;
pub(crate) mod node;
pub(crate) mod plan;
pub(crate) mod pod;
pub(crate) mod ps;
pub(crate) mod repl;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod saved;
pub(crate) mod schedule;
pub(crate) mod script;
pub(crate) mod set;
mod started;
pub(crate) mod stop;
pub(crate) mod tenant;
pub(crate) mod top;
pub(crate) mod types;
pub(crate) mod unit;
pub(crate) mod units;
pub(crate) mod version;
pub(crate) mod wait;

use std::future::Future;

use api::runtime::v0::{ListResponse, Object};

use crate::failure::{FAILED, Failure};
use crate::output::{Format, path, print_line, print_message};
use crate::session::Session;

/// Does the same with each name, all at once. Every failure is printed; with one or more the status
/// is 1.
async fn for_each<'a, F, T>(
    session: &Session,
    names: &'a [String],
    action: impl Fn(&'a str) -> F,
) -> (Vec<T>, u8)
where
    F: Future<Output = Result<T, Failure>>,
{
    let results = futures_util::future::join_all(names.iter().map(|name| action(name))).await;
    let mut done = Vec::new();
    let mut status = 0;
    for result in results {
        match result {
            Ok(value) => done.push(value),
            Err(failure) => {
                failure.report(session.err_style);
                status = FAILED;
            }
        }
    }
    (done, status)
}

/// Prints objects that were changed: their names for people, themselves for programs.
fn print_changed(format: Format, objects: Vec<Object>) -> Result<(), Failure> {
    match (format.is_machine(), objects.as_slice()) {
        (true, [object]) => print_message(format, object),
        (true, _) => {
            let list = ListResponse {
                objects,
                ..Default::default()
            };
            print_message(format, &list)
        }
        (false, objects) => objects
            .iter()
            .try_for_each(|object| print_line(&path(object))),
    }
}
