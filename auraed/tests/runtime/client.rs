// SPDX-License-Identifier: Apache-2.0
//! What the stories ask of a daemon, and how.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use model::name::Uid;
use model::status::{CellStatus, ExecutableStatus, Object};
use model::{cell, executable};
use serde::{Deserialize, Serialize};

/// A request, as a line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    RunCell {
        path: String,
        spec: cell::Draft,
        id: Option<String>,
        wait: bool,
    },
    Run {
        path: String,
        spec: executable::Draft,
        own_cell: Option<cell::Draft>,
        id: Option<String>,
        wait: bool,
    },
    Get {
        path: String,
    },
    List,
    Wait {
        path: String,
        uid: Uid,
    },
    Signal {
        path: String,
        signal: String,
        all: bool,
    },
    Stop {
        path: String,
        grace_ms: Option<u64>,
    },
    Remove {
        path: String,
        recursive: bool,
        force: bool,
    },
    Freeze {
        path: String,
        frozen: bool,
    },
    /// The kinds and paths of watched events, until so many came.
    Watch {
        token: Option<String>,
        events: usize,
    },
    Log {
        uid: Uid,
    },
    Update {
        path: String,
        spec: cell::Draft,
        mask: Vec<String>,
        generation: Option<u64>,
    },
    Attach {
        path: String,
        input: String,
    },
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Object(Box<Object>),
    Objects(Vec<Object>, String),
    Removed(u32),
    Events(Vec<(String, String)>, String),
    Log(Vec<u8>),
    Attached(Vec<u8>, String),
    Error {
        reason: String,
        message: String,
        errno: Option<i32>,
    },
}

/// A connection to a daemon.
pub(crate) struct Client {
    reader: BufReader<UnixStream>,
}

impl Client {
    pub(crate) fn connect(path: &Path) -> std::io::Result<Client> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60)))?;
        Ok(Client {
            reader: BufReader::new(stream),
        })
    }

    /// Asks; an error where the daemon went away.
    pub(crate) fn try_ask(&mut self, ask: &Ask) -> std::io::Result<Answer> {
        let mut line = serde_json::to_string(ask).unwrap();
        line.push('\n');
        self.reader.get_mut().write_all(line.as_bytes())?;
        let mut answer = String::new();
        if self.reader.read_line(&mut answer)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&answer)?)
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> Answer {
        self.try_ask(&ask)
            .unwrap_or_else(|e| panic!("{ask:?}: {e}"))
    }

    pub(crate) fn cell(&mut self, path: &str) -> CellStatus {
        self.cell_with(path, cell::Draft::default())
    }

    pub(crate) fn cell_with(&mut self, path: &str, spec: cell::Draft) -> CellStatus {
        let ask = Ask::RunCell {
            path: path.into(),
            spec,
            id: None,
            wait: false,
        };
        match self.ask(ask) {
            Answer::Object(object) => match *object {
                Object::Cell(cell) => cell,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Runs it, and waits for its end.
    pub(crate) fn run(&mut self, path: &str, argv: &[&str]) -> ExecutableStatus {
        executable(self.ask(run(path, argv, true)))
    }

    /// Starts it.
    pub(crate) fn start(&mut self, path: &str, argv: &[&str]) -> ExecutableStatus {
        executable(self.ask(run(path, argv, false)))
    }

    pub(crate) fn get(&mut self, path: &str) -> Object {
        match self.ask(Ask::Get { path: path.into() }) {
            Answer::Object(object) => *object,
            other => panic!("{path}: {other:?}"),
        }
    }

    pub(crate) fn list(&mut self) -> Vec<Object> {
        match self.ask(Ask::List) {
            Answer::Objects(objects, _) => objects,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn stop(&mut self, path: &str, grace_ms: Option<u64>) -> Object {
        match self.ask(Ask::Stop {
            path: path.into(),
            grace_ms,
        }) {
            Answer::Object(object) => *object,
            other => panic!("{path}: {other:?}"),
        }
    }

    pub(crate) fn log(&mut self, uid: Uid) -> String {
        match self.ask(Ask::Log { uid }) {
            Answer::Log(bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn draft(argv: &[&str]) -> executable::Draft {
    executable::Draft {
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        ..executable::Draft::default()
    }
}

pub(crate) fn run(path: &str, argv: &[&str], wait: bool) -> Ask {
    Ask::Run {
        path: path.into(),
        spec: draft(argv),
        own_cell: None,
        id: None,
        wait,
    }
}

pub(crate) fn executable(answer: Answer) -> ExecutableStatus {
    match answer {
        Answer::Object(object) => match *object {
            Object::Executable(executable) => executable,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The reason and the errno of a refusal.
pub(crate) fn refusal(answer: Answer) -> (String, Option<i32>) {
    match answer {
        Answer::Error { reason, errno, .. } => (reason, errno),
        other => panic!("not refused: {other:?}"),
    }
}
