//! A block: the times of some consecutive calls of one thread. Blocks are independent.
//!
//! ```text
//! byte      the mode
//! number    the tick at which the first call began
//! …         the times, as the mode encodes them
//! ```
//!
//! Numbers are LEB128. The block does not say *which* calls it is about, nor how many: that is in the
//! trace's grammar.

use crate::bytes::{Reader, put_number};
use crate::{Bounds, Mode, TimingError, cfg, hist, loops, lossless, symbols};

/// The most calls of a block.
pub const MOST_CALLS: usize = 65_535;

/// Consecutive calls of one thread, and their times.
#[derive(Clone, Copy, Debug)]
pub struct Calls<'a> {
    /// The terminals of the calls before these: at least two if there are as many. Earlier ones are
    /// ignored.
    pub before: &'a [u32],
    /// The terminals of the calls: numbers of their signatures.
    pub terminals: &'a [u32],
    /// The intervals: ticks from the return of the thread's previous call to the start of this one.
    pub gaps: &'a [u64],
    /// The durations: ticks from the start of the call to its return.
    pub durations: &'a [u64],
    /// The tick at which the first call began.
    pub start: u64,
}

/// The times of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The tick at which the first call began; exact in every mode.
    pub start: u64,
    /// The intervals.
    pub gaps: Vec<u64>,
    /// The durations.
    pub durations: Vec<u64>,
}

impl Times {
    /// For each call, the ticks at which it began and returned. The errors of lossy times accumulate
    /// within a block, but not from block to block.
    pub fn spans(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut end = None::<u64>;
        self.gaps.iter().zip(&self.durations).map(move |(gap, duration)| {
            // The interval of the first call ends at its start, which is known.
            let start = end.map_or(self.start, |end| end.saturating_add(*gap));
            let returned = start.saturating_add(*duration);
            end = Some(returned);
            (start, returned)
        })
    }
}

/// Memory that encoders reuse from block to block. It does not influence the result.
#[derive(Debug, Default)]
pub struct Scratch {
    symbols: symbols::Scratch,
    loops: loops::Scratch,
}

/// Appends a block with the times of these calls.
///
/// # Errors
///
/// If there are too many calls, if the columns differ in length, or if this build does not have the
/// mode. Nothing is appended then.
pub fn encode(
    mode: Mode,
    bounds: &Bounds,
    calls: &Calls<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), TimingError> {
    let (terminals, gaps, durations) =
        (calls.terminals.len(), calls.gaps.len(), calls.durations.len());
    if terminals != gaps || terminals != durations {
        return Err(TimingError::Uneven { terminals, gaps, durations });
    }
    if terminals > MOST_CALLS {
        return Err(TimingError::TooLong(terminals));
    }
    if !mode.is_available() {
        return Err(TimingError::Unavailable(mode));
    }
    let begun = out.len();
    out.push(mode.tag());
    put_number(out, calls.start);
    let done = append(mode, bounds, calls, scratch, out);
    if done.is_err() {
        out.truncate(begun);
    }
    done
}

/// Appends the times as the mode encodes them.
fn append(
    mode: Mode,
    bounds: &Bounds,
    calls: &Calls<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), TimingError> {
    match mode {
        Mode::Lossless => encode_exactly(calls, &mut scratch.symbols, out),
        Mode::Loop => loops::encode(bounds, calls, &mut scratch.loops, &mut scratch.symbols, out),
        Mode::Cfg => cfg::encode(bounds, calls, out),
        Mode::Hist => hist::encode(bounds, calls, out),
        #[cfg(feature = "zfp")]
        Mode::Zfp => crate::zfp::encode(false, bounds, calls, out)?,
        #[cfg(feature = "zfp")]
        Mode::ZfpClustered => crate::zfp::encode(true, bounds, calls, out)?,
        _ => return Err(TimingError::Unavailable(mode)),
    }
    Ok(())
}

/// Appends exact times. The work is mostly shifts by variable amounts, for which newer processors
/// have instructions that take a third of the time.
fn encode_exactly(calls: &Calls<'_>, scratch: &mut symbols::Scratch, out: &mut Vec<u8>) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "bmi1,bmi2,lzcnt")]
        fn with_shifts(calls: &Calls<'_>, scratch: &mut symbols::Scratch, out: &mut Vec<u8>) {
            lossless::encode(calls, scratch, out);
        }
        let has = std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("lzcnt");
        if has {
            // SAFETY: the processor has the features that the function is compiled for.
            return unsafe { with_shifts(calls, scratch, out) };
        }
    }
    lossless::encode(calls, scratch, out);
}

/// Reads a block: the times of calls with these terminals, which follow those of `before`.
///
/// # Errors
///
/// If the bytes are not a block of as many calls as there are terminals, or if this build does not have the mode. Arbitrary
/// bytes are safe: memory and time grow with the number of calls only.
pub fn decode(bytes: &[u8], before: &[u32], terminals: &[u32]) -> Result<Times, TimingError> {
    let mut reader = Reader::new(bytes);
    let mode = Mode::from_tag(reader.byte()?).ok_or(TimingError::Damaged("unknown mode"))?;
    let mut times = Times { start: reader.number()?, ..Times::default() };
    times.gaps.reserve(terminals.len());
    times.durations.reserve(terminals.len());
    match mode {
        Mode::Lossless => lossless::decode(before, terminals, &mut reader, &mut times)?,
        Mode::Loop => loops::decode(before, terminals, &mut reader, &mut times)?,
        Mode::Cfg => cfg::decode(terminals, &mut reader, &mut times)?,
        Mode::Hist => hist::decode(terminals, &mut reader, &mut times)?,
        #[cfg(feature = "zfp")]
        Mode::Zfp => crate::zfp::decode(false, terminals, &mut reader, &mut times)?,
        #[cfg(feature = "zfp")]
        Mode::ZfpClustered => crate::zfp::decode(true, terminals, &mut reader, &mut times)?,
        _ => return Err(TimingError::Unavailable(mode)),
    }
    reader.finish()?;
    Ok(times)
}

/// The mode of a block.
pub fn mode_of(bytes: &[u8]) -> Result<Mode, TimingError> {
    let tag = bytes.first().ok_or(TimingError::Truncated)?;
    Mode::from_tag(*tag).ok_or(TimingError::Damaged("unknown mode"))
}
