//! Measures the time of a push: `cargo run --release -p refrain-grammar --example speed [WHAT]`, where
//! WHAT is part of the name of a measurement.

use std::hint::black_box;
use std::time::Instant;

use refrain_grammar::Sequitur;

fn main() {
    let body = [1, 2, 3, 4, 4, 4, 4, 4, 5, 6, 7, 5, 6, 7, 5, 6, 7, 8, 4, 4];
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 33) % below) as u32
    };
    let uniform: Vec<u32> = (0..4_000_000).map(|_| random(1024)).collect();
    let loops: Vec<u32> = (0..20_000)
        .flat_map(|_| {
            let inner = 1 + random(12) as usize;
            let early = random(4) as usize;
            let inner = [[11, 12, 13]; 13].into_iter().flatten().take(inner * 3 - early.min(2));
            [9, 10].into_iter().chain(inner).chain(14..80).collect::<Vec<_>>()
        })
        .collect();

    report("a loop of 3 terminals", cycle(&[1, 2, 3], 100_000_000));
    report("a loop of 20 with inner loops", cycle(&body, 100_000_000));
    report("a loop of 5,000", cycle(&(0..5_000).collect::<Vec<_>>(), 50_000_000));
    report("loops of varying length", loops);
    report("random, of 1,024", &uniform);
    report("random, of 1,024, the first million", &uniform[..1_000_000]);
    report("random, of 1,024, the first 100,000", &uniform[..100_000]);
    report("random, of 4", uniform.iter().map(|terminal| terminal % 4).collect::<Vec<_>>());
    report("all different", 0..1_000_000);
}

fn cycle(body: &[u32], times: usize) -> impl Iterator<Item = u32> {
    body.repeat(1 + 1_000 / body.len()).into_iter().cycle().take(times)
}

fn report(what: &str, sequence: impl IntoIterator<Item = impl std::borrow::Borrow<u32>>) {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    if !what.contains(&wanted) {
        return;
    }
    let sequence: Vec<u32> = sequence.into_iter().map(|terminal| *terminal.borrow()).collect();
    let mut sequitur = Sequitur::new();
    let start = Instant::now();
    for &terminal in &sequence {
        sequitur.push(black_box(terminal));
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / sequence.len() as f64;
    let megabytes = sequitur.memory() as f64 / 1e6;
    let grammar = sequitur.grammar();
    let mut bytes = Vec::new();
    grammar.encode(&mut bytes);
    println!(
        "{what:36} {nanoseconds:7.2} ns/push {megabytes:7.1} MB {:9} symbols {:9} bytes",
        grammar.symbols(),
        bytes.len()
    );
}
