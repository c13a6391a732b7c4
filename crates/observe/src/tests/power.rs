// SPDX-License-Identifier: Apache-2.0
//! The power goes: files end anywhere, the boot id is another. What is left is a true prefix, what
//! is known to be missing is counted.

use std::io::Write;
use std::os::unix::fs::FileExt;

use model::observe::GapReason;
use proptest::prelude::*;

use super::*;
use crate::format::{HEADER, Header};

/// Makes every segment one of a boot that is over.
fn reboot(folder: &folder::Folder) {
    for base in folder.bases().unwrap() {
        let path = folder.index(base);
        let index = std::fs::read(&path).unwrap();
        let header = Header {
            boot: [0xee; 16],
            ..Header::decode(&index).unwrap()
        };
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(&header.encode(), 0).unwrap();
    }
}

/// Prints numbered words in turn on both streams, without an end; what each printed.
async fn printed(root: &Path) -> [Vec<u8>; 2] {
    let (logs, workload) = attached(root, LogsConfig::default(), small()).await;
    let mut all = [Vec::<u8>::new(), Vec::new()];
    let mut total = 0;
    for i in 0..60u32 {
        let text = format!("{i:09} ").repeat((i % 5 + 1) as usize * 30);
        let to = [&workload.stdout, &workload.stderr][(i % 2) as usize];
        (&*to).write_all(text.as_bytes()).unwrap();
        all[(i % 2) as usize].extend(text.as_bytes());
        total += text.len() as u64;
        settled(&logs, &key(1), total).await;
    }
    logs.stop().await.unwrap();
    all
}

fn cut(path: &Path, at: u64, keep_size: bool) {
    let file = File::options().write(true).open(path).unwrap();
    let size = file.metadata().unwrap().len();
    if at < size {
        file.set_len(at).unwrap();
        if keep_size {
            file.set_len(size).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn what_is_left_is_a_prefix_and_the_rest_is_counted(
        cut_index in 0u64..1200, cut_data in 0u64..40_000, zeros: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let root = folder();
            let all = printed(root.path()).await;
            let of = folder::Folder::new(root.path(), &key(1));
            reboot(&of);
            let last = *of.bases().unwrap().last().unwrap();
            cut(&of.index(last), HEADER as u64 + cut_index, zeros);
            cut(&of.data(last), cut_data, false);
            let logs = Logs::start(root.path(), LogsConfig::default()).unwrap();
            let seen = read(&logs, &key(1), ReadOptions::default()).await;
            assert!(seen.ended);
            assert!(all[0].starts_with(&seen.stdout) && all[1].starts_with(&seen.stderr));
            let whole: usize = all.iter().map(Vec::len).sum();
            let left = seen.stdout.len() + seen.stderr.len();
            assert_eq!(seen.gaps.len(), 1, "a log that never ended says that its end is missing");
            assert_eq!(seen.gaps[0].reason, GapReason::PowerLoss);
            assert!(left as u64 + seen.gap_bytes() <= whole as u64);
            // Told once is enough.
            let again = ReadOptions { from: Some(seen.after), ..ReadOptions::default() };
            assert_eq!(read(&logs, &key(1), again).await.gap_bytes(), 0);
            // A workload that takes the log up again writes behind it.
            let workload = Workload::new();
            logs.attach(key(1), workload.sources(), &small()).await.unwrap();
            (&workload.stdout).write_all(b"again").unwrap();
            logs.drained(key(1).uid).await.unwrap();
            let more = read(&logs, &key(1), ReadOptions::default()).await;
            assert_eq!(more.stdout.len(), seen.stdout.len() + 5);
            assert!(more.stdout.ends_with(b"again"));
            assert_eq!(more.gap_bytes(), seen.gap_bytes());
            logs.stop().await.unwrap();
        });
    }
}

#[tokio::test]
async fn a_log_that_ended_in_time_lost_nothing() {
    let root = folder();
    let (logs, workload) = attached(root.path(), LogsConfig::default(), small()).await;
    (&workload.stdout).write_all(b"done\n").unwrap();
    logs.drained(key(1).uid).await.unwrap();
    reboot(&folder::Folder::new(root.path(), &key(1)));
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert_eq!(seen.stdout, b"done\n");
    assert!(seen.ended && seen.gaps.is_empty());
}

#[tokio::test]
async fn a_damaged_header_costs_its_segment_alone() {
    let root = folder();
    let (logs, workload) = attached(root.path(), LogsConfig::default(), small()).await;
    for i in 0..3_000u32 {
        (&workload.stdout)
            .write_all(format!("{i:031}\n").as_bytes())
            .unwrap();
    }
    logs.drained(key(1).uid).await.unwrap();
    let of = folder::Folder::new(root.path(), &key(1));
    let bases = of.bases().unwrap();
    assert!(bases.len() > 2);
    cut(&of.index(bases[1]), 20, false);
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert_eq!(seen.gap_bytes(), bases[2] - bases[1]);
    assert_eq!(seen.gap_bytes() + seen.stdout.len() as u64, 96_000);
}
