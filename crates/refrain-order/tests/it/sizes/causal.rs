//! The causal method.

use crate::montecarlo::base_table::{base_table, zipped};
use crate::montecarlo::{Action, Style, Workload, record_causally, run};
use refrain_order::{Call, Completed, Envelope, Kind, MatchResult, Post, Recorder};

#[test]
fn a_monte_carlo_exchange_takes_less_than_six_tenths_of_a_byte_a_receive() {
    for ranks in [8, 16] {
        for style in [Style::Named, Style::AnySource] {
            for everywhere in [false, true] {
                let receives = 20_000 * ranks as u64;
                let (control, latency) = (false, [3.0, 4.0]);
                let workload =
                    Workload { ranks, receives, style, everywhere, control, latency, seed: 1 };
                let (mut coded, mut plain, mut gzip, mut failed) = (0, 0, 0, 0);
                for script in run(&workload) {
                    let (mut bytes, table) = (Vec::new(), base_table(&script));
                    record_causally(&script, style, &mut bytes);
                    (coded, plain) = (coded + bytes.len() as u64, plain + table.len() as u64);
                    gzip += zipped(&table);
                    let is_failed = |action: &&Action| matches!(action, Action::Failed(_));
                    failed += script.actions.iter().filter(is_failed).count() as u64;
                }
                let each = |bytes: u64| bytes as f64 / receives as f64;
                let (polls, plain) = (each(failed), each(plain));
                let (gzip, each) = (each(gzip), each(coded));
                println!(
                    "{ranks:2} ranks {style:?} everywhere {everywhere}: {polls:.2} failed polls, \
                     {plain:.1} B plain, {gzip:.3} B gzip, {each:.3} B coded, {:.2} x",
                    gzip / each
                );
                if !everywhere {
                    assert!(each <= 0.6 && gzip >= 6.0 * each, "{workload:?}: {each} {gzip}");
                }
            }
        }
    }
}

/// Wildcard receives that are always matched in the same order.
#[test]
fn a_deterministic_program_that_uses_any_source_stores_next_to_nothing() {
    let receives = 100_000;
    let mut recorder = Recorder::new();
    let mut bytes = Vec::new();
    for n in 0..receives {
        let post = Post { site: 9, communicator: 0, source: None, tag: None };
        let ticket = recorder.post(0, &post);
        let from = Envelope { source: [1, 2, 5, 3, 4, 2][n % 6], tag: (n / 6 % 3) as i32 };
        recorder.resolve(ticket, MatchResult::Matched(from));
        let call = Call { kind: Kind::Recv, site: 9, count: 0 };
        recorder.matched(0, &call, Completed::All);
        if recorder.is_full(0) {
            recorder.seal(&mut bytes);
        }
    }
    recorder.finish(&mut bytes);
    let each = bytes.len() as f64 / receives as f64;
    println!("{each:.5} B a receive, {} B", bytes.len());
    assert!(each <= 0.01);
}
