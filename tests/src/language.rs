// SPDX-License-Identifier: Apache-2.0
//! Stories of the language: each program in `examples/` does on a real node what it says, as it
//! stands in the repository. What the language refuses and how is told by `aurae`'s own tests.

use anyhow::{Result, ensure};
use testkit::disk::Copy;
use testkit::node::{Node, Options};

use crate::story::{Chapter, Story, powered_off};

/// The repository's programs.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");

pub(crate) const CHAPTER: Chapter = Chapter {
    name: "language",
    options: || Options {
        copies: vec![Copy::new(EXAMPLES, "/srv/examples")],
        ..Options::default()
    },
    stories: &[
        Story {
            name: "a sidecar shares its application's folder, and a second apply changes nothing",
            tell: sidecar,
        },
        Story {
            name: "an application team's file becomes services by the platform team's module",
            tell: shop,
        },
        Story {
            name: "a batch runs under its bound and says how each job ended",
            tell: nightly,
        },
        Story {
            name: "a new version takes over from the old one",
            tell: blue_green,
        },
        Story {
            name: "usage is reported, the largest first",
            tell: usage_report,
        },
        Story {
            name: "teams are let in, and only to their own",
            tell: onboarding,
        },
        Story {
            name: "a program that reads logs restarts what is troubled",
            tell: watch_logs,
        },
        Story {
            name: "the programs of the documentation's pages run as they stand there",
            tell: pages,
        },
        Story {
            name: "a version goes over two nodes, is restarted there, and one node is drained",
            tell: two_nodes,
        },
    ],
    at_the_end: powered_off,
};

/// Runs one of the programs, with what follows its name.
fn example(node: &Node, what: &str) -> Result<String> {
    node.sh(&format!("cd /srv/examples && aurae {what} 2>&1"))
}

fn sidecar(node: &mut Node) -> Result<()> {
    let plan = example(node, "plan sidecar.ts")?;
    ensure!(plan.contains("3 to create"), "the plan: {plan}");
    example(node, "apply sidecar.ts")?;
    let again = example(node, "apply sidecar.ts")?;
    ensure!(again.contains("nothing changed"), "once more: {again}");
    // The application writes a line a second; the follower ends with the first one shipped.
    let shipped = node.sh("timeout 30 aurae logs -f orders/shipper | grep -m 1 order-")?;
    ensure!(shipped.starts_with("order-"), "shipped: {shipped}");
    let limit = node.sh("aurae inspect -o json orders | grep -A1 '\"memory\"'")?;
    ensure!(limit.contains("134217728"), "the cell's limit: {limit}");
    node.sh("aurae rm -rf orders").map(drop)
}

fn shop(node: &mut Node) -> Result<()> {
    example(node, "apply shop.ts")?;
    let shown = node.sh("for one in catalog cart; do aurae inspect -o json $one/main; done")?;
    let running = shown.matches("STATE_RUNNING").count();
    ensure!(running == 2, "{running} services run: {shown}");
    let said = node.sh("timeout 30 aurae logs -f cart/main | head -n 1")?;
    ensure!(said.trim() == "ready", "cart says: {said}");
    let again = example(node, "apply shop.ts")?;
    ensure!(again.contains("nothing changed"), "once more: {again}");
    node.sh("aurae rm -rf catalog && aurae rm -rf cart")
        .map(drop)
}

fn nightly(node: &mut Node) -> Result<()> {
    let said = example(node, "nightly.ts")?;
    for job in ["vacuum", "rollup", "report"] {
        ensure!(said.contains(&format!("{job}: done")), "{job}: {said}");
    }
    let left = node.try_sh("aurae inspect nightly")?;
    ensure!(left.status != 0, "the batch is still there");
    Ok(())
}

fn blue_green(node: &mut Node) -> Result<()> {
    let first = example(node, "blue-green.ts 1.0.0")?;
    ensure!(first.contains("green runs 1.0.0"), "first: {first}");
    let second = example(node, "blue-green.ts 1.1.0")?;
    ensure!(second.contains("blue runs 1.1.0"), "second: {second}");
    let gone = node.try_sh("aurae inspect green")?;
    ensure!(gone.status != 0, "green is still there");
    node.sh("aurae rm -rf blue").map(drop)
}

fn usage_report(node: &mut Node) -> Result<()> {
    node.sh("aurae cell run used && aurae run --cell used --name s -d -- sleep 1000")?;
    let said = example(node, "usage-report.ts")?;
    ensure!(said.contains("used/s"), "the report: {said}");
    node.sh("aurae rm -rf used").map(drop)
}

fn onboarding(node: &mut Node) -> Result<()> {
    example(node, "apply onboarding.ts")?;
    let again = example(node, "apply onboarding.ts")?;
    ensure!(again.contains("nothing changed"), "once more: {again}");
    let cells = node.sh("aurae --tenant payments ps")?;
    ensure!(cells.contains("payments"), "payments has: {cells}");
    let others = node.sh("aurae --tenant search ps")?;
    ensure!(!others.contains("payments"), "search sees: {others}");
    node.sh("aurae --tenant payments rm -rf payments && aurae --tenant search rm -rf search")
        .map(drop)
}

fn watch_logs(node: &mut Node) -> Result<()> {
    node.sh(
        "aurae cell run noisy && aurae run --cell noisy --name app -d -- \
         sh -c 'while sleep 0.2; do echo error: no disk; done'",
    )?;
    let said = node.sh("cd /srv/examples; aurae watch-logs.ts noisy/app 1 2>&1; test $? = 1")?;
    for wanted in ["restarted noisy/app (1)", "is troubled after 1 restarts"] {
        ensure!(said.contains(wanted), "{wanted}: {said}");
    }
    node.sh("aurae rm -rf noisy").map(drop)
}

/// Pages with programs; a block that is marked ```` ```ts run ```` is run, in its page's order.
const PAGES: [&str; 2] = ["tour.md", "modules.md"];
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/language");

fn pages(node: &mut Node) -> Result<()> {
    let mut count = 0;
    for page in PAGES {
        let text = std::fs::read_to_string(format!("{DOCS}/{page}"))?;
        let folder = format!("/tmp/{page}.d");
        let all = snippets(&text);
        for one in &all {
            let path = format!("{folder}/{}", one.name);
            node.sh(&format!(
                "mkdir -p $(dirname {path}) && cat > {path} <<'END OF PAGE'\n{}END OF PAGE",
                one.text
            ))?;
        }
        for one in all.iter().filter(|one| one.runs) {
            node.sh(&format!("cd {folder} && aurae {} 2>&1", one.name))?;
            count += 1;
        }
    }
    ensure!(count >= 4, "only {count} programs are marked to be run");
    let running = node.sh("aurae ps -o name")?;
    for name in ["web-0/app", "cart/main"] {
        ensure!(running.contains(name), "{name} doesn't run: {running}");
    }
    node.sh("aurae rm -rf web-0 && aurae rm -rf cart").map(drop)
}

struct Snippet {
    name: String,
    text: String,
    runs: bool,
}

/// The pieces of TypeScript of a page. The first line may name the file: `// file: web.ts`.
fn snippets(page: &str) -> Vec<Snippet> {
    let mut found: Vec<Snippet> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        match (is_open, line) {
            (false, "```ts" | "```ts run") => {
                is_open = true;
                found.push(Snippet {
                    name: format!("snippet-{}.ts", found.len()),
                    text: String::new(),
                    runs: line.ends_with("run"),
                });
            }
            (true, "```") => is_open = false,
            (true, line) => {
                let Some(last) = found.last_mut() else {
                    continue;
                };
                if let Some(name) = line.strip_prefix("// file: ") {
                    last.name = name.to_owned();
                }
                last.text += line;
                last.text.push('\n');
            }
            _ => {}
        }
    }
    found
}

/// A second node beside the first, with a context each.
const BOB: &str = "export AURAE_CONFIG=/tmp/two.toml; pki=/var/lib/aurae/pki; \
    aurae config set-context alice --address unix:///run/aurae/aurae.sock --ca $pki/ca.pem \
        --certificate $pki/admin.pem --key $pki/admin.key --current && \
    pki=/tmp/bob/state/pki && until [ -S /tmp/bob/run/aurae.sock ]; do sleep 0.1; done && \
    aurae config set-context bob --address unix:///tmp/bob/run/aurae.sock --ca $pki/ca.pem \
        --certificate $pki/admin.pem --key $pki/admin.key";

fn two_nodes(node: &mut Node) -> Result<()> {
    let other = node.start(
        "mkdir -p /tmp/bob && exec auraed --state-dir /tmp/bob/state --run-dir /tmp/bob/run \
         --set paths.cgroup=bob",
    )?;
    node.sh(BOB)?;
    let both = |what: &str| {
        node.sh(&format!(
            "export AURAE_CONFIG=/tmp/two.toml; cd /srv/examples && aurae {what} 2>&1"
        ))
    };
    let canary = both("canary.ts 2.1.0 1s alice bob")?;
    ensure!(canary.contains("2.1.0 runs on 2 nodes"), "canary: {canary}");
    let round = both("rolling-restart.ts front/app alice bob")?;
    for name in ["alice", "bob"] {
        ensure!(
            round.contains(&format!("{name}: front/app is up again: ready 2.1.0")),
            "round: {round}"
        );
    }
    both("cell run moving --label movable=true")?;
    both("run --cell moving --name s --label movable=true -d -- sleep 1000")?;
    let drained = both("drain.ts alice bob")?;
    ensure!(
        drained.contains("moving with 1 executables: alice -> bob"),
        "drained: {drained}"
    );
    let there = both("--node bob ps")?;
    ensure!(there.contains("moving"), "bob has: {there}");
    both("rm -rf front")?;
    node.sh(
        "export AURAE_CONFIG=/tmp/two.toml; for cell in front moving; do \
         aurae --node bob rm -rf $cell; done; pkill -TERM -f '[a]uraed --state-dir /tmp/bob'",
    )?;
    drop(other);
    Ok(())
}
