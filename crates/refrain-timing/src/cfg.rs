//! Times as two grammars over exponential bins: CFG of Pilgrim §2.3.2.

use crate::bins::{Bins, Representative};
use crate::bytes::{Reader, put_bytes};
use crate::{Bounds, Calls, Times, TimingError};
use refrain_grammar::{Grammar, Sequitur};

/// Appends the times.
#[expect(
    clippy::indexing_slicing,
    reason = "`Bounds` returns only indices of existing levels, and level 0 exists"
)]
pub(crate) fn encode(bounds: &Bounds, calls: &Calls<'_>, out: &mut Vec<u8>) {
    bounds.put(calls.terminals, out);
    let levels = levels(bounds);
    for column in [calls.gaps, calls.durations] {
        let mut sequitur = Sequitur::new();
        for (value, terminal) in column.iter().zip(calls.terminals) {
            sequitur.push(levels[bounds.level_index(*terminal)].number(*value) as u32);
        }
        let mut bytes = Vec::new();
        sequitur.grammar().encode(&mut bytes);
        put_bytes(out, &bytes);
    }
}

/// Reads the times of these calls.
#[expect(
    clippy::indexing_slicing,
    reason = "`Bounds` returns only indices of existing levels, and level 0 exists"
)]
pub(crate) fn decode(
    terminals: &[u32],
    reader: &mut Reader<'_>,
    times: &mut Times,
) -> Result<(), TimingError> {
    let bounds = Bounds::get(terminals, reader)?;
    let levels = levels(&bounds);
    for column in [&mut times.gaps, &mut times.durations] {
        let most = levels.iter().map(Bins::len).max().unwrap_or(0);
        let grammar = Grammar::decode(reader.bytes()?, usize::try_from(most).unwrap_or(usize::MAX))
            .map_err(|_| TimingError::Damaged("malformed grammar of times"))?;
        if grammar.len() != terminals.len() as u64 {
            return Err(TimingError::Damaged("wrong length of a grammar of times"));
        }
        let bins = grammar.iter().zip(terminals);
        column.extend(
            bins.map(|(bin, terminal)| levels[bounds.level_index(*terminal)].bin(bin.into()).value),
        );
    }
    Ok(())
}

fn levels(bounds: &Bounds) -> Vec<Bins> {
    bounds.levels().iter().map(|bound| Bins::new(*bound, Representative::Top)).collect()
}
