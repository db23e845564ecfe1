//! The clock method.

use crate::montecarlo::base_table::{base_table, zipped};
use crate::montecarlo::{Action, Style, Workload, run};
use refrain_order::clock::Recorder;
use refrain_order::{
    Call, Completed, Envelope, Finished, Kind, MatchResult, Post, Recording, Stamp,
};

/// Bytes per receive of the gzipped base table and of the record, and per cent permuted.
fn sizes(workload: &Workload) -> (f64, f64, f64) {
    let (mut gzip, mut coded, mut receives, mut moved) = (0, 0, 0, 0);
    for script in run(workload) {
        let mut recorder = Recorder::new(0);
        for action in &script.actions {
            let (site, found) = match action {
                Action::Failed(site) => {
                    recorder.failed(0, Kind::Testsome, *site as u64);
                    continue;
                }
                Action::Found(site, found) => (*site as u64, found),
            };
            let mut tickets = Vec::new();
            let mut finished = Vec::new();
            for (_, stamp) in found {
                let source = stamp.sender as i32;
                let tag = site as i32;
                let post = Post { site: 1, communicator: 0, source: Some(source), tag: Some(tag) };
                let ticket = recorder.post(0, &post);
                tickets.push(Some(ticket));
                let match_result = MatchResult::Matched(Envelope { source, tag });
                finished.push(Finished { ticket, match_result, stamp: Some(*stamp) });
            }
            let these: Vec<u32> = (0..found.len() as u32).collect();
            let call = Call { kind: Kind::Testsome, site, count: these.len() as u32 };
            recorder.completed(0, &call, &tickets, Completed::These(&these), &finished);
        }
        let statistics = recorder.close().statistics();
        receives += statistics.messages;
        moved += statistics.moved;
        coded += statistics.bytes;
        gzip += zipped(&base_table(&script));
    }
    let each = |bytes: u64| bytes as f64 / receives as f64;
    (each(gzip), each(coded), 100.0 * each(moved))
}

#[test]
fn the_record_of_a_monte_carlo_exchange_takes_less_than_a_third_of_the_gzipped_base_table() {
    for latency in [1.0, 4.0, 16.0] {
        let workload = Workload {
            ranks: 16,
            receives: 160_000,
            style: Style::Named,
            everywhere: false,
            control: true,
            latency: [0.5 * latency, latency],
            seed: 1,
        };
        let (gzip, coded, moved) = sizes(&workload);
        println!("{workload:?}: {gzip:.3} B gzip, {coded:.3} B coded, {moved:.1} % permuted");
        assert!(coded < 1.0 && gzip > 3.0 * coded, "{gzip} {coded}");
    }
}

/// Hidden determinism (Sato et al., §6.3): wildcard receives that always get the same message.
#[test]
fn wildcard_receives_in_clock_order_take_less_than_a_fiftieth_of_a_byte() {
    let mut recorder = Recorder::new(0);
    let receives = 100_000u64;
    for n in 0..receives {
        let sender = (n % 4) as u32;
        let post = Post { site: 1, communicator: 0, source: None, tag: Some(3) };
        let ticket = recorder.post(0, &post);
        let stamp = Stamp { sender, sequence: n / 4, clock: n / 4 * 9 };
        let match_result = MatchResult::Matched(Envelope { source: sender as i32, tag: 3 });
        let finished = [Finished { ticket, match_result, stamp: Some(stamp) }];
        let call = Call { kind: Kind::Wait, site: 2, count: 0 };
        recorder.completed(0, &call, &[Some(ticket)], Completed::All, &finished);
    }
    let statistics = recorder.close().statistics();
    assert_eq!((statistics.messages, statistics.moved), (receives, 0));
    let each = statistics.bytes as f64 / receives as f64;
    println!("{each:.5} B a receive");
    assert!(each < 0.02);
}

#[test]
fn receives_without_a_choice_have_no_rows() {
    let mut recorder = Recorder::new(0);
    for n in 0..100_000u64 {
        let post = Post { site: 1, communicator: 0, source: Some(1), tag: Some(3) };
        let ticket = recorder.post(0, &post);
        let stamp = Stamp { sender: 1, sequence: n, clock: n * n % 1000 + n * 1000 };
        let match_result = MatchResult::Matched(Envelope { source: 1, tag: 3 });
        let finished = [Finished { ticket, match_result, stamp: Some(stamp) }];
        let call = Call { kind: Kind::Waitall, site: 2, count: 1 };
        recorder.completed(0, &call, &[Some(ticket)], Completed::All, &finished);
    }
    let statistics = recorder.close().statistics();
    assert_eq!((statistics.messages, statistics.certain), (0, 100_000));
    assert!(statistics.bytes < 1000, "{} bytes", statistics.bytes);
}
