// SPDX-License-Identifier: Apache-2.0
//! The set as the nodes keep it: which program it belongs to, what it declared on each node, and
//! which nodes those are. An apply writes what it is about to make before it makes it, so that one
//! which is killed loses track of nothing. A plan only reads.

use std::collections::{BTreeMap, BTreeSet};

use api::sets::v0::{GetRequest, Member, PutRequest, RemoveRequest, RemoveResponse, Set};
use tokio::sync::Mutex;

use super::asking::question;
use super::prune::own_tenant;
use super::set::Claim;
use crate::nodes::Nodes;
use crate::protocol::Failure;

/// A set on the nodes that were looked at.
#[derive(Debug)]
pub(crate) struct Manifests {
    claim: Claim,
    held: Mutex<BTreeMap<String, Held>>,
}

/// One node's part.
#[derive(Clone, Debug, Default)]
struct Held {
    /// The context, as calls name it.
    node: Option<String>,
    /// As the node keeps it; revision 0: not at all.
    there: Set,
    /// What this run declares.
    declared: Vec<Member>,
    /// Whose objects a request means that doesn't say so.
    own: String,
}

impl Manifests {
    pub(crate) fn new(claim: Claim) -> Self {
        Self {
            claim,
            held: Mutex::default(),
        }
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Whether the set has held a member on that node before this run.
    ///
    /// # Errors
    /// The node can't be asked, or the set there is another program's.
    pub(crate) async fn holds(
        &self,
        nodes: &Nodes,
        node: Option<&str>,
        member: &Member,
    ) -> Result<bool, Failure> {
        let mut all = self.held.lock().await;
        let held = self.look(&mut all, nodes, node).await?;
        Ok(held.there.members.contains(member))
    }

    /// What the set has held on that node before this run, and what it holds by this run.
    ///
    /// # Errors
    /// As [`Self::holds`].
    pub(crate) async fn members(
        &self,
        nodes: &Nodes,
        node: Option<&str>,
    ) -> Result<(Vec<Member>, Vec<Member>), Failure> {
        let mut all = self.held.lock().await;
        let held = self.look(&mut all, nodes, node).await?;
        Ok((held.there.members.clone(), held.declared.clone()))
    }

    /// As which workload the set has held a path on that node before this run; an empty tenant is
    /// the caller's own.
    ///
    /// # Errors
    /// As [`Self::holds`].
    pub(crate) async fn held_as(
        &self,
        nodes: &Nodes,
        node: Option<&str>,
        (tenant, path): (&str, &str),
    ) -> Result<Option<Member>, Failure> {
        let mut all = self.held.lock().await;
        let held = self.look(&mut all, nodes, node).await?;
        let tenant = match tenant {
            "" => held.own.as_str(),
            tenant => tenant,
        };
        let is = |member: &Member, name: &str, value: &str| {
            member.key.get(name).is_some_and(|there| there == value)
        };
        let mut members = held.there.members.iter();
        let found = members.find(|it| is(it, "path", path) && is(it, "tenant", tenant));
        Ok(found.cloned())
    }

    /// Whose objects a request means that doesn't say so.
    ///
    /// # Errors
    /// As [`Self::holds`].
    pub(crate) async fn own_tenant(
        &self,
        nodes: &Nodes,
        node: Option<&str>,
    ) -> Result<String, Failure> {
        let mut all = self.held.lock().await;
        let held = self.look(&mut all, nodes, node).await?;
        Ok(held.own.clone())
    }

    /// Notes what this run declares.
    ///
    /// # Errors
    /// As [`Self::holds`].
    pub(crate) async fn declare(
        &self,
        nodes: &Nodes,
        node: Option<&str>,
        member: Member,
    ) -> Result<(), Failure> {
        let mut all = self.held.lock().await;
        let held = self.look(&mut all, nodes, node).await?;
        if !held.declared.contains(&member) {
            held.declared.push(member);
        }
        Ok(())
    }

    /// Writes a member that is about to be made; none: that the set is this program's. Before that
    /// another node of the set, if there is one, is told of this one: an apply that is killed
    /// leaves no node behind that the next one can't find.
    ///
    /// # Errors
    /// As [`Self::holds`], or another apply has written the set meanwhile.
    pub(crate) async fn join(
        &self,
        nodes: &Nodes,
        node: Option<&str>,
        member: Option<&Member>,
    ) -> Result<(), Failure> {
        let mut all = self.held.lock().await;
        let held = self.look(&mut all, nodes, node).await?;
        let name = nodes.name(node);
        let known = member.is_none_or(|member| held.there.members.contains(member));
        let listed = name.is_empty() || held.there.nodes.contains(&name);
        let joined = held.there.revision > 0 && held.there.program == self.program(held);
        if known && listed && joined {
            return Ok(());
        }
        if !listed {
            self.introduce(nodes, &mut all, &name).await?;
        }
        let mut names: BTreeSet<String> = all
            .iter()
            .filter(|(other, held)| **other == name || held.there.revision > 0)
            .map(|(other, _)| other.clone())
            .collect();
        let held = self.look(&mut all, nodes, node).await?;
        names.extend(held.there.nodes.iter().cloned());
        names.remove("");
        let mut members = held.there.members.clone();
        if let Some(member) = member.filter(|_| !known) {
            members.push(member.clone());
        }
        self.put(nodes, held, members, names.into_iter().collect())
            .await
    }

    /// Tells a node of the set that the set is about to be on another one, unless one knows.
    async fn introduce(
        &self,
        nodes: &Nodes,
        all: &mut BTreeMap<String, Held>,
        name: &str,
    ) -> Result<(), Failure> {
        let others = || {
            let others = all.iter().filter(|(other, _)| *other != name);
            others.filter(|(_, held)| held.there.revision > 0)
        };
        let is_told = |held: &Held| held.there.nodes.iter().any(|known| known == name);
        if others().any(|(_, held)| is_told(held)) {
            return Ok(());
        }
        let Some(other) = others().next().map(|(other, _)| other.clone()) else {
            return Ok(());
        };
        let Some(held) = all.get_mut(&other) else {
            return Ok(());
        };
        let members = held.there.members.clone();
        let mut names = held.there.nodes.clone();
        names.push(name.to_owned());
        self.put(nodes, held, members, names).await
    }

    /// The contexts that the set was on, by each of the nodes that were looked at.
    pub(crate) async fn listed(&self) -> BTreeMap<String, BTreeSet<String>> {
        let all = self.held.lock().await;
        let listed = all.iter().map(|(name, held)| {
            let names = held.there.nodes.iter().cloned();
            (name.clone(), names.collect())
        });
        listed.collect()
    }

    /// The contexts that the set is on by the word of a node that another one names; none where it
    /// knows of no such set.
    ///
    /// # Errors
    /// The node can't be asked.
    pub(crate) async fn listed_by(
        &self,
        nodes: &Nodes,
        name: &str,
    ) -> Result<BTreeSet<String>, Failure> {
        let there = self.read(nodes, Some(name)).await?;
        Ok(there.nodes.into_iter().collect())
    }

    /// Writes what the set holds now, on every node that was looked at; forgets it where it holds
    /// nothing. `left` says what is there still though it isn't declared, by the node's name;
    /// `away` names nodes that couldn't be asked.
    ///
    /// # Errors
    /// A node refuses: the first such refusal.
    pub(crate) async fn record(
        &self,
        nodes: &Nodes,
        left: &BTreeMap<String, Vec<Member>>,
        away: &BTreeSet<String>,
    ) -> Result<(), Failure> {
        let mut all = self.held.lock().await;
        let now: BTreeMap<String, Vec<Member>> = all
            .iter()
            .map(|(name, held)| (name.clone(), remaining(held, left.get(name))))
            .collect();
        let with_members = now.iter().filter(|(_, members)| !members.is_empty());
        let mut names: Vec<String> = with_members.map(|(name, _)| name.clone()).collect();
        names.extend(away.iter().cloned());
        names.retain(|name| !name.is_empty());
        let mut failed = Ok(());
        for (name, members) in now {
            let Some(held) = all.get_mut(&name) else {
                continue;
            };
            // While another node can't be asked, the set goes on here: it remembers that one.
            let done = match members.is_empty() && away.is_empty() {
                true => self.forget(nodes, held).await,
                false => self.put(nodes, held, members, names.clone()).await,
            };
            failed = failed.and(done);
        }
        failed
    }

    async fn look<'a>(
        &self,
        all: &'a mut BTreeMap<String, Held>,
        nodes: &Nodes,
        node: Option<&str>,
    ) -> Result<&'a mut Held, Failure> {
        let name = nodes.name(node);
        if !all.contains_key(&name) {
            let there = self.read(nodes, node).await?;
            self.check(&there)?;
            let held = Held {
                node: node.map(str::to_owned),
                there,
                declared: Vec::new(),
                own: own_tenant(nodes, node).await?,
            };
            all.insert(name.clone(), held);
        }
        all.get_mut(&name)
            .ok_or_else(|| Failure::new("INTERNAL", "a set was lost"))
    }

    /// The set as a node keeps it; revision 0: not at all.
    async fn read(&self, nodes: &Nodes, node: Option<&str>) -> Result<Set, Failure> {
        let request = GetRequest {
            tenant: String::new(),
            name: self.claim.set.clone(),
        };
        match question(nodes, node, "sets.Get", &request).await {
            Err(failure) if failure.code == "NOT_FOUND" => Ok(Set::default()),
            other => other,
        }
    }

    /// Whose the set is from now on: this program's, or where that is none, whose it was.
    fn program(&self, held: &Held) -> String {
        match self.claim.program.is_empty() {
            true => held.there.program.clone(),
            false => self.claim.program.clone(),
        }
    }

    /// Two programs can't declare one set: each would take away what the other makes.
    fn check(&self, there: &Set) -> Result<(), Failure> {
        let Claim {
            set,
            program,
            adopt,
            ..
        } = &self.claim;
        if there.revision == 0 || there.program == *program || *adopt {
            return Ok(());
        }
        let message = format!(
            "the set {set} is declared by the program {}, and this is {program}",
            there.program
        );
        let mut failure = Failure::new("CONFLICT", message).hint(
            "give this program's set another name with --set NAME; or, if it is the same program \
             in another place, take the set over with --adopt, and name its project in aurae.json: \
             with {\"name\": …} it is the same everywhere",
        );
        failure.object = Some(set.clone());
        Err(failure)
    }

    async fn put(
        &self,
        nodes: &Nodes,
        held: &mut Held,
        members: Vec<Member>,
        names: Vec<String>,
    ) -> Result<(), Failure> {
        let wanted = Set {
            tenant: nodes.tenant(held.node.as_deref()).await?,
            name: self.claim.set.clone(),
            program: self.program(held),
            nodes: names,
            members,
            ..Set::default()
        };
        let there = &held.there;
        let same = there.program == wanted.program
            && there.nodes == wanted.nodes
            && there.members == wanted.members;
        if same && there.revision > 0 {
            return Ok(());
        }
        let request = PutRequest {
            set: Some(wanted),
            expected_revision: held.there.revision,
        };
        held.there = question(nodes, held.node.as_deref(), "sets.Put", &request).await?;
        Ok(())
    }

    async fn forget(&self, nodes: &Nodes, held: &mut Held) -> Result<(), Failure> {
        if held.there.revision == 0 {
            return Ok(());
        }
        let request = RemoveRequest {
            tenant: String::new(),
            name: self.claim.set.clone(),
            expected_revision: held.there.revision,
        };
        let gone: Result<RemoveResponse, _> =
            question(nodes, held.node.as_deref(), "sets.Remove", &request).await;
        match gone {
            Err(failure) if failure.code != "NOT_FOUND" => Err(failure),
            _ => {
                held.there = Set::default();
                Ok(())
            }
        }
    }
}

/// What this run declares, and what of before is there still.
fn remaining(held: &Held, left: Option<&Vec<Member>>) -> Vec<Member> {
    let mut members = held.declared.clone();
    for member in left.into_iter().flatten() {
        if !members.contains(member) {
            members.push(member.clone());
        }
    }
    members
}
