//! Times by SZ3 (X. Liang et al., "SZ3: a modular framework for composing prediction-based
//! error-bounded lossy compressors", 2023): a relative bound for each time.
//!
//! SZ's relative bounds are relative to the range of all numbers; one for each number is had by
//! compressing logarithms with an absolute bound (X. Liang et al., "An efficient transformation
//! scheme for lossy data compression with point-wise relative error bound", 2018). Here a logarithm
//! is divided by that of 1 + e, with e the bound of the call's signature: then the absolute bound
//! is 1 for all.
//!
//! SZ3 is under a BSD licence, but its Rust binding, `sz3-sys`, is under GPL-3.0-only. So this is
//! behind the feature `sz`, which is off unless asked for. Building it takes cmake, libclang and
//! libzstd's headers.

use crate::bytes::Reader;
use crate::foreign::{self, Library, Scale};
use crate::{Bounds, Calls, Times, TimingError};
use sz3::{DimensionedData, ErrorBound};

/// What 0 has for a logarithm: far enough below that of 1.
const ZERO: f64 = -8.0;

/// SZ3 with an absolute bound of 1.
struct Sz3;

impl Library for Sz3 {
    const NAME: &'static str = "SZ3";

    fn compress(&self, numbers: &mut [f64]) -> Option<Vec<u8>> {
        let numbers = &*numbers;
        let data = DimensionedData::<f64, _>::build(&numbers).remainder_dim().ok()?;
        sz3::compress(&data, ErrorBound::Absolute(1.0)).ok()
    }

    fn decompress(&self, bytes: &[u8], n: usize) -> Option<Vec<f64>> {
        let (_, data) = sz3::decompress::<f64, _>(bytes).ok()?;
        Some(data.into_data()).filter(|numbers| numbers.len() == n)
    }
}

/// Logarithms, in units of the bound of each call.
struct Logarithms {
    units: Vec<f64>,
    fractions: Vec<f64>,
}

impl Logarithms {
    fn new(bounds: &Bounds, terminals: &[u32]) -> Logarithms {
        let fractions: Vec<_> =
            terminals.iter().map(|terminal| bounds.relative_of(*terminal)).collect();
        Logarithms { units: fractions.iter().map(|fraction| fraction.ln_1p()).collect(), fractions }
    }
}

impl Scale for Logarithms {
    fn number(&self, call: usize, time: u64) -> f64 {
        if time == 0 { ZERO } else { (time as f64).ln() / self.units[call] }
    }

    fn time(&self, call: usize, number: f64) -> u64 {
        if number < ZERO / 2.0 { 0 } else { (number * self.units[call]).exp().round() as u64 }
    }

    fn is_within(&self, call: usize, time: u64, number: f64) -> bool {
        // Another machine's logarithms may differ in their last bit.
        [0.999_999_999_999, 1.0, 1.000_000_000_001].iter().all(|near| {
            let off = self.time(call, number * near).abs_diff(time);
            off as f64 * (1.0 + 1e-12) <= time as f64 * self.fractions[call]
        })
    }
}

/// Appends the times.
pub(crate) fn encode(
    clustered: bool,
    bounds: &Bounds,
    calls: &Calls<'_>,
    out: &mut Vec<u8>,
) -> Result<(), TimingError> {
    bounds.put(calls.terminals, out);
    let scale = Logarithms::new(bounds, calls.terminals);
    let order = foreign::order(calls.terminals, clustered);
    for column in [calls.gaps, calls.durations] {
        foreign::encode(&Sz3, &scale, &order, column, out)?;
    }
    Ok(())
}

/// Reads the times of these calls.
pub(crate) fn decode(
    clustered: bool,
    terminals: &[u32],
    reader: &mut Reader<'_>,
    times: &mut Times,
) -> Result<(), TimingError> {
    let bounds = Bounds::get(terminals, reader)?;
    let scale = Logarithms::new(&bounds, terminals);
    let order = foreign::order(terminals, clustered);
    for column in [&mut times.gaps, &mut times.durations] {
        foreign::decode(&Sz3, &scale, &order, reader, column)?;
    }
    Ok(())
}
