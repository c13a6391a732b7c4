// SPDX-License-Identifier: Apache-2.0
//! What a host does beside the thread that watches the program.

use client::Config;
use language::program::Entry;

use super::*;
use crate::program::Place;

struct Silent;

impl Output for Silent {
    fn print(&self, _: bool, _: String) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

#[test]
fn reading_and_compiling_hold_up_nothing_else() {
    let entry = Entry::Text {
        name: "main.ts".into(),
        text: String::new(),
    };
    let options = language::compile::Options::default();
    let (running, _) = Running::load(Place::Nowhere, entry, &[], options).unwrap();
    let nodes = Nodes::new(Config::default(), None, None);
    let host = NodeHost::new(
        Arc::new(nodes),
        Arc::new(running),
        Arc::new(Silent),
        Mode::Run,
    );
    let read = || host.read_file("./a".into(), "main.ts".into());
    let import = || host.import("./a.ts".into(), "main.ts".into());
    // With one thread for it, which has something else to do.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || held.recv());
        assert!(read().now_or_never().is_none());
        assert!(import().now_or_never().is_none());
        drop(release);
        assert!(busy.await.unwrap().is_err());
        assert!(read().await.is_err());
        assert!(import().await.is_err());
    });
}
