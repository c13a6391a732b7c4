// SPDX-License-Identifier: Apache-2.0
//! `aurae top`: CPU, memory and I/O of cells and executables. Redrawn on a terminal until `q` or
//! Ctrl-C; elsewhere, or with `--once`, printed once.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::pin::pin;
use std::time::Duration;

use api::observe::v0::{Usage, UsageRequest, UsageResponse, WatchUsageRequest};
use api::quota::Quota;
use api::runtime::v0::ObjectRef;
use api::tenant::v0::{GetRequest, ListRequest, QuotaStatus, TenantStatus};
use client::Node;
use tokio::sync::oneshot;
use tonic::{Request, Status};

use super::tenant::of_limit;
use crate::attach::RawMode;
use crate::failure::Failure;
use crate::output::{Cell, Color, OutputArgs, Style, Table, print, print_message, reference};
use crate::quantity::{parse_duration, show_bytes};
use crate::session::Session;
use crate::spec::wire_duration;

const EXAMPLES: &str = "\
Examples:
  aurae top
  aurae top --interval 5s web
  aurae top --once -o json";

/// From which CPU's share on a row stands out, in percent.
const BUSY: f64 = 80.0;

/// `aurae top`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// Print it once, with CPU time instead of shares
    #[arg(long)]
    once: bool,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    interval: Duration,
    #[command(flatten)]
    output: OutputArgs,
    /// Only these, instead of everything
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Shows it once or live.
pub(crate) async fn run(session: &Session, args: &TopArgs) -> Result<u8, Failure> {
    let mut refs = Vec::new();
    for name in &args.names {
        refs.push(reference(&session.find_or_suggest(name, "top").await?));
    }
    let live = std::io::stdout().is_terminal() && !args.once && !args.output.output.is_machine();
    let whose = Whose::find(session, args).await;
    if live {
        return watch(session, args, refs, whose).await;
    }
    let request = UsageRequest {
        refs,
        tenant: session.tenant(),
    };
    let usage = async |node: &Node| {
        let request = node.unary(request.clone());
        node.observe().usage(request).await
    };
    let answer = session.ask(usage).await?;
    if args.output.output.is_machine() {
        print_message(args.output.output, &answer)?;
    } else {
        let tenants = whose.ask(&session.node).await;
        print(&table(&tenants, &answer, None).render(session.style))?;
    }
    Ok(0)
}

/// Which tenants have a row.
enum Whose {
    /// Every one: the caller may list them.
    Every,
    /// This one; empty: the caller's own.
    One(String),
    /// None: objects were named.
    None,
}

impl Whose {
    /// Asked once, so that a member's watching leaves one denial in the audit, not one per look.
    async fn find(session: &Session, args: &TopArgs) -> Self {
        if !args.names.is_empty() || args.output.output.is_machine() {
            return Self::None;
        }
        let request = session.node.unary(ListRequest {});
        match session.node.tenant().list(request).await {
            Ok(_) => Self::Every,
            Err(_) => Self::One(
                Some(session.tenant())
                    .filter(|t| t != "*")
                    .unwrap_or_default(),
            ),
        }
    }

    /// As of now. What a node refuses, or is too old to tell, has no row: the table is of objects
    /// first.
    async fn ask(&self, node: &Node) -> Vec<TenantStatus> {
        let mut client = node.tenant();
        match self {
            Self::Every => {
                let all = client.list(node.unary(ListRequest {})).await;
                all.map(|all| all.into_inner().tenants).unwrap_or_default()
            }
            Self::One(name) => {
                let request = node.unary(GetRequest {
                    name: name.clone(),
                    ..GetRequest::default()
                });
                let one = client.get(request).await.map(tonic::Response::into_inner);
                one.into_iter().collect()
            }
            Self::None => Vec::new(),
        }
    }
}

async fn watch(
    session: &Session,
    args: &TopArgs,
    refs: Vec<ObjectRef>,
    whose: Whose,
) -> Result<u8, Failure> {
    let request = WatchUsageRequest {
        refs,
        tenant: session.tenant(),
        interval: Some(wire_duration(args.interval)),
    };
    let mut before: Option<UsageResponse> = None;
    let mut node = session.node.clone();
    let _screen = Screen::enter()?;
    let mut left = pin!(left());
    // The screen stays as it was while the daemon is away.
    loop {
        let shown = show(session.style, &node, request.clone(), &whose, &mut before);
        let lost = tokio::select! {
            shown = shown => shown?,
            left = &mut left => return left,
        };
        let Some(lost) = lost else { return Ok(0) };
        node = tokio::select! {
            node = session.reconnect(lost.into()) => node?,
            left = &mut left => return left,
        };
    }
}

/// Waits for the key that ends the view.
async fn left() -> Result<u8, Failure> {
    if !std::io::stdin().is_terminal() {
        let _ = tokio::signal::ctrl_c().await;
        return Ok(0);
    }
    let _keys = RawMode::keys()?;
    let (pressed, quit) = oneshot::channel::<()>();
    // A thread of its own, which is never joined: a read of a terminal can't be called back.
    std::thread::spawn(move || {
        let keys = std::io::stdin().lock().bytes();
        let _quit_or_gone = keys.map_while(Result::ok).any(|key| key == b'q');
        drop(pressed);
    });
    tokio::select! {
        _ = quit => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(0)
}

/// Draws each answer of the node until the stream or the connection ends.
async fn show(
    style: Style,
    node: &Node,
    request: WatchUsageRequest,
    whose: &Whose,
    before: &mut Option<UsageResponse>,
) -> Result<Option<Status>, Failure> {
    let mut answers = match node.observe().watch_usage(Request::new(request)).await {
        Ok(answers) => answers.into_inner(),
        Err(status) => return Ok(Some(status)),
    };
    loop {
        match answers.message().await {
            Ok(Some(answer)) => {
                let tenants = whose.ask(node).await;
                draw(style, &tenants, &answer, before.as_ref())?;
                *before = Some(answer);
            }
            Ok(None) => return Ok(None),
            Err(status) => return Ok(Some(status)),
        }
    }
}

fn draw(
    style: Style,
    tenants: &[TenantStatus],
    answer: &UsageResponse,
    before: Option<&UsageResponse>,
) -> Result<(), Failure> {
    // A serial console doesn't know its size and says 0.
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let known = size.ok().filter(|size| size.ws_row > 0);
    let rows = known.map_or(24, |size| size.ws_row);
    let mut text = String::from("\x1b[H");
    let title = format!("{} objects; q leaves", answer.usage.len());
    text.push_str(&format!(
        "{}\x1b[K\n\x1b[K\n",
        style.paint(Color::Bold, &title)
    ));
    let table = table(tenants, answer, before).render(style.measured(&std::io::stdout()));
    for line in table.lines().take(usize::from(rows).saturating_sub(3)) {
        text.push_str(line);
        text.push_str("\x1b[K\n");
    }
    text.push_str("\x1b[J");
    print(&text)
}

/// The terminal's alternate screen without a cursor, until this is dropped.
struct Screen;

impl Screen {
    fn enter() -> Result<Self, Failure> {
        print("\x1b[?1049h\x1b[?25l\x1b[2J")?;
        Ok(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no putting back.
        let _ = print("\x1b[?25h\x1b[?1049l");
    }
}

/// Tenants, with their use beside the limit, and below them objects. With an earlier answer, shares
/// of a CPU since then; without, the time used so far.
fn table(
    tenants: &[TenantStatus],
    answer: &UsageResponse,
    before: Option<&UsageResponse>,
) -> Table {
    const HEADINGS: [&str; 9] = [
        "NAME", "CPU", "MEMORY", "PEAK", "SWAP", "PIDS", "READ", "WRITTEN", "LOGS",
    ];
    let mut table = Table::new(&HEADINGS).right(HEADINGS.get(1..).unwrap_or_default());
    let earlier: BTreeMap<&str, &Usage> = before
        .iter()
        .flat_map(|answer| &answer.usage)
        .filter_map(|usage| Some((usage.r#ref.as_ref()?.uid.as_str(), usage)))
        .collect();
    let seconds = before.and_then(|before| seconds_between(before, answer));
    let mut rows: Vec<&Usage> = answer.usage.iter().collect();
    rows.sort_by_key(|usage| {
        usage
            .r#ref
            .as_ref()
            .map(|r| r.path.split('/').collect::<Vec<_>>())
    });
    for tenant in tenants {
        table.push(tenant_row(tenant));
    }
    for usage in rows {
        let uid = usage
            .r#ref
            .as_ref()
            .map(|r| r.uid.as_str())
            .unwrap_or_default();
        let share = seconds.and_then(|seconds| share(earlier.get(uid).copied(), usage, seconds));
        table.push(row(usage, before.is_some(), share));
    }
    table
}

fn seconds_between(before: &UsageResponse, after: &UsageResponse) -> Option<f64> {
    let (before, after) = (before.time.as_ref()?, after.time.as_ref()?);
    let whole = after.seconds.checked_sub(before.seconds)? as f64;
    let seconds = whole + f64::from(after.nanos - before.nanos) / 1e9;
    (seconds > 0.0).then_some(seconds)
}

/// In percent of one CPU.
fn share(before: Option<&Usage>, after: &Usage, seconds: f64) -> Option<f64> {
    let used = after.cpu_usage_usec?.checked_sub(before?.cpu_usage_usec?)?;
    Some(used as f64 / 1e4 / seconds)
}

fn tenant_row(tenant: &TenantStatus) -> Vec<Cell> {
    let of = |quota: Quota, shown: fn(&QuotaStatus) -> Cell| {
        let found = tenant.usage.iter().find(|s| s.quota == quota.as_str());
        found.map_or_else(|| "-".into(), shown)
    };
    let unknown = || Cell::from("-");
    vec![
        format!("tenant {}", tenant.name).into(),
        of(Quota::CpuMax, of_cpus),
        of(Quota::MemoryMax, of_limit),
        unknown(),
        unknown(),
        of(Quota::Pids, of_limit),
        of(Quota::IoReadBytes, of_rate),
        of(Quota::IoWriteBytes, of_rate),
        of(Quota::LogBytes, of_limit),
    ]
}

/// In percent of one CPU, as objects have it, of the last second or more: `50.0%/150%`.
fn of_cpus(status: &QuotaStatus) -> Cell {
    let Some(used) = status.used else {
        return "-".into();
    };
    let limit = match status.limit {
        Some(limit) => format!("{}%", limit / 10),
        None => "max".to_owned(),
    };
    let full = status.limit.is_some_and(|limit| used >= limit);
    let text = format!("{}.{}%/{limit}", used / 10, used % 10);
    Cell::colored(text, full.then_some(Color::Yellow))
}

/// Objects have totals in the same column, so it says that this is a second's: `1.00Mi/10.0Mi/s`,
/// or `1.00Mi/s` where there is no limit.
fn of_rate(status: &QuotaStatus) -> Cell {
    let Some(used) = status.used else {
        return "-".into();
    };
    let text = match status.limit {
        Some(limit) => format!("{}/{}/s", show_bytes(used), show_bytes(limit)),
        None => format!("{}/s", show_bytes(used)),
    };
    let full = status.limit.is_some_and(|limit| used >= limit);
    Cell::colored(text, full.then_some(Color::Yellow))
}

fn row(usage: &Usage, live: bool, share: Option<f64>) -> Vec<Cell> {
    let bytes = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), show_bytes);
    let cpu = match (live, share, usage.cpu_usage_usec) {
        (true, Some(share), _) => {
            let color = (share >= BUSY).then_some(Color::Yellow);
            Cell::colored(format!("{share:.1}%"), color)
        }
        (false, _, Some(micros)) => format!("{:.2}s", micros as f64 / 1e6).into(),
        _ => "-".into(),
    };
    let path = usage
        .r#ref
        .as_ref()
        .map(|r| r.path.clone())
        .unwrap_or_default();
    vec![
        path.into(),
        cpu,
        bytes(usage.memory_bytes).into(),
        bytes(usage.memory_peak_bytes).into(),
        bytes(usage.swap_bytes).into(),
        usage
            .pids
            .map_or_else(|| "-".to_owned(), |pids| pids.to_string())
            .into(),
        bytes(usage.io_read_bytes).into(),
        bytes(usage.io_write_bytes).into(),
        bytes(usage.log_bytes).into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(seconds: i64, micros: u64) -> UsageResponse {
        UsageResponse {
            time: Some(prost_types::Timestamp { seconds, nanos: 0 }),
            usage: vec![Usage {
                r#ref: Some(ObjectRef {
                    path: "web".into(),
                    uid: "u".into(),
                    ..Default::default()
                }),
                cpu_usage_usec: Some(micros),
                memory_bytes: Some(64 << 20),
                ..Default::default()
            }],
        }
    }

    #[test]
    fn once_it_is_time_and_what_is_unknown_is_no_zero() {
        assert_eq!(
            table(&[], &answer(1, 1_500_000), None).render(Style::PLAIN),
            "NAME    CPU  MEMORY  PEAK  SWAP  PIDS  READ  WRITTEN  LOGS\n\
             web   1.50s  64.0Mi     -     -     -     -        -     -\n"
        );
    }

    #[test]
    fn live_it_is_a_share_of_one_cpu_since_the_last_look() {
        let text = table(&[], &answer(3, 2_000_000), Some(&answer(1, 1_000_000)));
        let text = text.render(Style::PLAIN);
        assert!(text.contains("50.0%"), "{text}");
    }

    #[test]
    fn a_tenant_has_a_row_with_its_use_beside_its_limits() {
        let status = |quota: Quota, used, limit| QuotaStatus {
            quota: quota.to_string(),
            used: Some(used),
            limit,
            ..Default::default()
        };
        let tenant = TenantStatus {
            name: "blue".into(),
            usage: vec![
                status(Quota::CpuMax, 253, Some(1500)),
                status(Quota::MemoryMax, 12 << 20, Some(480 << 20)),
                status(Quota::Pids, 9, None),
                status(Quota::IoReadBytes, 1 << 20, Some(10 << 20)),
                status(Quota::IoWriteBytes, 2048, None),
                status(Quota::LogBytes, 2048, Some(8 << 30)),
            ],
            ..Default::default()
        };
        assert_eq!(
            table(&[tenant], &answer(1, 1_500_000), None).render(Style::PLAIN),
            "NAME                CPU        MEMORY  PEAK  SWAP   PIDS             READ   \
             WRITTEN           LOGS\n\
             tenant blue  25.3%/150%  12.0Mi/480Mi     -     -  9/max  1.00Mi/10.0Mi/s  \
             2.00Ki/s  2.00Ki/8.00Gi\n\
             web               1.50s        64.0Mi     -     -      -                -         \
             -              -\n"
        );
    }
}
