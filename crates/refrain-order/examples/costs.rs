//! What records cost: bytes a receive, and nanoseconds a call.
//!
//! `cargo run --release -p refrain-order --example costs`

use std::time::Instant;

#[path = "../tests/it/montecarlo/mod.rs"]
mod montecarlo;

use montecarlo::base_table::{base_table, zipped};
use montecarlo::{Action, Script, Style, Workload, record_causally, run};
use refrain_order::{
    Call, Completed, Envelope, Frames, Kind, MatchResult, Post, Recorder, Replayer,
};

fn main() {
    if std::env::args().nth(1).as_deref() == Some("repeat") {
        return repeat();
    }
    println!(
        "ranks style      to         failed   plain  gzip -6  coded   ratio  ns a call  of which sealing"
    );
    println!("                            polls/r  B/r    B/r      B/r");
    for ranks in [8, 16] {
        for style in [Style::Named, Style::AnySource] {
            for everywhere in [false, true] {
                let receives = 20_000 * ranks as u64;
                let workload = workload(ranks, style, everywhere, receives);
                line(&workload, &run(&workload));
            }
        }
    }
    deterministic();
}

/// One workload, recorded again and again: for profilers.
fn repeat() {
    let (ranks, style) = (16, Style::AnySource);
    let scripts = run(&workload(ranks, style, false, 320_000));
    (0..300).for_each(|_| {
        record_causally(&scripts[0], style, &mut Vec::new());
    });
}

fn workload(ranks: usize, style: Style, everywhere: bool, receives: u64) -> Workload {
    Workload { ranks, receives, style, everywhere, control: false, latency: [3.0, 4.0], seed: 2 }
}

/// The least of several repeats, in nanoseconds.
fn least(mut repeat: impl FnMut()) -> f64 {
    let once = |_| {
        let start = Instant::now();
        repeat();
        start.elapsed().as_nanos() as f64
    };
    (0..15).map(once).fold(f64::INFINITY, f64::min)
}

fn line(workload: &Workload, scripts: &[Script]) {
    let each = |bytes: u64| bytes as f64 / workload.receives as f64;
    let is_failed = |action: &&Action| matches!(action, Action::Failed(_));
    let (mut coded, mut plain, mut gzip, mut failed) = (0, 0, 0, 0);
    for script in scripts {
        let (mut bytes, table) = (Vec::new(), base_table(script));
        record_causally(script, workload.style, &mut bytes);
        (coded, plain) = (coded + bytes.len() as u64, plain + table.len() as u64);
        gzip += zipped(&table);
        failed += script.actions.iter().filter(is_failed).count() as u64;
    }
    let (plain, zipped, coded, polls) = (each(plain), each(gzip), each(coded), each(failed));
    let calls = scripts[0].actions.len() as f64;
    let mut sealing = f64::INFINITY;
    let whole = least(|| {
        let time = record_causally(&scripts[0], workload.style, &mut Vec::new());
        sealing = sealing.min(time.as_nanos() as f64);
    });
    let style = format!("{:?}", workload.style);
    let to = if workload.everywhere { "everybody" } else { "torus" };
    println!(
        "{:5} {style:10} {to:10} {polls:7.2} {plain:6.1} {zipped:8.3} {coded:7.3} {:7.2} {:11.1} {:9.1}",
        workload.ranks,
        zipped / coded,
        whole / calls,
        sealing / calls
    );
}

fn deterministic() {
    let receives = 1_000_000;
    let mut bytes = Vec::new();
    let record = |bytes: &mut Vec<u8>| {
        let mut recorder = Recorder::new();
        for n in 0..receives {
            let ticket =
                recorder.post(0, &Post { site: 9, communicator: 0, source: None, tag: None });
            let from = Envelope { source: [1, 2, 5, 3, 4, 2][n % 6], tag: (n / 6 % 3) as i32 };
            recorder.resolve(ticket, MatchResult::Matched(from));
            recorder.matched(0, &Call { kind: Kind::Recv, site: 9, count: 0 }, Completed::All);
            if recorder.is_full(0) {
                recorder.seal(bytes);
            }
        }
        recorder.finish(bytes);
    };
    let time = least(|| record(&mut Vec::new()));
    record(&mut bytes);
    println!(
        "deterministic, any source: {:.5} B a receive, {:.1} ns to record a receive",
        bytes.len() as f64 / receives as f64,
        time / receives as f64
    );
    let time = least(|| {
        let Ok(mut replayer) = Replayer::new(Frames::read(bytes.clone())) else { return };
        for _ in 0..receives {
            let _ = replayer.post(0, &Post { site: 9, communicator: 0, source: None, tag: None });
            let _ = replayer.call(0, &Call { kind: Kind::Recv, site: 9, count: 0 });
        }
    });
    println!("deterministic, any source: {:.1} ns to replay a receive", time / receives as f64);
}
