//! A block: the times of some calls of one thread, complete in itself.
//!
//! ```text
//! byte      the mode
//! number    the tick at which the first call began
//! …         as the mode has it
//! ```
//!
//! Numbers have seven bits to a byte, least significant first. What the calls *are*, and how many,
//! is not in the block: the trace's grammar says so.

use crate::bytes::{Reader, put_number};
use crate::{Bounds, Mode, TimingError, cfg, hist, loops, lossless, symbols};

/// The most calls of a block.
pub const MOST_CALLS: usize = 65_535;

/// Calls of one thread, one after the other, and their times.
#[derive(Clone, Copy, Debug)]
pub struct Calls<'a> {
    /// The terminals of the calls before these: at least two, unless there are fewer. More make no
    /// difference.
    pub before: &'a [u32],
    /// The terminals of the calls: numbers of their signatures.
    pub terminals: &'a [u32],
    /// The intervals: ticks from the return of the thread's call before to the beginning of this.
    pub gaps: &'a [u64],
    /// Ticks from the beginning of the call to its return.
    pub durations: &'a [u64],
    /// The tick at which the first call began.
    pub start: u64,
}

/// The times of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The tick at which the first call began: exact in any mode.
    pub start: u64,
    /// The intervals.
    pub gaps: Vec<u64>,
    /// The durations.
    pub durations: Vec<u64>,
}

impl Times {
    /// For each call the tick at which it began, and that at which it returned. The errors of lossy
    /// times add up within a block, and not beyond.
    pub fn spans(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut end = None::<u64>;
        self.gaps.iter().zip(&self.durations).map(move |(gap, duration)| {
            // The first call's interval leads to its start, which is known.
            let start = end.map_or(self.start, |end| end.saturating_add(*gap));
            let returned = start.saturating_add(*duration);
            end = Some(returned);
            (start, returned)
        })
    }
}

/// What encoding needs besides: memory that is used again, nothing that shows in a block.
#[derive(Debug, Default)]
pub struct Scratch {
    symbols: symbols::Scratch,
    loops: loops::Scratch,
}

/// Appends a block with the times of these calls.
///
/// # Errors
///
/// If the calls are too many or their columns uneven, or this build does not have the mode; nothing
/// is appended then.
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

/// Appends the times as the mode has them.
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

/// Appends exact times. All is in shifts by numbers that only the data knows, for which newer
/// processors have instructions that take a third of the time.
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
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { with_shifts(calls, scratch, out) };
        }
    }
    lossless::encode(calls, scratch, out);
}

/// Reads a block with the times of the calls with these terminals, which follow those of `before`.
///
/// # Errors
///
/// If the bytes are no block of so many calls, or one of a mode that this build does not have. Any
/// bytes are an error or give times: memory and work grow with the number of calls only.
pub fn decode(bytes: &[u8], before: &[u32], terminals: &[u32]) -> Result<Times, TimingError> {
    let mut reader = Reader::new(bytes);
    let mode = Mode::from_tag(reader.byte()?).ok_or(TimingError::Damaged("its mode"))?;
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
    Mode::from_tag(*tag).ok_or(TimingError::Damaged("its mode"))
}
