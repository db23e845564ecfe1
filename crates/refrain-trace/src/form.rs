//! The form in which the structure of a trace is stored: grammars over signatures, or loop nests with coded values.

use refrain_container::{Codec, Packed, Writer};
use refrain_fold::histograms::HistogramTrace;
use refrain_fold::{Facts, Form, Prepared};
use refrain_grammar::{Grammar, Sequitur};
use refrain_reader::trace::StoredForm;
use refrain_reader::{CallTrace, TraceError, parallel, sections};
use refrain_signature::cells::{put_bytes, put_unsigned};
use refrain_structure::group::{Group, Outcomes, Row};
use refrain_structure::merged::Merged;
use refrain_structure::write::{Streams, write};
use std::path::Path;

/// A section of per-rank residues is closed when it has this many bytes.
const RESIDUE_BYTES: usize = 1 << 18;

/// The form that is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Structure {
    /// The smallest.
    #[default]
    Auto,
    /// Grammars over signatures.
    Grammar,
    /// Loop nests, where the trace can be stored so.
    Nest,
}

/// Adds the structure to a file; `plain` is what [`write()`] made of it, and `facts` are noted in loop nests. Returns whether the residues of ranks are in it.
pub fn add(
    writer: &mut Writer,
    merged: &Merged,
    plain: &Streams,
    wanted: Structure,
    facts: Facts,
) -> Result<bool, TraceError> {
    // What the form without loop nests takes, with residues.
    let own: Vec<u8> = plain.residues.iter().flat_map(|(.., bytes)| bytes).copied().collect();
    let plain = Packed::of(&plain.structure);
    let instead = plain.len() + Packed::of(&own).len();
    let forms = match wanted {
        Structure::Grammar => &[],
        Structure::Auto => worthwhile(merged, instead),
        Structure::Nest => &[Form::Nests][..],
    };
    let facts = Facts { instead: instead as u64, ..facts };
    let coded = coded(merged, forms, facts);
    // Coded signatures are read by an adaptive decoder: for a few bytes it is not worth while.
    let is_small = |coded: &Packed<'_>| wanted == Structure::Nest || coded.len() * 10 < instead * 9;
    let coded = coded.as_deref().map(Packed::of).filter(is_small);
    let is_coded = coded.is_some();
    match coded {
        Some(coded) => writer.add_packed(sections::NEST, coded)?,
        None => writer.add_packed(sections::STRUCTURE, plain)?,
    }
    Ok(is_coded)
}

/// The smallest of these forms. Signatures take the same in each, so the sequences decide.
fn coded(merged: &Merged, forms: &[Form], facts: Facts) -> Option<Vec<u8>> {
    if forms.is_empty() {
        return None;
    }
    let prepared = Prepared::of(merged, facts.frames);
    let all = parallel::map(forms.len(), |number| {
        let sequences = prepared.sequences(*forms.get(number)?)?;
        Some((sequences.coded() + Packed::of(&sequences.plain()).len(), sequences))
    });
    let (_, smallest) = all.into_iter().flatten().min_by_key(|(bytes, _)| *bytes)?;
    smallest.finish(facts)
}

/// Smaller structures are not tried in other forms.
const LITTLE: usize = 1 << 9;
/// Sequences of more calls are not coded call by call.
const MOST_CALLS: u64 = 20_000_000;
/// Sequences that are so many times as long as their grammars are regular.
const REGULAR: u64 = 16;

/// The forms that may be smaller than `bytes`, and take a time that people will wait for.
fn worthwhile(merged: &Merged, bytes: usize) -> &'static [Form] {
    let grammars = || merged.groups.iter().flat_map(|group| &group.grammars);
    let calls = grammars().map(Grammar::len).fold(0, u64::saturating_add);
    let symbols: usize = grammars().map(Grammar::symbols).sum();
    let varies = |group: &Group| {
        let is_constant = |row: &Row| row.outcomes == Outcomes::Constant;
        !group.residues.is_empty() || !group.rows.iter().all(is_constant)
    };
    // Outcomes are coded call by call, for each rank that has its own.
    let walked = merged.groups.iter().filter(|group| varies(group)).map(|group| {
        let length = group.grammars.iter().map(Grammar::len).fold(0, u64::saturating_add);
        length.saturating_mul(1 + group.residues.len() as u64)
    });
    if bytes < LITTLE || walked.fold(0, u64::saturating_add) > MOST_CALLS {
        return &[];
    }
    match calls < MOST_CALLS.min(symbols as u64 * REGULAR) {
        true => &[Form::Nests, Form::Grammars, Form::Calls],
        false => &[Form::Nests, Form::Grammars],
    }
}

/// Adds the residues of ranks.
pub(crate) fn add_residues(writer: &mut Writer, streams: &Streams) -> Result<(), TraceError> {
    let (mut chunk, mut first) = (Vec::new(), None);
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for (i, (rank, thread, bytes)) in streams.residues.iter().enumerate() {
        let begin = *first.get_or_insert(*rank);
        put_unsigned(&mut chunk, (*rank).into());
        put_unsigned(&mut chunk, (*thread).into());
        put_bytes(&mut chunk, bytes);
        let next = streams.residues.get(i + 1).map(|(rank, ..)| *rank);
        if next.is_none() || (chunk.len() > RESIDUE_BYTES && next != Some(*rank)) {
            let name = format!("{}{begin}-{rank}", sections::OWN);
            all.push((name, std::mem::take(&mut chunk)));
            first = None;
        }
    }
    let packed = parallel::map(all.len(), |number| Packed::of(&all[number].1));
    for ((name, _), packed) in all.iter().zip(packed) {
        writer.add_packed(name, packed)?;
    }
    Ok(())
}

/// Writes a trace again, with its structure in another form; returns its size. Call stacks with so many different
/// frames are one place of the loop nests.
pub fn fold(
    trace: &CallTrace,
    output: &Path,
    wanted: Structure,
    frames: usize,
) -> Result<u64, TraceError> {
    let has_rows = trace.has_row_statistics()?;
    // With a grammar, statistics would be read by other keys.
    let old = || TraceError::Section {
        path: trace.container().path().to_owned(),
        section: sections::TIMING.into(),
        why:
            "an earlier version of Refrain wrote it, with statistics by signature; it can only be \
              stored as loop nests"
                .into(),
    };
    if has_rows && wanted == Structure::Grammar {
        return Err(old());
    }
    let wanted = if has_rows { Structure::Nest } else { wanted };
    let mut merged = trace.structure()?.clone();
    if trace.form()? != StoredForm::Grammar {
        // Grammars of loop nests follow the loops: a digram may occur twice in them.
        for grammar in merged.groups.iter_mut().flat_map(|group| &mut group.grammars) {
            *grammar = Sequitur::from_grammar(grammar).grammar();
        }
    }
    for (rank, thread, residue) in trace.residues()? {
        let of = |group: &&mut Group| group.thread == thread && group.ranks.contains(rank);
        if let Some(group) = merged.groups.iter_mut().find(of) {
            group.residues.insert(rank, residue);
        }
    }
    let streams = write(&merged);
    let mut writer = Writer::create(output)?;
    for section in trace.container().sections() {
        let name = section.name.as_str();
        if [sections::STRUCTURE, sections::NEST].contains(&name) {
            let facts = Facts { has_row_statistics: has_rows, frames, ..Facts::default() };
            if !add(&mut writer, &merged, &streams, wanted, facts)? {
                if has_rows {
                    return Err(old());
                }
                add_residues(&mut writer, &streams)?;
            }
        } else if name.starts_with(sections::OWN) {
            // Written with the structure.
        } else if [sections::TIMES, sections::RAW].iter().any(|prefix| name.starts_with(prefix)) {
            writer.add(name, Codec::Stored, &mut trace.container().read(name)?)?;
        } else {
            writer.add_bytes(name, &trace.container().read_checked(name)?)?;
        }
    }
    Ok(writer.finish()?)
}

/// Writes a trace with histograms in place of its calls ([`refrain_fold::histograms`]); returns its size. Times of calls,
/// statistics and raw records belong to calls, and are left out.
pub fn write_histograms(
    trace: &CallTrace,
    histograms: &HistogramTrace,
    output: &Path,
) -> Result<u64, TraceError> {
    let mut writer = Writer::create(output)?;
    writer.add_bytes(sections::META, &trace.container().read_checked(sections::META)?)?;
    writer.add_bytes(sections::HISTOGRAMS, &refrain_fold::histograms::write(histograms))?;
    Ok(writer.finish()?)
}
