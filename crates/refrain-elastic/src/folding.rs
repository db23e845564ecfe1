//! Finds the sections of a set of ranks.
//!
//! Ranks are first divided into progressions. Then sections of the same shape with evenly spaced
//! starts are folded into one section with one more dimension, until nothing folds. No first division
//! is best for every set (consecutive runs suit the interior of a grid, strided runs its columns,
//! periods a selection of columns), so each is tried and the shortest encoding is used.

use crate::idlist::encode_sections;
use crate::section::{MOST_DIMENSIONS, Section};

/// The longest period, in ranks, that [`periodic`] looks for.
const MOST_PERIOD: usize = 8;

/// If the first ranks, this many, fold badly, all will: then nothing is folded.
const SAMPLE: usize = 1024;

/// The section of `count` consecutive ranks.
pub fn range(start: u32, count: u32) -> Section {
    Section::strided(start, 1, count).unwrap_or(Section::single(start))
}

/// Joins two sections if one continues or repeats the other.
pub fn join(a: &Section, b: &Section) -> Option<Section> {
    let (a, b) = if a.start() <= b.start() { (a, b) } else { (b, a) };
    let distance = b.start() - a.start();
    if a.dimensions() == b.dimensions() {
        if let Some((outer, inner)) = a.dimensions().split_last()
            && u64::from(outer.stride) * u64::from(outer.count) == u64::from(distance)
        {
            let count = outer.count.checked_mul(2)?;
            return rebuild(a.start(), inner).repeated(outer.stride, count);
        }
        return a.repeated(distance, 2);
    }
    // They join if the inner dimensions are equal, and the starts are as many strides apart as the count of
    // the section that comes first.
    let (short, long) = if a.dimensions().len() < b.dimensions().len() { (a, b) } else { (b, a) };
    let (outer, inner) = long.dimensions().split_last()?;
    let other = match short.dimensions().split_last() {
        _ if short.dimensions() == inner => 1,
        Some((d, rest)) if rest == inner && d.stride == outer.stride => d.count,
        _ => return None,
    };
    let first = if std::ptr::eq(a, long) { outer.count } else { other };
    if u64::from(outer.stride) * u64::from(first) != u64::from(distance) {
        return None;
    }
    rebuild(a.start(), inner).repeated(outer.stride, outer.count.checked_add(other)?)
}

/// The section with these dimensions from `start`, up to the first dimension that does not nest.
fn rebuild(start: u32, dimensions: &[crate::section::Dimension]) -> Section {
    let mut section = Section::single(start);
    for d in dimensions {
        section = section.repeated(d.stride, d.count).unwrap_or(section);
    }
    section
}

/// The sections of strictly ascending ranks, by ascending start.
pub fn sections(ranks: &[u32]) -> Vec<Section> {
    let (&[first, .., last], Ok(count)) = (ranks, u32::try_from(ranks.len())) else {
        return ranks.iter().map(|&rank| Section::single(rank)).collect();
    };
    if last - first == count - 1 {
        return vec![range(first, count)];
    }
    let periodic = periodic(ranks);
    if periodic.len() == 1 {
        return periodic;
    }
    if let Some(sample) = ranks.get(..SAMPLE)
        && shortest([fold(runs(sample)), fold(progressions(sample))]).len() > SAMPLE / 8
    {
        return shortest([runs(ranks), progressions(ranks), periodic]);
    }
    let folded = fold(runs(ranks));
    if folded.len() == 1 {
        return folded;
    }
    shortest([folded, fold(progressions(ranks)), periodic])
}

/// The one with the shortest encoding, of those that are not empty.
fn shortest<const N: usize>(ways: [Vec<Section>; N]) -> Vec<Section> {
    let ways = ways.into_iter().filter(|way| !way.is_empty());
    ways.min_by_key(|way| encoded_size(way)).unwrap_or_default()
}

fn encoded_size(sections: &[Section]) -> usize {
    let mut bytes = Vec::with_capacity(4 * sections.len());
    encode_sections(sections, &mut bytes);
    bytes.len()
}

/// Runs of consecutive ranks.
fn runs(ranks: &[u32]) -> Vec<Section> {
    ranks
        .chunk_by(|&a, &b| b - a == 1)
        .filter_map(|run| Some(range(*run.first()?, run.len() as u32)))
        .collect()
}

/// Runs of evenly spaced ranks.
fn progressions(ranks: &[u32]) -> Vec<Section> {
    let mut found = Vec::new();
    let singles: Vec<Section> = ranks.iter().map(|&rank| Section::single(rank)).collect();
    chain(&singles, &mut found);
    found
}

/// If the gaps between the ranks are periodic, one section per residue; otherwise nothing.
#[expect(clippy::indexing_slicing, reason = "a period is at most a third of the length")]
fn periodic(ranks: &[u32]) -> Vec<Section> {
    for period in 1..=MOST_PERIOD.min(ranks.len() / 3) {
        let length = ranks[period] - ranks[0];
        if ranks.iter().zip(&ranks[period..]).any(|(a, b)| b - a != length) {
            continue;
        }
        let residues = (0..period).map(|i| {
            let count = (ranks.len() - i).div_ceil(period) as u32;
            Section::strided(ranks[i], length, count)
        });
        return residues.collect::<Option<Vec<_>>>().unwrap_or_default();
    }
    Vec::new()
}

/// Folds sections of the same shape into sections with one more dimension, until nothing folds.
fn fold(mut sections: Vec<Section>) -> Vec<Section> {
    for _ in 0..MOST_DIMENSIONS {
        if sections.len() < 2 {
            break;
        }
        sections.sort_by(|a, b| a.dimensions().cmp(b.dimensions()).then(a.start().cmp(&b.start())));
        let mut folded = Vec::with_capacity(sections.len());
        for shape in sections.chunk_by(|a, b| a.dimensions() == b.dimensions()) {
            chain(shape, &mut folded);
        }
        let done = folded.len() == sections.len();
        sections = folded;
        if done {
            break;
        }
    }
    sections.sort_unstable_by_key(Section::start);
    sections
}

/// Folds each chain of evenly spaced sections of one shape into one section.
fn chain(shape: &[Section], folded: &mut Vec<Section>) {
    let gap = |i: usize| Some(shape.get(i + 1)?.start() - shape.get(i)?.start());
    let mut i = 0;
    while let Some(first) = shape.get(i) {
        let stride = gap(i);
        let mut end = i + 1;
        while stride.is_some() && gap(end - 1) == stride {
            end += 1;
        }
        // A pair must not take the first section of a longer chain.
        if end == i + 2 && gap(i + 1).is_some() && gap(i + 1) == gap(i + 2) {
            end = i + 1;
        }
        match stride.and_then(|stride| first.repeated(stride, (end - i) as u32)) {
            Some(section) => folded.push(section),
            None => folded.extend_from_slice(shape.get(i..end).unwrap_or_default()),
        }
        i = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IdList;

    /// The ranks of an x * y * z grid that `member` picks.
    fn grid(size: [u32; 3], member: impl Fn([u32; 3]) -> bool) -> Vec<u32> {
        let [x, y, z] = size;
        (0..x * y * z).filter(|&r| member([r % x, r / x % y, r / x / y])).collect()
    }

    fn check(ranks: &[u32], most_sections: usize, most_bytes: usize) {
        let list = IdList::from_sorted(ranks);
        assert_eq!(list.to_vec(), ranks);
        assert_eq!(list.len(), ranks.len());
        assert!(list.sections().len() <= most_sections, "{list}");
        let mut bytes = Vec::new();
        list.encode(&mut bytes);
        assert!(bytes.len() <= most_bytes, "{} bytes for {list}", bytes.len());
        let most = ranks.last().map_or(0, |last| last + 1);
        assert_eq!(IdList::decode(&mut &bytes[..], most), Ok(list));
    }

    const SIZES: [[u32; 3]; 6] =
        [[4, 4, 1], [6, 8, 1], [8, 8, 16], [4, 6, 2], [128, 128, 1], [32, 16, 32]];

    #[test]
    fn the_ranks_of_a_line_are_one_section() {
        for count in [1, 2, 16, 1000, 16384] {
            check(&(0..count).collect::<Vec<_>>(), 1, 6);
            check(&(0..count).map(|r| 2 * r).collect::<Vec<_>>(), 1, 6);
            check(&(0..count).map(|r| 5 + 7 * r).collect::<Vec<_>>(), 1, 6);
        }
    }

    #[test]
    fn rows_columns_and_planes_of_a_grid_are_one_section_each() {
        for size in SIZES {
            check(&grid(size, |[_, y, _]| y == 2), 1, 10);
            check(&grid(size, |[x, _, _]| x == 1), 1, 10);
            check(&grid(size, |[_, _, z]| z == 0), 1, 10);
            check(&grid(size, |[x, _, _]| x == 0 || x == size[0] - 1), 2, 16);
        }
    }

    #[test]
    fn the_interior_of_a_grid_is_one_section() {
        for size in SIZES {
            let within = |i: u32, n: u32| n == 1 || 0 < i && i < n - 1;
            check(&grid(size, |p| (0..3).all(|i| within(p[i], size[i]))), 1, 14);
        }
    }

    #[test]
    fn the_border_of_a_grid_is_a_few_sections() {
        for size in SIZES {
            let border = |i: u32, n: u32| n > 1 && (i == 0 || i == n - 1);
            check(&grid(size, |p| (0..3).any(|i| border(p[i], size[i]))), 5, 40);
        }
    }

    #[test]
    fn a_selection_of_columns_is_one_section_per_column() {
        for rows in [16, 1000] {
            check(&grid([16, rows, 1], |[x, _, _]| [1, 3, 4, 9, 14].contains(&x)), 5, 25);
        }
    }

    #[test]
    fn adjacent_halves_join() {
        let section = |start, count| Section::strided(start, 3, count).unwrap();
        assert_eq!(join(&section(0, 5), &section(15, 5)), Some(section(0, 10)));
        assert_eq!(join(&section(15, 5), &section(0, 5)), Some(section(0, 10)));
        assert_eq!(join(&section(0, 5), &section(15, 2)), Some(section(0, 7)));
        assert_eq!(join(&section(0, 2), &section(6, 5)), Some(section(0, 7)));
        assert_eq!(join(&Section::single(0), &section(3, 5)), Some(section(0, 6)));
        assert_eq!(join(&section(0, 5), &Section::single(15)), Some(section(0, 6)));
        assert_eq!(join(&section(0, 5), &Section::single(16)), None);
        assert_eq!(join(&Section::single(4), &Section::single(4)), None);
        let rows = join(&section(0, 5), &section(100, 5)).unwrap();
        assert_eq!(rows.size(), 10);
    }
}
