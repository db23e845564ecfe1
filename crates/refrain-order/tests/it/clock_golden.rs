//! Records of all earlier versions must stay readable.

use refrain_order::clock::loaded::Row;
use refrain_order::clock::summary::{each_call, summary};
use std::path::Path;

/// File, calls, polls, messages, messages moved, checksum of all rows.
const RECORDS: &[(&str, u64, u64, u64, u64, u64)] =
    &[("v17", 2000, 2000, 1862, 669, 6898485445418215041)];

/// FNV-1a, word by word.
fn checksum(record: &[u8]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |word: u64| sum = (sum ^ word).wrapping_mul(0x0100_0000_01b3);
    each_call(record, |key, found| {
        let call = [key.stream.into(), key.site, found.position, found.polls];
        call.into_iter().for_each(&mut add);
        for row in &found.rows {
            let words = match row {
                Row::Message(position, claim) => [*position as u64, *claim as u64],
                Row::Other(_) => [u64::MAX; 2],
            };
            words.into_iter().for_each(&mut add);
        }
    })
    .expect("a record");
    sum
}

#[test]
fn records_of_every_version_are_read() {
    let mut found = Vec::new();
    for &(name, ..) in RECORDS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let record = std::fs::read(folder.join(format!("{name}.order"))).expect(name);
        let read = summary(&record).expect(name);
        assert!(read.complete && read.truncated.is_none(), "{name}");
        let all = read.all;
        let sum = checksum(&record);
        found.push((name, all.calls, all.polls, all.messages, all.moved, sum));
    }
    assert_eq!(found, RECORDS);
}
