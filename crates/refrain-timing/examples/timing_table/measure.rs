//! Measures one mode on the calls of a trace.

use crate::calls::Stream;
use anyhow::Result;
use refrain_timing::{Bounds, Calls, Mode, Scratch, Times, decode, encode};
use std::fmt;
use std::time::Instant;

/// The settings that are the same for all modes.
pub struct Setup {
    /// Error bounds.
    pub bounds: Bounds,
    /// Calls in a block.
    pub block: usize,
    /// Runs per measurement.
    pub runs: usize,
}

/// A line of the table.
#[derive(Default)]
pub struct Row {
    name: String,
    /// Compression ratios of durations, intervals, and both.
    ratios: [f64; 3],
    /// Signal-to-noise ratios of durations and intervals.
    psnr: [f64; 2],
    encode: f64,
    decode: f64,
}

impl Row {
    /// The heading of the table.
    pub const HEAD: &str = "mode           ratio dur  ratio int    ratio   PSNR dur   PSNR int  \
                            encode ns  decode ns";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [durations, gaps, both] = self.ratios;
        let [duration_psnr, gap_psnr] = self.psnr;
        write!(f, "{:14} {durations:9.2}  {gaps:9.2}  {both:7.2}", self.name)?;
        write!(f, "  {duration_psnr:9.1}  {gap_psnr:9.1}  {:9.1}  {:9.1}", self.encode, self.decode)
    }
}

/// Divides a stream into blocks.
fn blocks(stream: &Stream, block: usize) -> impl Iterator<Item = Calls<'_>> {
    let mut next_start = Some(stream.start);
    (0..stream.terminals.len()).step_by(block).map(move |from| {
        let to = (from + block).min(stream.terminals.len());
        let (gaps, durations) = (&stream.gaps[from..to], &stream.durations[from..to]);
        let start = next_start.unwrap_or(0);
        let sum = gaps[1..].iter().chain(durations).fold(start, |sum, ticks| sum + ticks);
        next_start = stream.gaps.get(to).map(|gap| sum + gap);
        let before = &stream.terminals[from.saturating_sub(4)..from];
        Calls { before, terminals: &stream.terminals[from..to], gaps, durations, start }
    })
}

/// Measures encoding and decoding in one mode.
pub fn mode(setup: &Setup, mode: Mode, streams: &[Stream]) -> Result<Row> {
    let mut scratch = Scratch::default();
    let zeros = vec![0; setup.block];
    // Bytes with durations only, intervals only, both, and neither.
    let mut sizes = [0; 4];
    let mut blocks_of = Vec::new();
    for calls in streams.iter().flat_map(|stream| blocks(stream, setup.block)) {
        let zeros = &zeros[..calls.terminals.len()];
        let durations = Calls { gaps: zeros, ..calls };
        let gaps = Calls { durations: zeros, ..calls };
        let neither = Calls { gaps: zeros, ..gaps };
        let mut bytes = Vec::new();
        for (calls, size) in [durations, gaps, neither, calls].iter().zip([0, 1, 3, 2]) {
            bytes.clear();
            encode(mode, &setup.bounds, calls, &mut scratch, &mut bytes)?;
            sizes[size] += bytes.len();
        }
        blocks_of.push((calls, bytes));
    }
    let calls: usize = streams.iter().map(|stream| stream.terminals.len()).sum();
    let mut out = Vec::with_capacity(setup.block * 32);
    let encode_ns = least(setup.runs, &blocks_of, |(calls, _)| {
        out.clear();
        Ok(encode(mode, &setup.bounds, calls, &mut scratch, &mut out)?)
    })?;
    let decode_ns = least(setup.runs, &blocks_of, |(calls, bytes)| {
        decode(bytes, calls.before, calls.terminals)?;
        Ok(())
    })?;
    let decoded = blocks_of
        .iter()
        .map(|(calls, bytes)| decode(bytes, calls.before, calls.terminals))
        .collect::<Result<Vec<Times>, _>>()?;
    let pairs = || blocks_of.iter().map(|(calls, _)| calls).zip(&decoded);
    let durations = pairs().flat_map(|(calls, times)| calls.durations.iter().zip(&times.durations));
    let gaps = pairs().flat_map(|(calls, times)| calls.gaps.iter().zip(&times.gaps));
    let ratio = |bytes: usize, size: usize| (calls * bytes) as f64 / size as f64;
    let [durations_size, gaps_size, both_size, neither_size] = sizes;
    let column = |size: usize| ratio(8, size - neither_size / 2);
    Ok(Row {
        name: mode.to_string(),
        ratios: [column(durations_size), column(gaps_size), ratio(16, both_size)],
        psnr: [psnr(durations), psnr(gaps)],
        encode: encode_ns / calls as f64,
        decode: decode_ns / calls as f64,
    })
}

/// Measures a general compressor on plain columns.
pub fn plain(
    name: &str,
    setup: &Setup,
    streams: &[Stream],
    compress: fn(&[u64]) -> Result<Vec<u8>>,
) -> Result<Row> {
    let all: Vec<_> = streams.iter().flat_map(|stream| blocks(stream, setup.block)).collect();
    let calls: usize = all.iter().map(|calls| calls.terminals.len()).sum();
    let compressed = |column: for<'a> fn(&Calls<'a>) -> &'a [u64]| {
        all.iter().map(|calls| Ok(compress(column(calls))?.len())).sum::<Result<usize>>()
    };
    let sizes = [compressed(|calls| calls.durations)?, compressed(|calls| calls.gaps)?];
    let encode = least(setup.runs, &all, |calls| {
        compress(calls.durations)?;
        compress(calls.gaps)?;
        Ok(())
    })? / calls as f64;
    let of = |bytes: usize, size: usize| (calls * bytes) as f64 / size as f64;
    let ratios = [of(8, sizes[0]), of(8, sizes[1]), of(16, sizes[0] + sizes[1])];
    Ok(Row { name: name.into(), ratios, psnr: [f64::INFINITY; 2], encode, decode: f64::NAN })
}

/// By pco.
pub fn pco(column: &[u64]) -> Result<Vec<u8>> {
    let config = pco::ChunkConfig::default().with_compression_level(4);
    Ok(pco::standalone::simple_compress(column, &config)?)
}

/// By zstd.
pub fn zstd(column: &[u64]) -> Result<Vec<u8>> {
    let bytes: Vec<u8> = column.iter().flat_map(|value| value.to_le_bytes()).collect();
    Ok(zstd::bulk::compress(&bytes, 1)?)
}

/// Nanoseconds for all blocks, from the fastest run of each, so that other programs do not disturb.
fn least<T>(runs: usize, blocks: &[T], mut run: impl FnMut(&T) -> Result<()>) -> Result<f64> {
    let mut least = vec![f64::INFINITY; blocks.len()];
    for _ in 0..runs {
        for (block, least) in blocks.iter().zip(&mut least) {
            let begun = Instant::now();
            run(block)?;
            *least = least.min(begun.elapsed().as_nanos() as f64);
        }
    }
    Ok(least.iter().sum())
}

fn psnr<'a>(pairs: impl Iterator<Item = (&'a u64, &'a u64)>) -> f64 {
    let (mut least, mut most, mut squares, mut n) = (u64::MAX, 0, 0.0, 0.0);
    for (value, decoded) in pairs {
        (least, most) = (least.min(*value), most.max(*value));
        squares += (value.abs_diff(*decoded) as f64).powi(2);
        n += 1.0;
    }
    20.0 * (most.saturating_sub(least) as f64 / (squares / f64::max(n, 1.0)).sqrt()).log10()
}
