// SPDX-License-Identifier: Apache-2.0
//! The audit's stories: every kind of tampering shows, crashes don't look like it, denials fold, a
//! full disk degrades and comes back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use model::quota::{Amount, Capacity, Limits, Quota, Quotas};
use proptest::prelude::*;

use super::disk::Disk;
use super::*;

#[derive(Clone, Default)]
struct Held(Arc<Mutex<Option<Head>>>);

impl Held {
    fn get(&self) -> Option<Head> {
        *self.0.lock().unwrap()
    }
}

impl AuditHeadSink for Held {
    fn put(&self, sequence: u64, hash: Hash) {
        *self.0.lock().unwrap() = Some(Head { sequence, hash });
    }
}

/// Files of three lines, as many as there may be.
fn small() -> AuditLimits {
    AuditLimits {
        segment_bytes: 1500,
        ..AuditLimits::default()
    }
}

/// A node that keeps so much of the audit, a fifth of it for itself, and the tenants' quotas.
fn bounded(whole: u64, quotas: &[(&str, u64)]) -> AuditLimits {
    let quota = |bytes| Quotas([(Quota::AuditBytes, Amount::Absolute(bytes))].into());
    let set = quotas.iter().map(|(t, b)| (t.parse().unwrap(), quota(*b)));
    let limits = Arc::new(Limits {
        capacity: Capacity {
            whole: [(Quota::AuditBytes, whole)].into(),
            reserve: 200,
        },
        set: set.collect(),
    });
    AuditLimits {
        segment_bytes: 1500,
        ..AuditLimits::of(move || Arc::clone(&limits))
    }
}

fn open(dir: &Path, limits: AuditLimits, held: &Held) -> Audit {
    Audit::open(dir, limits, held.get(), Box::new(held.clone())).unwrap()
}

/// Of two tenants and an administrator in turn.
fn entry(n: u64) -> Entry {
    entry_of(["a", "b", "system"][n as usize % 3], n)
}

fn entry_of(tenant: &str, n: u64) -> Entry {
    Entry {
        actor: format!("spiffe://d/tenant/{tenant}/user/u{n}"),
        action: "runtime.Stop".into(),
        tenant: tenant.to_owned(),
        path: format!("web/{n}"),
        allowed: true,
        policies: vec!["builtin.tenant".into()],
        ..Entry::default()
    }
}

fn denial(n: u64) -> Entry {
    Entry {
        allowed: false,
        policies: vec![],
        ..entry(n)
    }
}

/// A closed audit of `lines` lines, and what init holds of it.
async fn written(dir: &Path, limits: AuditLimits, lines: u64) -> Held {
    let held = Held::default();
    let audit = open(dir, limits, &held);
    let mut last = 0;
    for n in 0..lines {
        last = audit.record(entry(n)).unwrap().unwrap();
    }
    audit.settled(last).await.unwrap();
    assert_eq!(held.get().unwrap(), audit.head());
    held
}

fn verify(dir: &Path, head: Head) -> Verdict {
    Reader::new(dir.join("audit")).verify(head).unwrap()
}

#[tokio::test]
async fn an_untouched_chain_over_many_files_and_starts_is_intact() {
    let dir = tempfile::tempdir().unwrap();
    let held = written(dir.path(), small(), 20).await;
    let audit = open(dir.path(), small(), &held);
    let last = audit.record(entry(20)).unwrap().unwrap();
    assert_eq!(last, 21);
    audit.settled(last).await.unwrap();
    let verdict = audit.reader().verify(audit.head()).unwrap();
    assert_eq!(verdict.problem, None);
    assert!(verdict.intact);
    assert_eq!(verdict.entries, 21);
    assert!(segments(dir.path()).len() > 5);
}

/// What a user with root does to the files while no daemon runs.
#[derive(Clone, Debug)]
enum Tampering {
    FlipByte(usize),
    DropLine(usize),
    DoubleLine(usize),
    SwapLines(usize),
    CutTail(usize),
    DropFile(usize),
    /// Changes a line and computes all hashes after it anew.
    Rewrite(usize),
    DropEverything,
}

fn tampering() -> impl Strategy<Value = Tampering> {
    prop_oneof![
        (0usize..100_000).prop_map(Tampering::FlipByte),
        (0usize..1000).prop_map(Tampering::DropLine),
        (0usize..1000).prop_map(Tampering::DoubleLine),
        (0usize..1000).prop_map(Tampering::SwapLines),
        (1usize..20).prop_map(Tampering::CutTail),
        (0usize..1000).prop_map(Tampering::DropFile),
        (0usize..1000).prop_map(Tampering::Rewrite),
        Just(Tampering::DropEverything),
    ]
}

/// Every file with its lines, chain by chain.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let lines = |p: &Path| {
        let text = fs::read_to_string(p).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let segments = segments(dir).into_iter();
    segments.map(|s| (s.file.clone(), lines(&s.file))).collect()
}

fn segments(dir: &Path) -> Vec<segment::Segment> {
    let dir = dir.join("audit");
    let owners = chain::owners(&dir).unwrap().into_iter();
    let of = |owner| segment::list(&chain::folder(&dir, &owner)).unwrap();
    owners.flat_map(of).collect()
}

fn store(files: &[(PathBuf, Vec<String>)]) {
    for (path, lines) in files {
        let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
        fs::write(path, text).unwrap();
    }
}

/// Applies it; `false` where it would change nothing.
fn tamper(dir: &Path, how: &Tampering) -> bool {
    let mut all = files(dir);
    let count = all.len();
    match how {
        Tampering::FlipByte(at) => {
            let (path, _) = &all[at % count];
            let mut bytes = fs::read(path).unwrap();
            let at = (at / count) % bytes.len();
            bytes[at] ^= 1;
            fs::write(path, bytes).unwrap();
            return true;
        }
        Tampering::DropFile(n) => {
            fs::remove_file(&all[n % count].0).unwrap();
            return true;
        }
        Tampering::DropEverything => {
            fs::remove_dir_all(dir.join("audit")).unwrap();
            fs::create_dir(dir.join("audit")).unwrap();
            return true;
        }
        Tampering::DropLine(n) => {
            let (_, lines) = &mut all[n % count];
            lines.remove(n / count % lines.len());
        }
        Tampering::DoubleLine(n) => {
            let (_, lines) = &mut all[n % count];
            let at = n / count % lines.len();
            lines.insert(at, lines[at].clone());
        }
        Tampering::SwapLines(n) => {
            let (_, lines) = &mut all[n % count];
            if lines.len() < 3 {
                return false;
            }
            let at = 1 + n / count % (lines.len() - 2);
            lines.swap(at, at + 1);
        }
        Tampering::CutTail(n) => {
            let (_, lines) = all.last_mut().unwrap();
            let keep = lines.len().saturating_sub(*n).max(1);
            if keep == lines.len() {
                return false;
            }
            lines.truncate(keep);
        }
        Tampering::Rewrite(n) => rewrite(&mut all, *n),
    }
    store(&all);
    true
}

fn rewrite(all: &mut [(PathBuf, Vec<String>)], n: usize) {
    let total: usize = all.iter().map(|(_, l)| l.len() - 1).sum();
    let victim = n % total;
    let (mut seen, mut previous) = (0, [0; 32]);
    for (_, lines) in all {
        let (first, begin) = segment::header(&lines[0]).unwrap();
        if begin == [0; 32] {
            previous = begin;
        }
        lines[0] = format!(
            "{{\"segment\":{first},\"previous\":\"{}\"}}",
            hex(&previous)
        );
        for line in lines.iter_mut().skip(1) {
            let (mut entry, _) = entry::parse(line).unwrap();
            if seen == victim {
                entry.actor = "spiffe://d/tenant/a/user/innocent".into();
            }
            seen += 1;
            let (sealed, hash) = entry::seal(&entry, &previous).unwrap();
            *line = sealed.trim_end().to_owned();
            previous = hash;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn every_tampering_shows_against_the_head_that_init_holds(how in tampering()) {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let held = runtime.block_on(written(dir.path(), small(), 20));
        prop_assert!(verify(dir.path(), held.get().unwrap()).intact);
        if tamper(dir.path(), &how) {
            let verdict = verify(dir.path(), held.get().unwrap());
            prop_assert!(!verdict.intact, "{how:?} went unseen");
            prop_assert!(verdict.problem.is_some());
        }
    }
}

#[tokio::test]
async fn a_tail_cut_between_two_daemons_is_noted_for_ever() {
    for how in [
        Tampering::CutTail(2),
        Tampering::DropEverything,
        Tampering::Rewrite(3),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let held = written(dir.path(), small(), 20).await;
        assert!(tamper(dir.path(), &how));
        let audit = open(dir.path(), small(), &held);
        let last = audit.record(entry(99)).unwrap().unwrap();
        assert!(last > 21, "numbers are not used twice: {last}");
        audit.settled(last).await.unwrap();
        let head = audit.head();
        drop(audit);
        let again = open(dir.path(), small(), &held);
        let verdict = again.reader().verify(head).unwrap();
        assert!(!verdict.intact, "{how:?}");
        let problem = verdict.problem.unwrap();
        let named = ["missing", "cut off", "are not those", "are gone"];
        assert!(
            named.iter().any(|n| problem.contains(n)),
            "{how:?}: {problem}"
        );
    }
}

#[tokio::test]
async fn a_line_torn_by_a_crash_is_taken_off_and_no_tampering() {
    let dir = tempfile::tempdir().unwrap();
    let held = written(dir.path(), AuditLimits::default(), 5).await;
    let file = segment::list(&dir.path().join("audit"))
        .unwrap()
        .pop()
        .unwrap()
        .file;
    let mut torn = File::options().append(true).open(&file).unwrap();
    torn.write_all(b"{\"sequence\":6,\"ti").unwrap();
    let audit = open(dir.path(), AuditLimits::default(), &held);
    let last = audit.record(entry(6)).unwrap().unwrap();
    audit.settled(last).await.unwrap();
    let verdict = audit.reader().verify(audit.head()).unwrap();
    assert_eq!(verdict.problem, None);
    assert_eq!(verdict.entries, 7, "five, the note, and the new one");
}

#[tokio::test]
async fn a_crash_in_the_making_of_a_file_keeps_no_node_from_starting() {
    for header in ["", "{\"segment\":6,\"prev"] {
        let dir = tempfile::tempdir().unwrap();
        let held = written(dir.path(), AuditLimits::default(), 5).await;
        let half = dir.path().join("audit/audit-00000000000000000006.jsonl");
        fs::write(&half, header).unwrap();
        let audit = open(dir.path(), AuditLimits::default(), &held);
        let last = audit.record(entry(6)).unwrap().unwrap();
        audit.settled(last).await.unwrap();
        let verdict = audit.reader().verify(audit.head()).unwrap();
        assert_eq!((verdict.problem, verdict.entries), (None, 6));
    }
}

#[tokio::test]
async fn an_unsynced_tail_after_kill_9_is_no_tampering() {
    let dir = tempfile::tempdir().unwrap();
    let held = written(dir.path(), small(), 10).await;
    let old = held.get();
    drop(written_on(dir.path(), &held, 5).await);
    // Init holds an older head than the files: lines were written, the daemon died before it could
    // say so.
    let behind = Held(Arc::new(Mutex::new(old)));
    let audit = open(dir.path(), small(), &behind);
    let verdict = audit.reader().verify(audit.head()).unwrap();
    assert_eq!(verdict.problem, None);
}

async fn written_on(dir: &Path, held: &Held, lines: u64) -> Audit {
    let audit = open(dir, small(), held);
    for n in 0..lines {
        audit.record(entry(n)).unwrap();
    }
    audit.settled(audit.head().sequence).await.unwrap();
    audit
}

#[tokio::test]
async fn repeated_denials_become_one_line_with_a_count() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::default();
    let audit = open(dir.path(), AuditLimits::default(), &held);
    for _ in 0..1000 {
        audit.record(denial(1)).unwrap();
    }
    audit.record(denial(2)).unwrap();
    audit.flush();
    let upto = audit.head().sequence;
    let lines = audit.reader().read(&Filter::default(), upto, 100).unwrap();
    let counts: Vec<u64> = lines.iter().map(|(e, _)| e.count).collect();
    assert_eq!(counts, [1, 1, 999]);
    assert!(audit.reader().verify(audit.head()).unwrap().intact);
}

#[tokio::test]
async fn reading_filters_goes_on_and_crosses_files() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::default();
    let audit = open(dir.path(), small(), &held);
    let mut reader = audit.reader();
    for n in 0..30 {
        let made = if n % 3 == 0 { denial(n) } else { entry(n) };
        audit.record(made).unwrap();
        if n == 9 {
            let page = reader
                .read(&Filter::default(), audit.head().sequence, 1000)
                .unwrap();
            assert_eq!(page.len(), 10);
        }
    }
    let head = audit.head().sequence;
    let rest = reader.read(&Filter::default(), head, 1000).unwrap();
    let numbers: Vec<u64> = rest.iter().map(|(e, _)| e.sequence).collect();
    assert_eq!(numbers, (11..=30).collect::<Vec<_>>());
    assert!(
        reader
            .read(&Filter::default(), head, 1000)
            .unwrap()
            .is_empty()
    );

    let denied = Filter {
        denied_only: true,
        ..Filter::default()
    };
    assert_eq!(audit.reader().read(&denied, head, 1000).unwrap().len(), 10);
    let of = Filter {
        actor: Some("u7".into()),
        action: Some("runtime".into()),
        ..Filter::default()
    };
    assert_eq!(audit.reader().read(&of, head, 1000).unwrap().len(), 1);
    let future = Filter {
        since_ns: Some(i64::MAX),
        ..Filter::default()
    };
    assert!(audit.reader().read(&future, head, 1000).unwrap().is_empty());
}

#[tokio::test]
async fn retired_files_leave_a_chain_that_verifies_and_others_may_not_go() {
    let dir = tempfile::tempdir().unwrap();
    let limits = bounded(1 << 20, &[("a", 5000)]);
    let held = written(dir.path(), limits, 90).await;
    let of_a = segment::list(&dir.path().join("audit/tenants/a")).unwrap();
    assert!((2..6).contains(&of_a.len()), "{of_a:?}");
    assert!(of_a[0].first > 1);
    let verdict = verify(dir.path(), held.get().unwrap());
    assert_eq!(verdict.problem, None);
    fs::remove_file(&of_a[0].file).unwrap();
    let verdict = verify(dir.path(), held.get().unwrap());
    assert!(verdict.problem.unwrap().contains("no line says"));
}

#[tokio::test]
async fn a_full_disk_degrades_and_the_gap_is_counted_once_it_works_again() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(dir.path())
        .status();
    if !mounted.is_ok_and(|s| s.success()) {
        testkit::skip("mounting a tmpfs needs root");
        return;
    }
    let held = Held::default();
    let audit = open(dir.path(), AuditLimits::default(), &held);
    let mut written = 0;
    while audit.record(entry_of("system", written)).is_ok() {
        written += 1;
        assert!(written < 10_000);
    }
    for n in 0..4 {
        audit.record(entry_of("system", n)).unwrap_err();
    }
    assert!(audit.health().degraded().unwrap().starts_with("audit: "));
    let bigger = Command::new("mount")
        .args(["-o", "remount,size=1m"])
        .arg(dir.path())
        .status();
    assert!(bigger.unwrap().success());
    let last = audit.record(entry_of("system", 0)).unwrap().unwrap();
    assert!(audit.health().is_well());
    let lines = audit
        .reader()
        .read(&Filter::default(), last, 10_000)
        .unwrap();
    // The line of a gap is shorter than those before it, so one may have found room on the full
    // disk, and what failed after it is in a second one.
    let gaps = lines.iter().map(|(line, _)| line);
    let gaps: Vec<u64> = gaps
        .filter(|line| line.action == "audit.Gap")
        .map(|line| line.count)
        .collect();
    assert_eq!(gaps.iter().sum::<u64>(), 5, "{gaps:?}");
    let told = u64::try_from(gaps.len()).unwrap();
    assert_eq!(last, written + told + 1, "the gaps, and the line");
    assert!(audit.reader().verify(audit.head()).unwrap().intact);
    drop(audit);
    assert!(
        Command::new("umount")
            .arg("-l")
            .arg(dir.path())
            .status()
            .unwrap()
            .success()
    );
}

/// `fdatasync` of a character device is refused, and reported for that call alone, as the kernel
/// reports pages that it could not write back.
#[tokio::test]
async fn a_line_that_was_not_written_back_stays_in_doubt_though_later_ones_are_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::default();
    let audit = open(dir.path(), AuditLimits::default(), &held);
    let first = audit.record(entry(1)).unwrap().unwrap();
    audit.settled(first).await.unwrap();
    audit.break_for_test("/dev/null");
    let lost = audit.record(entry(2)).unwrap().unwrap();
    audit.settled(lost).await.unwrap_err();
    assert!(!audit.health().is_well());

    let later = audit.record(entry(3)).unwrap().unwrap();
    let mut commits = audit.commits();
    commits.wait_for(|s| *s >= later).await.unwrap();
    audit.settled(later).await.unwrap();
    assert!(audit.health().is_well(), "a file of its own is on disk");
    audit.settled(lost).await.unwrap_err();
    let lines = audit.reader().read(&Filter::default(), later, 10).unwrap();
    let gap = lines.iter().find(|l| l.0.action == NOTE_GAP).unwrap();
    assert!(gap.0.note.contains(&format!("lines {lost} to {lost} ")));
    assert!(!audit.reader().verify(audit.head()).unwrap().intact);
}

#[test]
fn a_sync_that_began_before_a_failure_confirms_nothing() {
    let mut disk = Disk::new(4);
    let began = disk.standing();
    disk.failed(7);
    assert!(
        !disk.confirm(began, 6),
        "the failure may be of these very lines"
    );
    disk.begun_anew();
    assert!(!disk.confirm(began, 8), "it was the old file's sync");
    disk.failed(9);
    disk.begun_anew();
    assert!(disk.confirm(disk.standing(), 12));
    let doubted: Vec<u64> = (1..=12).filter(|line| disk.doubts(*line)).collect();
    assert_eq!(doubted, [5, 6, 7, 8, 9]);
}

/// Who wrote each line that is there, the notes of the audit itself left out.
fn whose(audit: &Audit) -> BTreeMap<String, usize> {
    let upto = audit.head().sequence;
    let all = audit.reader().read(&Filter::default(), upto, usize::MAX);
    let mut lines = BTreeMap::new();
    for (entry, _) in all.unwrap() {
        if let Some(tenant) = fold::tenant_of(&entry.actor) {
            *lines.entry(tenant.to_owned()).or_default() += 1;
        }
    }
    lines
}

#[tokio::test]
async fn a_tenant_that_fills_its_part_of_the_audit_takes_no_other_tenants_lines() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::default();
    let limits = bounded(1 << 20, &[("loud", 20_000), ("quiet", 20_000)]);
    let audit = open(dir.path(), limits.clone(), &held);
    let [loud, quiet, system] = ["loud", "quiet", "system"].map(|t| t.parse::<Tenant>().unwrap());
    for n in 0..20 {
        audit.record(entry_of("quiet", n)).unwrap();
        audit.record(entry_of("system", n)).unwrap();
    }
    for n in 0..3000 {
        // Also what it was denied of others' objects is its own doing.
        let mut tried = entry_of("loud", n);
        tried.tenant = "quiet".into();
        tried.allowed = n % 2 == 0;
        audit.record(tried).unwrap();
        assert!(audit.bytes(&loud) <= 20_000, "{}", audit.bytes(&loud));
    }
    let lines = whose(&audit);
    assert_eq!((lines["quiet"], lines["system"]), (20, 20));
    assert!((20..60).contains(&lines["loud"]), "{lines:?}");
    let files = [
        ("tenants/loud", loud),
        ("tenants/quiet", quiet),
        ("", system),
    ];
    for (folder, tenant) in files {
        let listed = segment::list(&dir.path().join("audit").join(folder)).unwrap();
        let bytes = listed.iter().map(|s| fs::metadata(&s.file).unwrap().len());
        assert_eq!(audit.bytes(&tenant), bytes.sum::<u64>(), "{tenant}");
    }
    audit.flush();
    let head = audit.head();
    drop(audit);
    let again = open(dir.path(), limits, &held);
    assert_eq!(again.head(), head);
    assert_eq!(again.reader().verify(head).unwrap().problem, None);
}

#[tokio::test]
async fn where_all_tenants_have_too_much_audit_the_fullest_gives_and_the_node_keeps_its_reserve() {
    let dir = tempfile::tempdir().unwrap();
    let whole = 100_000;
    let audit = open(dir.path(), bounded(whole, &[]), &Held::default());
    for n in 0..30 {
        audit.record(entry_of("system", n)).unwrap();
    }
    // Each may have a quarter; six of them can't.
    for n in 0..600 {
        for tenant in ["a", "b", "c", "d", "e", "f"] {
            audit.record(entry_of(tenant, n)).unwrap();
        }
    }
    let bytes = |tenant: &str| audit.bytes(&tenant.parse().unwrap());
    let tenants: u64 = ["a", "b", "c", "d", "e", "f"].map(bytes).iter().sum();
    assert!(tenants <= whole / 5 * 4, "{tenants}");
    assert!(tenants > whole / 2, "{tenants}");
    assert_eq!(whose(&audit)["system"], 30);
    assert!(audit.reader().verify(audit.head()).unwrap().intact);
}

#[tokio::test]
async fn an_audit_in_one_chain_of_an_earlier_daemon_is_read_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let audit = dir.path().join("audit");
    fs::create_dir(&audit).unwrap();
    // As it was written then: every tenant's lines in one chain, its newest hash with init.
    let (mut file, _) = segment::create(&audit, 1, &[0; 32]).unwrap();
    let mut hash = [0; 32];
    for n in 1..=9 {
        let mut entry = entry(n);
        (entry.sequence, entry.count) = (n, 1);
        let (line, sealed) = entry::seal(&entry, &hash).unwrap();
        file.write_all(line.as_bytes()).unwrap();
        hash = sealed;
    }
    let held = Held(Arc::new(Mutex::new(Some(Head { sequence: 9, hash }))));
    let audit = open(dir.path(), small(), &held);
    for n in 10..=12 {
        audit.record(entry(n)).unwrap();
    }
    audit.settled(12).await.unwrap();
    let lines = audit.reader().read(&Filter::default(), 12, 100).unwrap();
    let actors: Vec<_> = lines.iter().map(|(e, _)| e.actor.clone()).collect();
    let expected: Vec<_> = (1..=12).map(|n| entry(n).actor).collect();
    assert_eq!(actors, expected);
    assert_eq!(audit.reader().verify(audit.head()).unwrap().problem, None);
    // An older head than the files', after kill -9.
    drop(audit);
    let behind = Held(Arc::new(Mutex::new(Some(Head { sequence: 9, hash }))));
    let audit = open(dir.path(), small(), &behind);
    assert_eq!(audit.head().sequence, 12, "nothing to note");
}

#[tokio::test]
async fn a_tenants_lines_that_are_gone_are_missed() {
    let dir = tempfile::tempdir().unwrap();
    let held = written(dir.path(), small(), 21).await;
    fs::remove_dir_all(dir.path().join("audit/tenants/b")).unwrap();
    let verdict = verify(dir.path(), held.get().unwrap());
    assert!(verdict.problem.unwrap().contains("missing"));
    let audit = open(dir.path(), small(), &held);
    let verdict = audit.reader().verify(audit.head()).unwrap();
    assert!(
        verdict
            .problem
            .unwrap()
            .contains("are not those that were written")
    );
}

#[tokio::test]
async fn a_quota_that_is_lowered_holds_from_the_next_line_on() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = Arc::new(Mutex::new(100_000));
    let now = Arc::clone(&bytes);
    let limits = AuditLimits {
        segment_bytes: 1500,
        ..AuditLimits::of(move || (bounded(1 << 20, &[("a", *now.lock().unwrap())]).limits)())
    };
    let audit = open(dir.path(), limits, &Held::default());
    let tenant: Tenant = "a".parse().unwrap();
    for n in 0..200 {
        audit.record(entry_of("a", n)).unwrap();
    }
    assert!(audit.bytes(&tenant) > 50_000);
    *bytes.lock().unwrap() = 10_000;
    audit.record(entry_of("a", 200)).unwrap();
    assert!(audit.bytes(&tenant) <= 10_000, "{}", audit.bytes(&tenant));
}

/// A slow disk: the syncer is behind while a tenant's lines are retired by its newer ones.
#[tokio::test]
async fn the_head_that_is_held_is_of_lines_that_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let held = Held::default();
    let limits = bounded(1 << 20, &[("loud", 20_000)]);
    let audit = open(dir.path(), limits.clone(), &held);
    let first = audit.record(entry_of("quiet", 0)).unwrap().unwrap();
    audit.settled(first).await.unwrap();
    // One critical section: the syncer gets no turn.
    let shared = &audit.shared;
    shared.writing(|state| {
        for n in 0..300 {
            shared.append(state, entry_of("loud", n)).unwrap();
        }
    });
    // As after `kill -9`: the lines are in their files, the head where it was put last.
    let at = held.get();
    let again = Audit::open(dir.path(), limits, at, Box::new(held.clone())).unwrap();
    assert!(at.unwrap().sequence > first);
    assert_eq!(again.reader().verify(again.head()).unwrap().problem, None);
}

/// A line may be written on the way to one that then fails: of a gap, or of what was retired.
#[tokio::test]
async fn a_line_reaches_the_disk_also_where_what_wrote_it_failed() {
    let dir = tempfile::tempdir().unwrap();
    let audit = open(dir.path(), AuditLimits::default(), &Held::default());
    let first = audit.record(entry(1)).unwrap().unwrap();
    audit.settled(first).await.unwrap();
    // Nothing is left to do: the syncer sleeps until it is woken.
    let shared = &audit.shared;
    let second = shared.writing(|state| shared.append(state, note("x", "x".to_owned())).unwrap());
    let mut synced = audit.commits();
    let reached = synced.wait_for(|sequence| *sequence >= second);
    let reached = tokio::time::timeout(Duration::from_secs(60), reached).await;
    reached.expect("the syncer was not woken").unwrap();
}
