//! Records of receive orders of every version must stay readable. Their coding is adaptive: after a change of
//! the coding, old records would still decode, but to wrong values. So each is compared with its original
//! content.

use refrain_order::MatchResult;
use refrain_order::causal::read::Reader;
use refrain_trace::Orders;
use std::path::Path;

/// File, calls, wildcard receives, checksum of both.
const RECORDS: &[(&str, u64, u64, u64)] = &[
    ("particles-v1", 545, 971, 8202100917266243076),
    ("particles-v2", 6164, 16257, 7301496205332767395),
    ("threads-v1", 38, 24, 16588429258166980402),
];

/// FNV-1a, word by word.
#[derive(Default)]
struct Sum(u64);

impl Sum {
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3);
    }
}

fn contents(orders: &Orders) -> (u64, u64, u64) {
    let (mut calls, mut receives, mut sum) = (0, 0, Sum(0xcbf2_9ce4_8422_2325));
    for rank in &orders.ranks {
        for stream in 0..rank.frames.streams().len() {
            let mut reader = Reader::new(&rank.frames, stream);
            while let Some(stretch) = reader.next_stretch().expect("a stretch") {
                for (call, picks) in stretch.calls() {
                    let shape = reader.call_shape(call).expect("a shape");
                    [shape.kind as u64, shape.site, call.count.into(), call.polls]
                        .into_iter()
                        .chain(picks.iter().map(|index| u64::from(*index)))
                        .for_each(|word| sum.add(word));
                    calls += 1;
                }
                for receive in &stretch.block.receives {
                    sum.add(reader.post_shape(receive).expect("a shape").site);
                    if let Some(MatchResult::Matched(from)) = receive.match_result {
                        sum.add(from.source as u64);
                        sum.add(from.tag as u64);
                    }
                    receives += 1;
                }
            }
        }
    }
    (calls, receives, sum.0)
}

#[test]
fn records_of_every_version_are_read() {
    let mut found = Vec::new();
    for &(name, ..) in RECORDS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let orders = Orders::open(&folder.join(format!("{name}.refrain"))).expect(name);
        let (calls, receives, sum) = contents(&orders);
        found.push((name, calls, receives, sum));
    }
    assert_eq!(found, RECORDS);
}
