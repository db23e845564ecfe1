//! Which lines were ever accessed: a bit for each, in pages.

use std::collections::HashMap;

const PAGE_BITS: u32 = 12;
const WORDS: usize = 1 << (PAGE_BITS - 6);

/// A set of lines.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pages: Vec<[u64; WORDS]>,
    index: HashMap<u64, usize>,
    /// The pages that were used last, by the lower bits of their numbers.
    recent: [Option<(u64, usize)>; 16],
}

impl Seen {
    #[inline]
    fn page(&mut self, line: u64) -> usize {
        let number = line >> PAGE_BITS;
        match self.recent[number as usize % 16] {
            Some((recent, page)) if recent == number => page,
            _ => self.look_up(number),
        }
    }

    #[cold]
    fn look_up(&mut self, number: u64) -> usize {
        let next = self.pages.len();
        let page = *self.index.entry(number).or_insert(next);
        if page == next {
            self.pages.push([0; WORDS]);
        }
        self.recent[number as usize % 16] = Some((number, page));
        page
    }

    /// Adds a line; whether it is new.
    #[inline]
    pub fn insert(&mut self, line: u64) -> bool {
        let page = self.page(line);
        let word = &mut self.pages[page][(line >> 6) as usize % WORDS];
        let bit = 1 << (line % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether it holds a line.
    pub fn contains(&self, line: u64) -> bool {
        let page = self.index.get(&(line >> PAGE_BITS));
        page.is_some_and(|&page| {
            self.pages[page][(line >> 6) as usize % WORDS] >> (line % 64) & 1 != 0
        })
    }

    /// Adds consecutive lines.
    pub fn insert_all(&mut self, first: u64, count: u64) {
        let (mut line, end) = (first, first.saturating_add(count));
        while line < end {
            if line.is_multiple_of(64) && end - line >= 64 {
                let page = self.page(line);
                self.pages[page][(line >> 6) as usize % WORDS] = u64::MAX;
                line += 64;
            } else {
                self.insert(line);
                line += 1;
            }
        }
    }

    /// Whether it holds some line of a range.
    pub fn has_any(&self, first: u64, last: u64) -> bool {
        if first > last {
            return false;
        }
        let has = |page: usize, from: u64, to: u64| {
            (from..=to)
                .any(|line| self.pages[page][(line >> 6) as usize % WORDS] >> (line % 64) & 1 != 0)
        };
        let (low, high) = (first >> PAGE_BITS, last >> PAGE_BITS);
        let within = |number: u64, page: usize| {
            let start = number << PAGE_BITS;
            has(page, first.max(start), last.min(start | ((1 << PAGE_BITS) - 1)))
        };
        match high - low < self.pages.len() as u64 {
            true => (low..=high)
                .any(|number| self.index.get(&number).is_some_and(|&page| within(number, page))),
            false => self
                .index
                .iter()
                .any(|(&number, &page)| (low..=high).contains(&number) && within(number, page)),
        }
    }

    /// Whether it holds all lines of a range.
    pub fn has_all(&self, first: u64, last: u64) -> bool {
        (first..=last).all(|line| self.contains(line))
    }

    /// How many lines it holds.
    pub fn count(&self) -> u64 {
        self.pages.iter().flatten().map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set_of_lines(
            ranges in prop::collection::vec((0u64..20_000, 1u64..300), 0..20),
            asked in prop::collection::vec((0u64..20_000, 0u64..5_000), 20),
        ) {
            let (mut seen, mut set) = (Seen::default(), BTreeSet::new());
            for (first, count) in ranges {
                prop_assert_eq!(seen.insert(first), set.insert(first));
                seen.insert_all(first, count);
                set.extend(first..first + count);
            }
            for (first, more) in asked {
                prop_assert_eq!(seen.contains(first), set.contains(&first));
                let any = set.range(first..=first + more).next().is_some();
                prop_assert_eq!(seen.has_any(first, first + more), any);
                let all = (first..=first + more).all(|line| set.contains(&line));
                prop_assert_eq!(seen.has_all(first, first + more), all);
            }
            prop_assert_eq!(seen.count(), set.len() as u64);
        }
    }
}
