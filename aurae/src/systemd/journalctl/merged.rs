// SPDX-License-Identifier: Apache-2.0
//! Entries of many logs in one order, by time. A log is opened when the order has come to its
//! beginning, and is done with when it is over: of a unit that is started again and again there are
//! more logs than can be read at once. One entry of each is held.

use std::collections::VecDeque;

use futures_util::StreamExt;

use super::entry::Entry;
use super::filter::Filter;
use super::source::{self, Entries, Log};
use crate::failure::Failure;
use crate::systemd::node::Node;

/// See the module. Entries of one log come in their own order.
pub(super) struct Merged<'a> {
    node: &'a Node,
    filter: Filter,
    tail: Option<usize>,
    /// Those that are open, each with its next entry.
    heads: Vec<(Entry, Entries)>,
    /// Those that begin later, in the order of their beginnings.
    later: VecDeque<Log>,
}

impl<'a> Merged<'a> {
    /// Of sources that are open, and of logs in the order of their beginnings, of which the `tail`
    /// last lines are wanted each.
    pub(super) async fn new(
        node: &'a Node,
        filter: &Filter,
        tail: Option<usize>,
        open: Vec<Entries>,
        logs: Vec<Log>,
    ) -> Result<Merged<'a>, Failure> {
        let mut merged = Merged {
            node,
            filter: filter.clone(),
            tail,
            heads: Vec::with_capacity(open.len()),
            later: logs.into(),
        };
        for source in open {
            merged.hold(source).await?;
        }
        Ok(merged)
    }

    /// Keeps a source with its next entry, as long as it has one.
    async fn hold(&mut self, mut source: Entries) -> Result<(), Failure> {
        if let Some(entry) = source.next().await {
            self.heads.push((entry?, source));
        }
        Ok(())
    }

    /// Takes a source's entry, and has it hold the next one.
    async fn step(&mut self, at: usize) -> Result<Option<Entry>, Failure> {
        let Some((entry, source)) = self.heads.get_mut(at) else {
            return Ok(None);
        };
        match source.next().await {
            Some(next) => Ok(Some(std::mem::replace(entry, next?))),
            None => Ok(Some(self.heads.remove(at).0)),
        }
    }

    /// The next entry of all.
    pub(super) async fn next(&mut self) -> Result<Option<Entry>, Failure> {
        loop {
            let times = self.heads.iter().enumerate();
            let first = times
                .map(|(at, (entry, _))| (entry.time, at))
                .min_by_key(|(time, _)| *time);
            let begins = self.later.front().map(|log| log.started);
            if begins.is_some_and(|begins| first.is_none_or(|(time, _)| begins <= time)) {
                if let Some(log) = self.later.pop_front() {
                    let lines = source::lines(self.node, &log, &self.filter, self.tail, None);
                    self.hold(lines.await?).await?;
                }
                continue;
            }
            let Some((_, at)) = first else {
                return Ok(None);
            };
            return self.step(at).await;
        }
    }
}
