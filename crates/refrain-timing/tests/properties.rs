//! For all times, decoded times are within the mode's bound. For all bytes, decoding neither panics nor
//! takes unbounded time or memory.

use proptest::collection::vec;
use proptest::prelude::*;
use refrain_timing::{
    Bound, Bounds, Calls, Mode, Scratch, Times, TimingError, decode, encode, mode_of,
};

/// Calls that own their columns.
#[derive(Clone, Debug)]
struct Owned {
    before: Vec<u32>,
    terminals: Vec<u32>,
    gaps: Vec<u64>,
    durations: Vec<u64>,
    start: u64,
}

impl Owned {
    fn calls(&self) -> Calls<'_> {
        Calls {
            before: &self.before,
            terminals: &self.terminals,
            gaps: &self.gaps,
            durations: &self.durations,
            start: self.start,
        }
    }

    fn encode(&self, mode: Mode, bounds: &Bounds) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(mode, bounds, &self.calls(), &mut Scratch::default(), &mut bytes).unwrap();
        bytes
    }

    fn decode(&self, bytes: &[u8]) -> Result<Times, TimingError> {
        decode(bytes, &self.before, &self.terminals)
    }
}

/// Single times: the ends of the range, small ones, powers of two and their neighbours, any.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0..4u64,
        1 => Just(u64::MAX),
        1 => Just(u64::MAX - 1),
        4 => 0..100_000u64,
        2 => (0..64u32, 0..3u64).prop_map(|(power, more)| (1u64 << power).wrapping_sub(1) + more.min(1)),
        2 => any::<u64>(),
        4 => any::<u64>().prop_map(|time| time >> (time % 64)),
    ]
}

/// Columns of times: mixed, constant, alternating, multiples of a clock's quantum with a few
/// exceptions, around a mean with outliers.
fn times(n: usize) -> impl Strategy<Value = Vec<u64>> {
    let alternating = (time(), time())
        .prop_map(move |(a, b)| (0..n).map(|i| if i % 2 == 0 { a } else { b }).collect::<Vec<_>>());
    let quantum = (1..100u64, vec(0..5000u64, n), any::<prop::sample::Index>(), time()).prop_map(
        move |(quantum, times, at, odd)| {
            let mut times: Vec<_> = times.iter().map(|time| time * quantum).collect();
            if n > 0 {
                times[at.index(n)] = odd;
            }
            times
        },
    );
    let bell = (0..1_000_000u64, vec((0..1000u64, 0..100u32), n)).prop_map(|(mean, around)| {
        let one = |(off, rare): (u64, u32)| if rare == 0 { mean * off } else { mean + off };
        around.into_iter().map(one).collect::<Vec<_>>()
    });
    prop_oneof![
        vec(time(), n),
        time().prop_map(move |time| vec![time; n]),
        alternating,
        quantum,
        bell,
    ]
}

/// Loops over a few signatures, or any signatures.
fn terminals(n: usize) -> impl Strategy<Value = Vec<u32>> {
    let looping = vec(0..9u32, 1..6)
        .prop_map(move |body| body.iter().cycle().take(n).copied().collect::<Vec<_>>());
    prop_oneof![looping, vec(0..40u32, n), vec(any::<u32>(), n)]
}

fn owned() -> impl Strategy<Value = Owned> {
    let length = prop_oneof![0..4usize, 0..60usize, 0..900usize];
    length.prop_flat_map(|n| {
        let before = vec(any::<u32>(), 0..4);
        (before, terminals(n), times(n), times(n), time()).prop_map(
            |(before, terminals, gaps, durations, start)| Owned {
                before,
                terminals,
                gaps,
                durations,
                start,
            },
        )
    })
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let fraction = || prop_oneof![4 => Just(0.1), 1 => Just(0.5), 1 => Just(0.01), 1 => Just(1e-6), 4 => 1e-6..0.5];
    (fraction(), vec((0..40u32, fraction()), 0..4), time()).prop_map(|(all, own, ticks)| {
        let mut bounds = Bounds::relative(all).unwrap().with_absolute(ticks);
        own.iter().for_each(|(terminal, fraction)| bounds.set(*terminal, *fraction).unwrap());
        bounds
    })
}

fn available() -> impl Strategy<Value = Mode> {
    let modes: Vec<_> = Mode::ALL.into_iter().filter(|mode| mode.is_available()).collect();
    prop::sample::select(modes)
}

/// Whether a decoded time is within the bound; computed in integers, without rounding.
fn is_within(mode: Mode, bounds: &Bounds, terminal: u32, time: u64, decoded: u64) -> bool {
    let off = u128::from(time.abs_diff(decoded));
    match mode.bound() {
        Bound::Exact => off == 0,
        Bound::Absolute => off <= bounds.absolute().into(),
        Bound::Relative => {
            let fraction = (bounds.relative_of(terminal) * 2f64.powi(32)) as u128;
            off << 32 <= u128::from(time) * fraction
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_time_is_within_the_bound(owned in owned(), bounds in bounds(), mode in available()) {
        let times = owned.decode(&owned.encode(mode, &bounds)).unwrap();
        prop_assert_eq!(times.start, owned.start);
        let columns = [(&owned.gaps, &times.gaps), (&owned.durations, &times.durations)];
        for (given, decoded) in columns {
            prop_assert_eq!(given.len(), decoded.len());
            for ((time, decoded), terminal) in given.iter().zip(decoded).zip(&owned.terminals) {
                prop_assert!(
                    is_within(mode, &bounds, *terminal, *time, *decoded),
                    "{} became {} in {}", time, decoded, mode
                );
            }
        }
    }

    #[test]
    fn reused_memory_does_not_influence_blocks(
        first in owned(), second in owned(), bounds in bounds(), modes in (available(), available()),
    ) {
        let mut scratch = Scratch::default();
        let mut bytes = Vec::new();
        encode(modes.0, &Bounds::default(), &first.calls(), &mut scratch, &mut bytes).unwrap();
        bytes.clear();
        encode(modes.1, &bounds, &second.calls(), &mut scratch, &mut bytes).unwrap();
        prop_assert_eq!(bytes, second.encode(modes.1, &bounds));
    }

    #[test]
    fn only_the_last_two_calls_before_a_block_matter(
        mut owned in owned(), more in vec(any::<u32>(), 0..5), last in any::<[u32; 2]>(),
        mode in available(),
    ) {
        owned.before = last.to_vec();
        let bytes = owned.encode(mode, &Bounds::default());
        owned.before = [&more[..], &last].concat();
        prop_assert_eq!(bytes, owned.encode(mode, &Bounds::default()));
    }

    #[test]
    fn a_truncated_block_is_an_error(
        owned in owned(), mode in available(), cut in any::<prop::sample::Index>(),
    ) {
        let bytes = owned.encode(mode, &Bounds::default());
        // A block without calls consists of mode and start only.
        prop_assume!(!owned.terminals.is_empty());
        prop_assert!(owned.decode(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn a_damaged_block_is_an_error_or_has_the_right_number_of_times(
        owned in owned(), bounds in bounds(), mode in available(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = owned.encode(mode, &bounds);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(times) = owned.decode(&bytes) {
            prop_assert_eq!(times.gaps.len(), owned.terminals.len());
            prop_assert_eq!(times.durations.len(), owned.terminals.len());
        }
    }

    #[test]
    fn any_bytes_are_an_error_or_have_the_right_number_of_times(
        mode in 0..9u8, bytes in vec(any::<u8>(), 0..300), terminals in terminals(50),
    ) {
        let bytes = [&[mode, 7][..], &bytes].concat();
        if let Ok(times) = decode(&bytes, &[], &terminals) {
            prop_assert_eq!(times.gaps.len(), 50);
        }
    }

    #[test]
    fn spans_of_exact_times_are_when_calls_began_and_returned(owned in owned()) {
        let times = owned.decode(&owned.encode(Mode::Lossless, &Bounds::default())).unwrap();
        let mut at = owned.start;
        for (i, (start, end)) in times.spans().enumerate() {
            at = if i == 0 { at } else { at.saturating_add(owned.gaps[i]) };
            prop_assert_eq!(start, at);
            at = at.saturating_add(owned.durations[i]);
            prop_assert_eq!(end, at);
        }
    }
}

#[test]
fn the_error_for_an_unavailable_mode_has_reason_and_remedy() {
    let calls =
        Owned { before: vec![], terminals: vec![], gaps: vec![], durations: vec![], start: 0 };
    for mode in Mode::ALL.into_iter().filter(|mode| !mode.is_available()) {
        let mut bytes = Vec::new();
        let bounds = Bounds::default();
        let error = encode(mode, &bounds, &calls.calls(), &mut Scratch::default(), &mut bytes);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("--features") && error.contains("`loop`"), "{error}");
        assert!(bytes.is_empty());
    }
}

#[test]
fn times_by_sz3_are_recognized_and_refused_with_advice() {
    for (tag, mode) in [(4, Mode::Sz), (5, Mode::SzClustered)] {
        let block = [tag, 0, 1, 2, 3];
        assert_eq!(mode_of(&block), Ok(mode));
        let error = decode(&block, &[], &[7]).unwrap_err();
        assert_eq!(error, TimingError::Unavailable(mode));
        let text = error.to_string();
        assert!(text.contains("by the Refrain that wrote them"), "{text}");
    }
}

#[test]
fn uneven_and_overlong_blocks_are_refused() {
    let mut scratch = Scratch::default();
    let mut encode = |calls: Calls<'_>| {
        encode(Mode::Lossless, &Bounds::default(), &calls, &mut scratch, &mut Vec::new())
    };
    let (terminals, times) = (vec![0; 70_000], vec![0; 70_000]);
    let calls =
        Calls { before: &[], terminals: &terminals, gaps: &times, durations: &times, start: 0 };
    assert_eq!(encode(calls), Err(TimingError::TooLong(70_000)));
    let uneven = Calls { gaps: &times[..3], ..calls };
    assert!(matches!(encode(uneven), Err(TimingError::Uneven { gaps: 3, .. })));
}

#[test]
fn the_largest_allowed_block_reads_back() {
    let n = refrain_timing::MOST_CALLS;
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_available()) {
        let owned = Owned {
            before: vec![],
            terminals: vec![3; n],
            gaps: vec![0; n],
            durations: vec![2; n],
            start: 5,
        };
        let bytes = owned.encode(mode, &Bounds::default().with_absolute(0));
        let times = owned.decode(&bytes).unwrap();
        assert!(times.gaps == owned.gaps && times.durations == owned.durations, "{mode}");
    }
}

#[test]
fn bounds_out_of_range_are_refused() {
    for wrong in [0.0, -0.1, 0.51, 1e-7, f64::NAN, f64::INFINITY] {
        assert!(Bounds::relative(wrong).is_err(), "{wrong}");
        assert!(Bounds::default().set(1, wrong).is_err());
    }
    assert_eq!(Bounds::default().set(u32::MAX, 0.1), Err(TimingError::Terminal(u32::MAX)));
}
