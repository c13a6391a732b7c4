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
    let (running, _) = Loaded::load(Place::Nowhere, entry, &[], options).unwrap();
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

/// Keeps what is printed.
#[derive(Default)]
struct Kept(std::sync::Mutex<String>);

impl Output for Kept {
    fn print(&self, error: bool, text: String) -> BoxFuture<'_, ()> {
        assert!(error, "{text}");
        self.0.lock().unwrap().push_str(&text);
        std::future::ready(()).boxed()
    }
}

const TWO: &str = r#"
[nodes.n]
address = "unix:///n"
ca = "ca.pem"
[users.u]
certificate = "u.pem"
key = "u.key"
[contexts.bob]
node = "n"
user = "u"
labels = { role = "web" }
[contexts.alice]
node = "n"
user = "u"
labels = { role = "web", zone = "b" }
"#;

#[tokio::test]
async fn nodes_are_selected_by_labels_in_order_and_an_empty_selection_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, TWO).unwrap();
    let entry = Entry::Text {
        name: "main.ts".into(),
        text: "nodes(args[0]);\n".into(),
    };
    let options = language::compile::Options::default();
    let (running, _) = Loaded::load(Place::Nowhere, entry, &[], options).unwrap();
    let config = Config::load(&file).unwrap();
    let kept = Arc::new(Kept::default());
    let host = NodeHost::new(
        Arc::new(Nodes::new(config, None, None)),
        Arc::new(running),
        Arc::<Kept>::clone(&kept),
        Mode::Run,
    );
    let select = |selector: &str| host.nodes(selector.into());
    assert_eq!(select("role=web").await.unwrap(), ["alice", "bob"]);
    assert_eq!(select("role,!zone").await.unwrap(), ["bob"]);
    let none = select("role=wbe").await.unwrap_err();
    assert_eq!(none.code, "NOT_FOUND");
    assert_eq!(none.message, "nodes(\"role=wbe\") matches no context");
    assert_eq!(none.hint.unwrap(), "there are role=web, zone=b");
    let wrong = select("role in web").await.unwrap_err();
    assert_eq!(wrong.code, "BAD_ARGUMENT");
    assert!(
        wrong.message.contains("\"role in web\""),
        "{}",
        wrong.message
    );
    assert!(wrong.hint.unwrap().contains("app=web"));
}
