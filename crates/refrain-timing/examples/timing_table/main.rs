//! Measures compression ratio, error and speed of each timing mode on the times of real programs.
//!
//! ```text
//! refrain trace --raw -o lammps.refrain -- mpirun -n 8 lmp -in in.melt
//! cargo run --release -p refrain-timing --example timing_table -- lammps.refrain
//! ```
//!
//! The ratio is 8 bytes per time (16 per call) divided by the size of all blocks. The ratio of one
//! column is measured with the other column set to zero. PSNR is 20 log10(range / root mean square
//! error) in decibels, over all ranks. Nanoseconds are per call, from the fastest run of each block.
//! `pco` and `zstd` compress the plain columns, block by block, for comparison.

mod calls;
mod measure;

use anyhow::Result;
use clap::Parser;
use measure::{Row, Setup};
use refrain_timing::{Bounds, Mode};
use std::path::PathBuf;

/// Tables like those of Pilgrim §4.5.
#[derive(Parser)]
struct Args {
    /// Traces with raw records.
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// Calls in a block.
    #[arg(long, default_value_t = 16_384)]
    block: usize,
    /// The relative error.
    #[arg(long, default_value_t = 0.1)]
    error: f64,
    /// The absolute error, in ticks.
    #[arg(long, default_value_t = 26_000)]
    error_abs: u64,
    /// Runs per measurement.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Only these modes.
    #[arg(long, value_delimiter = ',')]
    modes: Vec<Mode>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let bounds = Bounds::relative(args.error)?.with_absolute(args.error_abs);
    let setup = Setup { bounds, block: args.block, runs: args.runs };
    for trace in &args.traces {
        let streams = calls::of(trace)?;
        let calls: usize = streams.iter().map(|stream| stream.terminals.len()).sum();
        println!("{}: {} streams, {calls} calls", trace.display(), streams.len());
        println!("{}", Row::HEAD);
        for mode in Mode::ALL {
            let wanted = args.modes.is_empty() || args.modes.contains(&mode);
            if wanted && mode.is_available() {
                println!("{}", measure::mode(&setup, mode, &streams)?);
            }
        }
        if args.modes.is_empty() {
            println!("{}", measure::plain("pco", &setup, &streams, measure::pco)?);
            println!("{}", measure::plain("zstd", &setup, &streams, measure::zstd)?);
        }
        println!();
    }
    Ok(())
}
