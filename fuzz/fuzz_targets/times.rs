//! Input: the number of calls before a block (a byte), their terminals, the number of calls of the block (a byte),
//! their terminals, and the block of times. The decoded times are encoded again. The target also decodes the whole
//! input as a histogram.

#![no_main]

use libfuzzer_sys::fuzz_target;
use refrain_timing::{Bounds, Calls, LogHistogram, Mode, Scratch, decode, encode, mode_of};

fuzz_target!(|bytes: &[u8]| {
    if let Ok((histogram, read)) = LogHistogram::get(bytes) {
        assert!(read <= bytes.len());
        let mut again = Vec::new();
        histogram.put(&mut again);
        assert!(LogHistogram::get(&again).is_ok_and(|(same, _)| same.count() == histogram.count()));
    }
    let Some((before, rest)) = terminals(bytes) else { return };
    let Some((these, block)) = terminals(rest) else { return };
    // Another library decodes these modes.
    if matches!(mode_of(block), Ok(Mode::Zfp | Mode::ZfpClustered)) {
        return;
    }
    let Ok(times) = decode(block, &before, &these) else { return };
    assert_eq!((times.gaps.len(), times.durations.len()), (these.len(), these.len()));
    let calls = Calls {
        start: times.start,
        before: &before,
        terminals: &these,
        gaps: &times.gaps,
        durations: &times.durations,
    };
    let mut again = Vec::new();
    encode(Mode::Lossless, &Bounds::default(), &calls, &mut Scratch::default(), &mut again)
        .expect("times of any size are encoded");
    let same = decode(&again, &before, &these).expect("it was just encoded");
    assert_eq!((same.gaps, same.durations), (times.gaps, times.durations));
});

/// Decodes a count and that many terminals.
fn terminals(bytes: &[u8]) -> Option<(Vec<u32>, &[u8])> {
    let (count, rest) = bytes.split_first()?;
    let (these, rest) = rest.split_at_checked(usize::from(*count))?;
    Some((these.iter().map(|terminal| u32::from(*terminal)).collect(), rest))
}
