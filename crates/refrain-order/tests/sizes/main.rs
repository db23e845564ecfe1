//! How small records are.

mod base_table;
mod montecarlo;

use montecarlo::{Style, Workload, run};
use refrain_order::{Call, Completed, Envelope, Fate, Kind, Post, Recorder};

#[test]
fn a_monte_carlo_exchange_takes_less_than_six_tenths_of_a_byte_a_receive() {
    for ranks in [8, 16] {
        for style in [Style::Named, Style::AnySource] {
            for everywhere in [false, true] {
                let receives = 20_000 * ranks as u64;
                let workload = Workload { ranks, style, everywhere, receives, seed: 1 };
                let outcome = run(&workload);
                let each = outcome.coded() as f64 / outcome.receives as f64;
                let zipped = outcome.table.zipped() as f64 / outcome.receives as f64;
                let plain = outcome.table.plain() as f64 / outcome.receives as f64;
                let polls = outcome.polls as f64 / outcome.receives as f64;
                println!(
                    "{ranks:2} ranks {style:?} everywhere {everywhere}: {polls:.2} failed polls, \
                     {plain:.1} B plain, {zipped:.3} B gzip, {each:.3} B coded, {:.2} x",
                    zipped / each
                );
                if !everywhere {
                    assert!(each <= 0.6 && zipped >= 6.0 * each, "{workload:?}: {each} {zipped}");
                }
            }
        }
    }
}

/// Receives from any source that always come in the same order cost next to nothing.
#[test]
fn a_deterministic_program_that_uses_any_source_stores_next_to_nothing() {
    let receives = 100_000;
    let mut recorder = Recorder::new();
    let mut bytes = Vec::new();
    for n in 0..receives {
        let post = Post { site: 9, communicator: 0, source: None, tag: None };
        let ticket = recorder.post(0, &post);
        let from = Envelope { source: [1, 2, 5, 3, 4, 2][n % 6], tag: (n / 6 % 3) as i32 };
        recorder.resolve(ticket, Fate::Matched(from));
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
