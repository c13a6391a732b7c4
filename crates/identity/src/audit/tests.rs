// SPDX-License-Identifier: Apache-2.0
//! The audit's stories: every kind of tampering shows, crashes don't look like it, denials fold, a
//! full disk degrades and comes back.

use std::process::Command;
use std::sync::Mutex;

use proptest::prelude::*;

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

const SMALL: AuditLimits = AuditLimits {
    segment_bytes: 1500,
    segments: 100,
};

fn open(dir: &Path, limits: AuditLimits, held: &Held) -> Audit {
    Audit::open(dir, limits, held.get(), Box::new(held.clone())).unwrap()
}

fn entry(n: u64) -> Entry {
    Entry {
        actor: format!("spiffe://d/tenant/a/user/u{n}"),
        action: "runtime.Stop".into(),
        tenant: "a".into(),
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
    let held = written(dir.path(), SMALL, 20).await;
    let audit = open(dir.path(), SMALL, &held);
    let last = audit.record(entry(20)).unwrap().unwrap();
    assert_eq!(last, 21);
    audit.settled(last).await.unwrap();
    let verdict = audit.reader().verify(audit.head()).unwrap();
    assert_eq!(verdict.problem, None);
    assert!(verdict.intact);
    assert_eq!(verdict.entries, 21);
    assert!(segment::list(&dir.path().join("audit")).unwrap().len() > 3);
}

/// What somebody with root does to the files while no daemon runs.
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

fn files(dir: &Path) -> Vec<(PathBuf, Vec<String>)> {
    let segments = segment::list(&dir.join("audit")).unwrap();
    let lines = |p: &Path| {
        let text = fs::read_to_string(p).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    segments
        .into_iter()
        .map(|s| (s.file.clone(), lines(&s.file)))
        .collect()
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
        let (first, _) = segment::header(&lines[0]).unwrap();
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
        let held = runtime.block_on(written(dir.path(), SMALL, 20));
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
        let held = written(dir.path(), SMALL, 20).await;
        assert!(tamper(dir.path(), &how));
        let audit = open(dir.path(), SMALL, &held);
        let last = audit.record(entry(99)).unwrap().unwrap();
        assert!(last > 21, "numbers are not used twice: {last}");
        audit.settled(last).await.unwrap();
        let head = audit.head();
        drop(audit);
        let again = open(dir.path(), SMALL, &held);
        let verdict = again.reader().verify(head).unwrap();
        assert!(!verdict.intact, "{how:?}");
        let problem = verdict.problem.unwrap();
        let named = ["missing", "cut off", "not the one", "are gone"];
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
    let held = written(dir.path(), SMALL, 10).await;
    let old = held.get();
    drop(written_on(dir.path(), &held, 5).await);
    // Init holds an older head than the files: lines were written, the daemon died before it could
    // say so.
    let behind = Held(Arc::new(Mutex::new(old)));
    let audit = open(dir.path(), SMALL, &behind);
    let verdict = audit.reader().verify(audit.head()).unwrap();
    assert_eq!(verdict.problem, None);
}

async fn written_on(dir: &Path, held: &Held, lines: u64) -> Audit {
    let audit = open(dir, SMALL, held);
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
    let audit = open(dir.path(), SMALL, &held);
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
    let limits = AuditLimits {
        segments: 3,
        ..SMALL
    };
    let held = written(dir.path(), limits, 60).await;
    let segments = segment::list(&dir.path().join("audit")).unwrap();
    assert_eq!(segments.len(), 3);
    let verdict = verify(dir.path(), held.get().unwrap());
    assert_eq!(verdict.problem, None);
    fs::remove_file(&segments[0].file).unwrap();
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
    while audit.record(entry(written)).is_ok() {
        written += 1;
        assert!(written < 10_000);
    }
    for n in 0..4 {
        audit.record(entry(n)).unwrap_err();
    }
    assert!(audit.health().degraded().unwrap().starts_with("audit: "));
    let bigger = Command::new("mount")
        .args(["-o", "remount,size=1m"])
        .arg(dir.path())
        .status();
    assert!(bigger.unwrap().success());
    let last = audit.record(entry(0)).unwrap().unwrap();
    assert!(audit.health().is_well());
    assert_eq!(last, written + 2, "the gap, and the line");
    let lines = audit
        .reader()
        .read(&Filter::default(), last, 10_000)
        .unwrap();
    let gap = &lines[lines.len() - 2].0;
    assert_eq!((gap.action.as_str(), gap.count), ("audit.Gap", 5));
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
