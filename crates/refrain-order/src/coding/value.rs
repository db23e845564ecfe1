//! Values that a program read: clocks, random numbers, and results of attempts to acquire locks.
//!
//! A program reads a clock repeatedly, and the time since the last reading is similar in the same situation. So the
//! *interval* is coded: its length in bits and its leading digits. Each digit is learnt separately for the last two
//! intervals, which identify the position in the program's loop as far as possible. `MPI_Wtime` is a floating-point
//! number of seconds whose last digits are rounding noise. It is converted to nanoseconds if that can be undone exactly,
//! in one of the ways in which MPI libraries compute it ([`Form`]).
//!
//! Random numbers cannot be predicted: they are written without a model.

use crate::coding::coder::{Bit, Coder};
use crate::coding::number::Number;
use crate::error::OrderError;
use crate::vocabulary::source;
use refrain_bytes::varint::{unzigzag, zigzag};

/// The number of sources of values.
const SOURCES: usize = 16;
/// The number of digits after the leading one that are learnt; the others are written as raw bits.
const LEARNT: u32 = 10;
/// Binary logarithm of the number of bit models.
const QUESTIONS: u32 = 15;
/// The bits of an interval's length.
const LENGTH_BITS: u32 = 6;
const SECOND: u64 = 1_000_000_000;

/// How seconds are computed from nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `s + 1e-9 * n`, as MPICH does.
    Scaled,
    /// `s + n / 1e9`, as Open MPI does.
    Divided,
    /// The same with one more second and a negative fraction: Open MPI subtracts seconds and nanoseconds
    /// of the start separately.
    Borrowed,
    /// Nanoseconds divided by 1e9.
    Whole,
}

impl Form {
    const ALL: [Form; 4] = [Form::Scaled, Form::Divided, Form::Borrowed, Form::Whole];

    fn seconds(self, nanos: u64) -> f64 {
        let (s, n) = ((nanos / SECOND) as f64, (nanos % SECOND) as f64);
        match self {
            Form::Scaled => s + 1e-9 * n,
            Form::Divided => s + n / 1e9,
            Form::Borrowed => (s + 1.0) + (n - 1e9) / 1e9,
            Form::Whole => nanos as f64 / 1e9,
        }
    }

    /// The nanoseconds from which a number of seconds was computed, and the form; the last form is tried first.
    fn of(bits: u64, last: Form) -> Option<(Form, u64)> {
        let seconds = f64::from_bits(bits);
        if !(0.0..8e9).contains(&seconds) {
            return None;
        }
        let whole = seconds.trunc();
        let nanos = whole as u64 * SECOND + ((seconds - whole) * 1e9).round() as u64;
        let is_exact = |form: &Form| form.seconds(nanos).to_bits() == bits;
        let form = std::iter::once(last).chain(Form::ALL).find(is_exact)?;
        Some((form, nanos))
    }
}

/// The model of the values of a thread.
#[derive(Clone, Debug)]
pub struct ValueModel {
    which: Number,
    sources: [Source; SOURCES],
    /// Bit models of the intervals of all clocks, by context. Allocated when the first clock is read.
    questions: Vec<Bit>,
}

/// The model of one source.
#[derive(Clone, Debug)]
struct Source {
    last: u64,
    /// The last two intervals, rounded by [`rough`].
    before: [u32; 2],
    backwards: Bit,
    distance: Number,
    form: Form,
    is_form: Bit,
    is_exact: Bit,
    last_bits: u64,
}

impl Default for Source {
    fn default() -> Self {
        Self {
            last: 0,
            before: [0; 2],
            backwards: Bit::EVEN,
            distance: Number::default(),
            form: Form::Scaled,
            is_form: Bit::EVEN,
            is_exact: Bit::EVEN,
            last_bits: 0,
        }
    }
}

impl Default for ValueModel {
    fn default() -> Self {
        Self {
            which: Number::default(),
            sources: std::array::from_fn(|_| Source::default()),
            questions: Vec::new(),
        }
    }
}

/// The length of an interval in bits, and its first digit after the leading one.
fn rough(interval: u64) -> u32 {
    match 64 - interval.leading_zeros() {
        length @ 0..3 => length << 1 | interval as u32 & 1,
        length => length << 1 | (interval >> (length - 2)) as u32 & 1,
    }
}

fn mix(a: u32, b: u32) -> u32 {
    let hash = (a ^ b.wrapping_mul(0x9e37_79b1)).wrapping_mul(0x85eb_ca6b);
    hash ^ hash >> 15
}

impl ValueModel {
    /// Codes one value with its source.
    #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        (which, value): (u8, u64),
    ) -> Result<(u8, u64), OrderError> {
        let which = self.which.code(coder, which.into());
        let which = u8::try_from(which).map_err(|_| OrderError::OutOfRange("value"))?;
        let source = &mut self.sources[usize::from(which) % SOURCES];
        if !source::is_clock(which) {
            let distance = zigzag(value.wrapping_sub(source.last) as i64);
            let distance = unzigzag(source.distance.code(coder, distance));
            source.last = source.last.wrapping_add(distance as u64);
            return Ok((which, source.last));
        }
        if which != source::WTIME {
            return Ok((which, self.time(coder, which, value)));
        }
        let found = Form::of(value, source.form);
        if !coder.bit(&mut source.is_exact, found.is_some()) {
            // Not computed from nanoseconds in a known way.
            let distance = zigzag(value.wrapping_sub(source.last_bits) as i64);
            let distance = unzigzag(source.distance.code(coder, distance));
            source.last_bits = source.last_bits.wrapping_add(distance as u64);
            return Ok((which, source.last_bits));
        }
        let (form, nanos) = found.unwrap_or((source.form, 0));
        if !coder.bit(&mut source.is_form, form == source.form) {
            source.form = Form::ALL[coder.raw(2, form as u32) as usize % Form::ALL.len()];
        }
        let form = source.form;
        let bits = form.seconds(self.time(coder, which, nanos)).to_bits();
        self.sources[usize::from(which) % SOURCES].last_bits = bits;
        Ok((which, bits))
    }

    /// Codes a clock value.
    #[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
    fn time(&mut self, coder: &mut impl Coder, which: u8, time: u64) -> u64 {
        if self.questions.is_empty() {
            self.questions = vec![Bit::EVEN; 1 << QUESTIONS];
        }
        let source = &mut self.sources[usize::from(which) % SOURCES];
        let step = time.wrapping_sub(source.last) as i64;
        if coder.bit(&mut source.backwards, step < 0) {
            let back = source.distance.code(coder, step.unsigned_abs());
            source.last = source.last.wrapping_sub(back);
            return source.last;
        }
        let [last, before] = source.before;
        let context = mix(mix(u32::from(which) + 1, last), before);
        let interval = interval(coder, &mut self.questions, context, step as u64);
        source.before = [rough(interval), last];
        source.last = source.last.wrapping_add(interval);
        source.last
    }
}

/// Codes a bit of a number, at a node of its tree of digits, in a context.
#[inline]
fn ask(
    coder: &mut impl Coder,
    questions: &mut [Bit],
    (context, node): (u32, u32),
    answer: bool,
) -> bool {
    let at = mix(context, node) as usize & ((1 << QUESTIONS) - 1);
    questions.get_mut(at).is_some_and(|question| coder.bit(question, answer))
}

/// Codes an interval below 2^63.
fn interval(coder: &mut impl Coder, questions: &mut [Bit], context: u32, interval: u64) -> u64 {
    let given = 64 - interval.leading_zeros();
    let mut node = 1;
    for bit in (0..LENGTH_BITS).rev() {
        let digit = ask(coder, questions, (context, node), given >> bit & 1 == 1);
        node = node << 1 | u32::from(digit);
    }
    let length = node & ((1 << LENGTH_BITS) - 1);
    if length == 0 {
        return 0;
    }
    let context = mix(context, length + (1 << LENGTH_BITS));
    let (mut coded, mut left) = (1u64, length - 1);
    while left > 0 && length - 1 - left < LEARNT {
        left -= 1;
        let digit = ask(coder, questions, (context, coded as u32), interval >> left & 1 == 1);
        coded = coded << 1 | u64::from(digit);
    }
    while left > 0 {
        let count = left.min(16);
        left -= count;
        let digits = coder.raw(count, (interval >> left) as u32 & ((1 << count) - 1));
        coded = coded << count | u64::from(digits);
    }
    coded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::coder::{Decoder, Encoder};
    use proptest::prelude::*;

    fn coded(values: &[(u8, u64)]) -> Vec<u8> {
        let (mut encoder, mut model) = (Encoder::default(), ValueModel::default());
        for value in values {
            model.code(&mut encoder, *value).expect("any value can be coded");
        }
        encoder.finish()
    }

    fn decoded(bytes: &[u8], count: usize) -> Vec<(u8, u64)> {
        let (mut decoder, mut model) = (Decoder::new(bytes), ValueModel::default());
        (0..count).map(|_| model.code(&mut decoder, (0, 0)).expect("it was coded")).collect()
    }

    fn random(state: &mut u64) -> u64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    proptest! {
        #[test]
        fn values_of_all_sources_are_restored(
            values in prop::collection::vec((0u8..20, any::<u64>(), 0u32..64), 0..300),
            times in prop::collection::vec((0u64..4_000_000_000_000_000_000, 0usize..4), 0..100),
        ) {
            let mut values: Vec<(u8, u64)> =
                values.iter().map(|(which, value, shift)| (*which, value >> shift)).collect();
            let seconds = |(nanos, form): &(u64, usize)| Form::ALL[*form].seconds(*nanos).to_bits();
            values.extend(times.iter().map(|time| (source::WTIME, seconds(time))));
            for odd in [f64::NAN, f64::INFINITY, -0.0, -1.5, 1e300, f64::MIN_POSITIVE] {
                values.push((source::WTIME, odd.to_bits()));
            }
            let bytes = coded(&values);
            prop_assert_eq!(decoded(&bytes, values.len()), values);
        }
    }

    /// Readings of a clock with realistic noise: some nanoseconds, sometimes much more.
    fn readings(form: Form, mut interval: impl FnMut(usize, &mut u64) -> u64) -> Vec<(u8, u64)> {
        let (mut now, mut state) = (2_611_957_824_495, 7);
        (0..100_000)
            .map(|n| {
                now += interval(n, &mut state);
                (source::WTIME, form.seconds(now).to_bits())
            })
            .collect()
    }

    #[test]
    fn a_loop_that_reads_the_clock_takes_less_than_a_byte_a_value() {
        for form in Form::ALL {
            let values = readings(form, |_, state| match random(state) % 1000 {
                0 => 1000 + random(state) % 30_000,
                n if n % 3 == 0 => 35 + random(state) % 4,
                _ => 27 + random(state) % 3,
            });
            let each = coded(&values).len() as f64 / values.len() as f64;
            assert!(each < 0.5, "{form:?}: {each} bytes a value");
        }
    }

    #[test]
    fn timers_around_pieces_of_work_take_less_than_a_byte_a_value() {
        let work = [30, 555, 24, 3200, 25, 120, 24, 24, 700, 24, 9000, 26, 60, 24, 240, 25];
        let values = readings(Form::Divided, |n, state| {
            let mean = work[n % work.len()];
            mean + random(state) % (2 + mean / 16)
        });
        let each = coded(&values).len() as f64 / values.len() as f64;
        assert!(each < 0.8, "{each} bytes a value");
    }
}
