// SPDX-License-Identifier: Apache-2.0
//! The session of a command that calls a node: the connection, the tenant of the objects, and
//! looking objects up.

use std::time::{Duration, Instant};

use api::runtime::v0::{GetRequest, Kind, ListRequest, Object, ObjectRef, object};
use client::{Config, Node, Target};
use tonic::{Response, Status};

use crate::failure::Failure;
use crate::global::Global;
use crate::output::{ColorChoice, Style};

/// How long a node may not answer before the client gives up.
pub(crate) const AWAY_LIMIT: Duration = Duration::from_secs(30);
/// How many objects are searched for a name to suggest.
const SUGGESTED_FROM: u32 = 1000;
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A connection and the choices that hold for the whole command.
pub(crate) struct Session {
    pub(crate) node: Node,
    pub(crate) target: Target,
    /// The colours of standard output.
    pub(crate) style: Style,
    /// The colours of standard error.
    pub(crate) err_style: Style,
    tenant: String,
    deadline: Duration,
}

impl Session {
    /// Connects to the node that the options and the configuration name.
    pub(crate) async fn open(global: &Global) -> Result<Self, Failure> {
        let config = Config::load(&Config::default_path())?;
        let target = config.target(global.node.as_deref())?;
        let deadline = global.timeout.unwrap_or(client::RPC_DEADLINE);
        let node = Node::connect(&target).await?.with_deadline(deadline);
        Ok(Self {
            node,
            tenant: global
                .tenant
                .clone()
                .unwrap_or_else(|| target.tenant.clone()),
            target,
            style: Style::of(&std::io::stdout(), global.color),
            err_style: Style::of(&std::io::stderr(), global.color),
            deadline,
        })
    }

    /// Connects to a node for a command that goes by another one's name: it has no options of ours.
    pub(crate) async fn of_target(target: Target, tenant: &str) -> Result<Self, Failure> {
        let node = Node::connect(&target).await?;
        Ok(Self {
            node,
            target,
            style: Style::of(&std::io::stdout(), ColorChoice::Auto),
            err_style: Style::of(&std::io::stderr(), ColorChoice::Auto),
            tenant: tenant.to_owned(),
            deadline: client::RPC_DEADLINE,
        })
    }

    /// Connects once more, after the node was away.
    pub(crate) async fn reopen(&self) -> Result<Node, client::Error> {
        Ok(Node::connect(&self.target)
            .await?
            .with_deadline(self.deadline))
    }

    /// After a connection was lost: tries until the node answers again, for [`AWAY_LIMIT`] at most.
    /// A refusal of the node is an error at once.
    pub(crate) async fn reconnect(&self, problem: client::Error) -> Result<Node, Failure> {
        Ok(self.reconnected(problem).await?)
    }

    async fn reconnected(&self, mut problem: client::Error) -> Result<Node, client::Error> {
        let deadline = Instant::now() + AWAY_LIMIT;
        let mut pause = FIRST_PAUSE;
        while problem.is_transient() && Instant::now() < deadline {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            match self.reopen().await {
                Ok(node) => return Ok(node),
                Err(again) => problem = again,
            }
        }
        Err(problem)
    }

    /// Asks what is harmless to ask: once more, when the daemon died meanwhile.
    pub(crate) async fn ask<T>(
        &self,
        question: impl AsyncFn(&Node) -> Result<Response<T>, Status>,
    ) -> Result<T, Failure> {
        Ok(self.ask_again(true, question).await?)
    }

    /// The same for what changes something: once more only with a request id, by which the node
    /// knows the second request for the first.
    pub(crate) async fn ask_with<T>(
        &self,
        request_id: &str,
        question: impl AsyncFn(&Node) -> Result<Response<T>, Status>,
    ) -> Result<T, client::Error> {
        self.ask_again(!request_id.is_empty(), question).await
    }

    async fn ask_again<T>(
        &self,
        again: bool,
        question: impl AsyncFn(&Node) -> Result<Response<T>, Status>,
    ) -> Result<T, client::Error> {
        let problem = match question(&self.node).await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) => client::Error::from(status),
        };
        if !again {
            return Err(problem);
        }
        let node = self.reconnected(problem).await?;
        Ok(question(&node).await?.into_inner())
    }

    /// Whose objects; empty: the caller's own.
    pub(crate) fn tenant(&self) -> String {
        self.tenant.clone()
    }

    /// A reference to an object by its path.
    pub(crate) fn reference(&self, path: &str) -> ObjectRef {
        ObjectRef {
            tenant: self.tenant(),
            path: path.to_owned(),
            ..Default::default()
        }
    }

    /// One object's status. Asked once more when the daemon died meanwhile: asking is harmless.
    pub(crate) async fn get(&self, reference: ObjectRef) -> Result<Object, client::Error> {
        match self.get_once(reference.clone()).await {
            Err(problem) if problem.is_transient() => self.get_once(reference).await,
            answer => answer,
        }
    }

    async fn get_once(&self, reference: ObjectRef) -> Result<Object, client::Error> {
        let request = GetRequest {
            r#ref: Some(reference),
        };
        let answer = self.node.runtime().get(self.node.unary(request)).await?;
        Ok(answer.into_inner())
    }

    /// The object of that name; for `web`, where there is no such object, the executable `web/web`
    /// that
    /// `aurae run --name web` left when its cell went.
    pub(crate) async fn find(&self, path: &str) -> Result<Object, Failure> {
        let problem = match self.get(self.reference(path)).await {
            Ok(object) => return Ok(object),
            Err(problem) => problem,
        };
        if is_not_found(&problem)
            && let Ok(object) = self.get(self.own_executable(path)).await
        {
            return Ok(object);
        }
        Err(problem.into())
    }

    /// The same; where there is no such object, its refusal names those that may be meant.
    pub(crate) async fn find_or_suggest(
        &self,
        path: &str,
        command: &str,
    ) -> Result<Object, Failure> {
        let failure = match self.find(path).await {
            Ok(found) => return Ok(found),
            Err(failure) => failure,
        };
        let request = ListRequest {
            tenant: self.tenant(),
            page_size: SUGGESTED_FROM,
            ..Default::default()
        };
        let list = self.node.runtime().list(self.node.unary(request)).await;
        let objects = list
            .map(|page| page.into_inner().objects)
            .unwrap_or_default();
        let paths: Vec<String> = objects.iter().map(crate::output::path).collect();
        match meant(path, &paths) {
            Some(meant) => {
                Err(failure.with_hint(format!("did you mean `aurae {command} {meant}`?")))
            }
            None => Err(failure),
        }
    }

    /// The executable of that name; for a cell `web`, its executable `web/web` where there is one.
    pub(crate) async fn find_executable(
        &self,
        path: &str,
        command: &str,
    ) -> Result<Object, Failure> {
        let found = self.find_or_suggest(path, command).await?;
        if matches!(found.object, Some(object::Object::Executable(_))) {
            return Ok(found);
        }
        self.get(self.own_executable(path)).await.map_err(|_| {
            Failure::new(format!("{path} is a cell, not an executable"))
                .with_hint(format!("`aurae ps {path}` shows what is in it"))
        })
    }

    fn own_executable(&self, path: &str) -> ObjectRef {
        let label = path.rsplit('/').next().unwrap_or(path);
        ObjectRef {
            kind: Kind::Executable.into(),
            ..self.reference(&format!("{path}/{label}"))
        }
    }
}

/// The object whose last label was typed alone, or whose name nearly was.
fn meant<'a>(typed: &str, paths: &'a [String]) -> Option<&'a str> {
    let mut labelled = paths
        .iter()
        .filter(|path| path.rsplit('/').next() == Some(typed));
    let labelled = labelled.next().map(String::as_str);
    labelled.or_else(|| language::schema::nearest(typed, paths.iter().map(String::as_str)))
}

/// Whether the node says that there is no such object.
pub(crate) fn is_not_found(problem: &client::Error) -> bool {
    problem
        .refusal()
        .is_some_and(|refusal| refusal.code == tonic::Code::NotFound)
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn a_label_alone_or_a_slip_means_the_whole_name() {
        let paths = ["web", "web/job", "web/nginx"].map(str::to_owned);
        assert_eq!(meant("job", &paths), Some("web/job"));
        assert_eq!(meant("web/ngnix", &paths), Some("web/nginx"));
        assert_eq!(meant("db", &paths), None);
    }
}
