// SPDX-License-Identifier: Apache-2.0
//! The open calls of a program: a task each, which asks the host and answers the evaluator. It
//! knows no methods and no nodes; those are the host's.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Host;
use crate::protocol::codec::{self, MAX_TO};
use crate::protocol::{Answer, Call, CallId, Failure, MAX_CALLS, ToEvaluator};
use crate::value::Value;

/// What a program sends into a stream, one item at a time.
#[derive(Debug)]
pub struct Items(mpsc::Receiver<Value>);

impl Stream for Items {
    type Item = Value;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Value>> {
        self.0.poll_recv(context)
    }
}

/// What an open call can be told.
#[derive(Debug)]
struct Open {
    /// Ends its tasks when dropped.
    _tasks: JoinSet<()>,
    /// Of a stream.
    pulls: Option<mpsc::Sender<()>>,
    /// Of a stream that isn't closed on this side.
    items: Option<mpsc::Sender<Value>>,
}

/// All open calls. Its tasks end when it is dropped.
pub(super) struct Calls {
    host: Arc<dyn Host>,
    to: mpsc::Sender<Vec<u8>>,
    open: Arc<Mutex<HashMap<CallId, Open>>>,
    /// Numbers below are used up.
    next: CallId,
}

/// How the evaluator broke the protocol.
pub(super) type Violation = &'static str;

impl Calls {
    pub(super) fn new(host: Arc<dyn Host>, to: mpsc::Sender<Vec<u8>>) -> Self {
        let open = Arc::default();
        Self {
            host,
            to,
            open,
            next: 0,
        }
    }

    /// Begins a call.
    pub(super) fn begin(&mut self, call: Call) -> Result<(), Violation> {
        if call.call < self.next {
            return Err("it used a call's number twice");
        }
        self.next = call.call.saturating_add(1);
        let open = Arc::clone(&self.open);
        let mut calls = open.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= MAX_CALLS {
            return Err("it has too many calls at once");
        }
        let number = call.call;
        let opened = if call.stream {
            self.stream(call)
        } else {
            self.unary(call)
        };
        calls.insert(number, opened);
        Ok(())
    }

    fn unary(&self, call: Call) -> Open {
        let mut tasks = JoinSet::new();
        let (host, to, open) = (
            Arc::clone(&self.host),
            self.to.clone(),
            Arc::clone(&self.open),
        );
        tasks.spawn(async move {
            let number = call.call;
            let result = host.call(call).await.map(Answer::Value);
            answer(&to, number, result).await;
            // Ends this very task, at its next await: there is none.
            open.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&number);
        });
        Open {
            _tasks: tasks,
            pulls: None,
            items: None,
        }
    }

    fn stream(&self, call: Call) -> Open {
        let number = call.call;
        let mut tasks = JoinSet::new();
        let (pulls, pulled) = mpsc::channel(1);
        let (items, sent) = mpsc::channel(1);
        let (forward, received) = mpsc::channel(1);
        let stream = Arc::clone(&self.host).stream(call, Items(received));
        tasks.spawn(pump(number, sent, forward, self.to.clone()));
        tasks.spawn(serve(number, stream, pulled, self.to.clone()));
        Open {
            _tasks: tasks,
            pulls: Some(pulls),
            items: Some(items),
        }
    }

    /// The program wants the next item.
    pub(super) fn pull(&self, number: CallId) -> Result<(), Violation> {
        let calls = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match calls.get(&number).and_then(|open| open.pulls.as_ref()) {
            Some(pulls) => match pulls.try_send(()) {
                Err(mpsc::error::TrySendError::Full(())) => Err("it pulls a stream twice at once"),
                _ => Ok(()),
            },
            None => Err("it pulls what is no open stream"),
        }
    }

    /// The program sends an item, or closes its side.
    pub(super) fn send(&self, number: CallId, item: Option<Value>) -> Result<(), Violation> {
        let mut calls = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = calls.get_mut(&number) else {
            return Err("it sends into what is no open stream");
        };
        let Some(item) = item else {
            open.items = None;
            return Ok(());
        };
        match open.items.as_ref().map(|items| items.try_send(item)) {
            None => Err("it sends into a stream that it has closed"),
            Some(Err(mpsc::error::TrySendError::Full(_))) => Err("it sends without waiting"),
            Some(_) => Ok(()),
        }
    }

    /// The program has lost interest: the call's tasks end where they wait.
    pub(super) fn cancel(&self, number: CallId) {
        let mut calls = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        calls.remove(&number);
    }
}

/// Hands what the program sends to the host, and says when the next may come. A host that has
/// dropped its end takes everything: the stream's own end says why.
async fn pump(
    number: CallId,
    mut sent: mpsc::Receiver<Value>,
    forward: mpsc::Sender<Value>,
    to: mpsc::Sender<Vec<u8>>,
) {
    while let Some(item) = sent.recv().await {
        let _ = forward.send(item).await;
        let Ok(frame) = codec::encode(&ToEvaluator::Sent { call: number }, MAX_TO) else {
            return;
        };
        if to.send(frame).await.is_err() {
            return;
        }
    }
}

/// Hands an item to the program for each that it asks for. The stream is polled as soon as there is
/// one, since one that the program writes to must be open before it reads: an item waits.
async fn serve(
    number: CallId,
    mut stream: futures_util::stream::BoxStream<'static, Result<Value, Failure>>,
    mut pulled: mpsc::Receiver<()>,
    to: mpsc::Sender<Vec<u8>>,
) {
    let mut over = false;
    while !over {
        let next = stream.next().await;
        if pulled.recv().await.is_none() {
            return;
        }
        let result = match next {
            Some(item) => item.map(Answer::Value),
            None => Ok(Answer::End),
        };
        over = !matches!(result, Ok(Answer::Value(_)));
        answer(&to, number, result).await;
    }
    // The program says `Cancel` when it has seen the end; until then it may pull or send once more.
    while pulled.recv().await.is_some() {
        answer(&to, number, Ok(Answer::End)).await;
    }
}

async fn answer(to: &mpsc::Sender<Vec<u8>>, call: CallId, result: Result<Answer, Failure>) {
    let frame = codec::encode(&ToEvaluator::Answer { call, result }, MAX_TO).or_else(|e| {
        let failure = Failure::new("RESOURCE_EXHAUSTED", format!("the answer is too long: {e}"));
        let result = Err(failure);
        codec::encode(&ToEvaluator::Answer { call, result }, MAX_TO)
    });
    if let Ok(frame) = frame {
        // An evaluator that is gone wants no answer.
        let _ = to.send(frame).await;
    }
}
