//! What delays cost a job whose ranks have a core each: a simulation of ranks that wait for their neighbours.
//!
//! Each rank has six random neighbours. In each step it computes for a random time, makes a few calls,
//! and waits for the messages of this step from its neighbours. Each call is delayed twice, before it is
//! forwarded and after it has returned, by times drawn from a measured histogram. So a rank that is
//! delayed delays its neighbours, and they theirs.

use crate::Figure;
use refrain_testing::random::Random;
use std::fmt::Write as _;

/// How many neighbours a rank has on average; half of them by each of so many permutations of all ranks.
const NEIGHBOURS: usize = 6;
/// A receive and a send for each neighbour, and a call that completes them.
const CALLS: usize = 2 * NEIGHBOURS + 1;
const STEPS: usize = 2000;
/// A rank computes for a time between these, in nanoseconds, as the ranks of `multigrid.c` do.
const COMPUTES: [f64; 2] = [5e3, 40e3];
/// What a call and a message take without the agent.
const CALL: f64 = 300.0;
const MESSAGE: f64 = 1e3;

/// The numbers of ranks.
const RANKS: [usize; 2] = [64, 1024];

/// Delays in nanoseconds, each with how often it was measured.
pub type Histogram = Vec<(f64, u64)>;

/// The delays of the agent before it worked in pieces, counted as today: `multigrid` on 2 ranks.
const BEFORE: &str = include_str!("stalls-before.txt");

/// Reads lines of nanoseconds and counts; others are comments.
pub fn before() -> Histogram {
    let line = |line: &str| {
        let (nanoseconds, count) = line.split_once(' ')?;
        Some((nanoseconds.parse().ok()?, count.parse().ok()?))
    };
    BEFORE.lines().filter_map(line).collect()
}

/// Draws from a histogram.
struct Draw<'a> {
    histogram: &'a [(f64, u64)],
    /// For each value, how many values come before it or are it.
    sums: Vec<u64>,
}

impl<'a> Draw<'a> {
    fn new(histogram: &'a [(f64, u64)]) -> Draw<'a> {
        let mut sum = 0;
        let sums = histogram.iter().map(|(_, n)| {
            sum += n;
            sum
        });
        Draw { histogram, sums: sums.collect() }
    }

    fn draw(&self, random: &mut Random) -> f64 {
        let Some(all) = self.sums.last() else { return 0.0 };
        let number = random.next() % all;
        self.histogram[self.sums.partition_point(|sum| *sum <= number)].0
    }
}

/// The result of a simulation: seconds of the job, and the delays of an average rank.
struct Run {
    seconds: f64,
    delayed: f64,
}

/// Simulates a job. Ranks compute the same in every simulation.
fn simulate(ranks: usize, delays: &[(f64, u64)]) -> Run {
    let (mut random, mut drawn) = (Random::new(ranks as u64), Random::new(ranks as u64 + 1));
    let delays = Draw::new(delays);
    let mut neighbours = vec![Vec::new(); ranks];
    for _ in 0..NEIGHBOURS / 2 {
        let mut others: Vec<usize> = (0..ranks).collect();
        for rank in (1..ranks).rev() {
            others.swap(rank, random.below(rank + 1));
        }
        for (rank, other) in others.into_iter().enumerate() {
            neighbours[rank].push(other);
            neighbours[other].push(rank);
        }
    }
    let mut now = vec![0.0f64; ranks];
    let mut delayed = 0.0;
    for _ in 0..STEPS {
        let mut sent = now.clone();
        for time in &mut sent {
            *time += COMPUTES[0] + random.unit() * (COMPUTES[1] - COMPUTES[0]);
            for _ in 0..2 * CALLS {
                let delay = delays.draw(&mut drawn);
                delayed += delay;
                *time += CALL / 2.0 + delay;
            }
        }
        for (rank, time) in now.iter_mut().enumerate() {
            let arrivals = neighbours[rank].iter().map(|other| sent[*other] + MESSAGE);
            *time = arrivals.fold(sent[rank], f64::max);
        }
    }
    let last = now.into_iter().fold(0.0, f64::max);
    Run { seconds: last / 1e9, delayed: delayed / ranks as f64 / 1e9 }
}

/// Simulates jobs with these delays; returns a table and the figures.
pub fn measure(kinds: &[(&str, &Histogram)]) -> (String, Vec<Figure>) {
    let mut table = format!(
        "\nsimulated: {:<24}{:>10} {:>10} {:>12} {:>14}\n",
        "ranks, a core each", "seconds", "longer", "delays a rank", "cost of delays"
    );
    let mut figures = Vec::new();
    for ranks in RANKS {
        let plain = simulate(ranks, &[]).seconds;
        let _ = writeln!(table, "  {ranks:>5} plain {:>33.4}", plain);
        for (kind, histogram) in kinds {
            let Run { seconds, delayed } = simulate(ranks, histogram);
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "  {ranks:>5} {kind:<24} {seconds:>13.4} {:>8.2} % {:>10.4} s {:>12.2} times",
                100.0 * (seconds / plain - 1.0),
                delayed,
                (seconds - plain) / delayed
            );
            figures.push(Figure {
                name: format!("simulated @{ranks}, {kind}"),
                detail: format!("{plain:.4} s plain, {seconds:.4} s with delays"),
                value: seconds / plain,
                bound: f64::INFINITY,
                unit: "times plain",
            });
        }
    }
    (table, figures)
}
