//! The ladder of Sato et al., figure 13, on a Monte-Carlo-like exchange, and how fast it is.
//!
//! `cargo run --release -p refrain-order --example ladder`

use std::time::Instant;

use refrain_order::clock::background::Background;
use refrain_order::clock::encoder::Statistics;
use refrain_order::clock::table::{BaseRow, Message, Table};
use refrain_order::clock::{Encoder, Recorder};
use refrain_order::{
    Call, Completed, Envelope, Finished, Kind, MatchResult, Post, Recording, Stamp, Ticket,
};

#[path = "../tests/it/montecarlo/mod.rs"]
mod montecarlo;

use montecarlo::base_table::{base_table, zipped};
use montecarlo::{Action, CONTROL, PARTICLES, Script, Style, Workload, run};

/// A rank's base table: rows of all calls, as they come.
fn base(script: &Script) -> Vec<BaseRow> {
    let mut rows: Vec<BaseRow> = Vec::new();
    for action in &script.actions {
        match action {
            Action::Failed(_) => match rows.last_mut() {
                Some(BaseRow { count, found: None }) => *count += 1,
                _ => rows.push(BaseRow { count: 1, found: None }),
            },
            Action::Found(_, found) => {
                for (n, (_, stamp)) in found.iter().enumerate() {
                    let message = Message { sender: stamp.sender, clock: stamp.clock };
                    let with_next = n + 1 < found.len();
                    rows.push(BaseRow { count: 1, found: Some((message, with_next)) });
                }
            }
        }
    }
    rows
}

/// The three tables of §3.2.
fn reduced(rows: &[BaseRow]) -> Vec<u8> {
    let table = Table::of(rows);
    let mut bytes = Vec::new();
    table.matched.iter().for_each(|one| bytes.extend_from_slice(&one.sender.to_le_bytes()));
    table.matched.iter().for_each(|one| bytes.extend_from_slice(&one.clock.to_le_bytes()));
    table.with_next.iter().for_each(|one| bytes.extend_from_slice(&one.to_le_bytes()));
    table.unmatched.iter().for_each(|one| bytes.extend_from_slice(&one.0.to_le_bytes()));
    table.unmatched.iter().for_each(|one| bytes.extend_from_slice(&one.1.to_le_bytes()));
    bytes
}

/// Tells a recorder of either method what a rank did. With `apart`, each place has a table.
fn tell(script: &Script, recorder: &mut impl Recording, apart: bool) {
    let site = |kind: usize| if apart { 0x4000 + kind as u64 } else { 0x4000 };
    let kind = |kind: usize| {
        if kind == PARTICLES || !apart { Kind::Testsome } else { Kind::Testany }
    };
    let post = |slot: usize| Post {
        site: 0x3000 + slot as u64,
        communicator: 0,
        source: script.sources.get(slot).map(|source| *source as i32),
        tag: Some(if slot < script.sources.len() { 1 } else { 2 }),
    };
    let mut tickets: Vec<Ticket> =
        (0..=script.sources.len()).map(|slot| recorder.post(0, &post(slot))).collect();
    for action in &script.actions {
        match action {
            Action::Failed(place) => recorder.failed(0, kind(*place), site(*place)),
            Action::Found(place, found) => {
                let own: Vec<Option<Ticket>> = match *place {
                    CONTROL => vec![tickets.last().copied()],
                    _ => tickets[..script.sources.len()].iter().copied().map(Some).collect(),
                };
                let indices: Vec<u32> = found.iter().map(|(slot, _)| *slot).collect();
                let finished = |(slot, stamp): &(u32, Stamp)| {
                    let ticket = own[*slot as usize]?;
                    let from = Envelope {
                        source: stamp.sender as i32,
                        tag: if *place == CONTROL { 2 } else { 1 },
                    };
                    Some(Finished {
                        ticket,
                        match_result: MatchResult::Matched(from),
                        stamp: Some(*stamp),
                    })
                };
                let finished: Vec<Finished> = found.iter().filter_map(finished).collect();
                let call = Call { kind: kind(*place), site: site(*place), count: own.len() as u32 };
                recorder.completed(0, &call, &own, Completed::These(&indices), &finished);
                for (slot, _) in found {
                    let slot =
                        if *place == CONTROL { script.sources.len() } else { *slot as usize };
                    tickets[slot] = recorder.post(0, &post(slot));
                }
            }
        }
    }
}

fn recorded(script: &Script, apart: bool) -> (usize, Statistics) {
    let mut recorder = Recorder::new(0);
    tell(script, &mut recorder, apart);
    let encoder: Encoder = recorder.close();
    (encoder.statistics().bytes as usize, encoder.statistics())
}

fn causal(script: &Script) -> usize {
    let mut recorder = refrain_order::Recorder::new();
    let mut bytes = Vec::new();
    tell(script, &mut recorder, true);
    recorder.finish(&mut bytes);
    bytes.len()
}

fn ladder(workload: &Workload) {
    let scripts = run(workload);
    let rows: Vec<Vec<BaseRow>> = scripts.iter().map(base).collect();
    let found = |rows: &Vec<BaseRow>| rows.iter().filter(|row| row.found.is_some()).count();
    let receives: usize = rows.iter().map(found).sum();
    let sum = |sizes: &mut dyn Iterator<Item = usize>| sizes.sum::<usize>();
    let raw = rows.iter().map(|rows| rows.len() * 162).sum::<usize>() / 8;
    let gzip = sum(&mut scripts.iter().map(|script| zipped(&base_table(script)) as usize));
    let reduction = sum(&mut rows.iter().map(|rows| zipped(&reduced(rows)) as usize));
    let together = sum(&mut scripts.iter().map(|script| recorded(script, false).0));
    let whole = sum(&mut scripts.iter().map(|script| recorded(script, true).0));
    let causal = sum(&mut scripts.iter().map(causal));
    let statistics: Vec<Statistics> =
        scripts.iter().map(|script| recorded(script, true).1).collect();
    let moved: u64 = statistics.iter().map(|one| one.moved).sum();
    println!(
        "{workload:?}: {receives} receives, {:.1} % permuted",
        100.0 * moved as f64 / receives as f64
    );
    let methods = [
        ("raw, 162 bits a row", raw),
        ("gzip", gzip),
        ("CDC (RE)", reduction),
        ("CDC (RE + PE + LPE)", together),
        ("CDC, tables by place", whole),
        ("causal", causal),
    ];
    for (name, bytes) in methods {
        let each = bytes as f64 / receives as f64;
        println!(
            "  {name:22} {bytes:9} B  {each:7.3} B a receive  gzip / it {:5.2}",
            gzip as f64 / bytes as f64
        );
    }
}

fn speed(script: &Script) {
    let receives: usize = base(script).iter().filter(|row| row.found.is_some()).count();
    let least = |mut work: Box<dyn FnMut() + '_>| {
        let once = |_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        };
        (0..7).map(once).fold(f64::INFINITY, f64::min)
    };
    let inline = least(Box::new(|| {
        recorded(script, true);
    }));
    let behind = least(Box::new(|| {
        let Ok(background) = Background::start(std::io::sink()) else { return };
        let mut recorder = Recorder::with(0, background);
        tell(script, &mut recorder, true);
        let _ = recorder.close().finish();
    }));
    let rate = |seconds: f64| receives as f64 / seconds / 1000.0;
    println!("recording and encoding in one thread: {:.0} k receives/s", rate(inline));
    println!("through the queue, drained to the end: {:.0} k receives/s", rate(behind));
}

fn main() {
    let workload = |ranks: usize, receives: u64, latency: f64, seed: u64| {
        let (style, latency) = (Style::Named, [0.5 * latency, latency]);
        Workload { ranks, receives, style, everywhere: false, control: true, latency, seed }
    };
    for latency in [1.0, 4.0, 16.0] {
        ladder(&workload(16, 320_000, latency, 3));
    }
    let scripts = run(&workload(8, 1_600_000, 4.0, 4));
    speed(&scripts[0]);
}
