//! Strings over ranks.
//!
//! Names that differ between ranks mostly differ by a number: `out.0003.dat`. Such strings are a
//! *template*: literal text and numbers, where each number is a [`Column`], zero-padded to a width.
//! Of other strings, each distinct one is stored once, and a column has the index for each rank.

use std::collections::HashMap;

use crate::column::Column;
use crate::error::ElasticError;
use crate::idlist::IdList;
use refrain_bytes::varint;

/// The most digits of a number in a template: all such numbers fit an `i64`.
const MOST_DIGITS: usize = 18;
/// The most parts of a template, which bounds the size of decoded strings.
const MOST_PARTS: usize = 32;

/// A string for each rank of a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TextColumn {
    ranks: IdList,
    form: Form,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Form {
    Constant(Vec<u8>),
    Template(Vec<Part>),
    Table {
        /// In order of first appearance.
        distinct: Vec<Vec<u8>>,
        /// The index of each rank's string.
        index: Column,
    },
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    Literal(Vec<u8>),
    Number {
        /// The width to which numbers are padded with zeros.
        width: u8,
        column: Column,
    },
}

impl Default for TextColumn {
    /// The column of no rank.
    fn default() -> Self {
        Self { ranks: IdList::default(), form: Form::Constant(Vec::new()) }
    }
}

impl TextColumn {
    /// The shortest column found that gives each of the `ranks` its text. Unsorted ranks and unequal lengths
    /// are treated as in [`Column::fit`].
    pub fn fit(ranks: &[u32], texts: &[&[u8]]) -> Self {
        let count = ranks.len().min(texts.len());
        let (ranks, texts) = (ranks.get(..count), texts.get(..count));
        let (ranks, texts) = (ranks.unwrap_or_default(), texts.unwrap_or_default());
        if ranks.is_sorted_by(|a, b| a < b) {
            return Self::fit_sorted(ranks, texts);
        }
        let mut pairs: Vec<(u32, &[u8])> =
            ranks.iter().copied().zip(texts.iter().copied()).collect();
        pairs.sort_by_key(|&(rank, _)| rank);
        pairs.dedup_by_key(|&mut (rank, _)| rank);
        let (ranks, texts): (Vec<u32>, Vec<&[u8]>) = pairs.into_iter().unzip();
        Self::fit_sorted(&ranks, &texts)
    }

    fn fit_sorted(ranks: &[u32], texts: &[&[u8]]) -> Self {
        let Some(&first) = texts.first() else { return Self::default() };
        let list = IdList::from_sorted(ranks);
        if texts.iter().all(|&text| text == first) {
            return Self { ranks: list, form: Form::Constant(first.to_vec()) };
        }
        let table = Self { form: table(&list, texts), ranks: list };
        let Some(parts) = template(&table.ranks, texts) else { return table };
        let template = Self { ranks: table.ranks.clone(), form: Form::Template(parts) };
        let size = |column: &Self| {
            let mut bytes = Vec::new();
            column.encode_texts(&mut bytes);
            bytes.len()
        };
        if size(&template) <= size(&table) { template } else { table }
    }

    /// The column of the ranks of both. They should be disjoint; for a rank in both, the text of `a` is used.
    pub fn merge(a: Self, b: Self) -> Self {
        if a.ranks.is_empty() {
            return b;
        }
        if b.ranks.is_empty() {
            return a;
        }
        if let (Form::Constant(_), true) = (&a.form, a.form == b.form) {
            return Self { ranks: a.ranks.union(&b.ranks), form: a.form };
        }
        let (mut ranks, mut texts) = a.expand();
        let (more_ranks, more_texts) = b.expand();
        ranks.extend(more_ranks);
        texts.extend(more_texts);
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        Self::fit(&ranks, &texts)
    }

    /// The ranks that have a text.
    pub fn ranks(&self) -> &IdList {
        &self.ranks
    }

    /// The number of values in tables.
    pub fn held(&self) -> usize {
        let number = |part: &Part| match part {
            Part::Literal(_) => 0,
            Part::Number { column, .. } => column.held(),
        };
        match &self.form {
            Form::Constant(_) => 0,
            Form::Template(parts) => parts.iter().map(number).sum(),
            Form::Table { index, .. } => index.held(),
        }
    }

    /// The text, if all ranks have the same.
    pub fn constant(&self) -> Option<&[u8]> {
        match &self.form {
            Form::Constant(text) => Some(text),
            _ => None,
        }
    }

    /// The text of `rank`, if the column has one.
    pub fn eval(&self, rank: u32) -> Option<Vec<u8>> {
        if !self.ranks.contains(rank) {
            return None;
        }
        match &self.form {
            Form::Constant(text) => Some(text.clone()),
            Form::Table { distinct, index } => {
                distinct.get(usize::try_from(index.eval(rank)?).ok()?).cloned()
            }
            Form::Template(parts) => {
                let mut text = Vec::new();
                for part in parts {
                    match part {
                        Part::Literal(literal) => text.extend_from_slice(literal),
                        Part::Number { width, column } => {
                            put_number(&mut text, column.eval(rank)?, *width);
                        }
                    }
                }
                Some(text)
            }
        }
    }

    /// All ranks, ascending, and their texts.
    pub fn expand(&self) -> (Vec<u32>, Vec<Vec<u8>>) {
        let ranks = self.ranks.to_vec();
        let texts = ranks.iter().map(|&rank| self.eval(rank).unwrap_or_default()).collect();
        (ranks, texts)
    }

    /// Appends the ranks and the texts.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.ranks.encode(out);
        self.encode_texts(out);
    }

    /// Appends the texts only; [`TextColumn::decode_texts`] needs the ranks.
    pub fn encode_texts(&self, out: &mut Vec<u8>) {
        match &self.form {
            Form::Constant(text) => {
                out.push(0);
                varint::put_bytes(out, text);
            }
            Form::Template(parts) => {
                out.push(1);
                varint::put(out, parts.len() as u64);
                for part in parts {
                    match part {
                        Part::Literal(literal) => {
                            out.push(0);
                            varint::put_bytes(out, literal);
                        }
                        Part::Number { width, column } => {
                            out.push(*width);
                            column.encode_values(out);
                        }
                    }
                }
            }
            Form::Table { distinct, index } => {
                out.push(2);
                varint::put(out, distinct.len() as u64);
                for text in distinct {
                    varint::put_bytes(out, text);
                }
                index.encode_values(out);
            }
        }
    }

    /// Reads a column whose ranks must all be below `most`.
    pub fn decode(input: &mut &[u8], most: u32) -> Result<Self, ElasticError> {
        let ranks = IdList::decode(input, most)?;
        Self::decode_texts(input, &ranks)
    }

    /// Reads the texts of a column of these ranks, as [`TextColumn::encode_texts`] wrote them.
    pub fn decode_texts(input: &mut &[u8], ranks: &IdList) -> Result<Self, ElasticError> {
        let form = match varint::take_byte(input)? {
            0 => Form::Constant(take_text(input)?),
            1 => {
                let mut parts = Vec::new();
                let count = varint::take(input)?;
                if count > MOST_PARTS as u64 {
                    return Err(ElasticError::OutOfRange("number of parts"));
                }
                for _ in 0..count {
                    parts.push(match varint::take_byte(input)? {
                        0 => Part::Literal(take_text(input)?),
                        width if usize::from(width) <= MOST_DIGITS => {
                            Part::Number { width, column: Column::decode_values(input, ranks)? }
                        }
                        _ => return Err(ElasticError::OutOfRange("width")),
                    });
                }
                Form::Template(parts)
            }
            2 => {
                let mut distinct = Vec::new();
                for _ in 0..varint::take(input)? {
                    distinct.push(take_text(input)?);
                }
                Form::Table { distinct, index: Column::decode_values(input, ranks)? }
            }
            _ => return Err(ElasticError::Unknown("text")),
        };
        Ok(Self { ranks: ranks.clone(), form })
    }
}

fn take_text(input: &mut &[u8]) -> Result<Vec<u8>, ElasticError> {
    Ok(varint::take_bytes(input)?.to_vec())
}

fn put_number(text: &mut Vec<u8>, number: i64, width: u8) {
    let width = usize::from(width);
    text.extend_from_slice(format!("{number:0width$}").as_bytes());
}

/// Each distinct text once, and the index of each rank's text.
fn table(list: &IdList, texts: &[&[u8]]) -> Form {
    let mut indices: HashMap<&[u8], i64> = HashMap::new();
    let mut distinct = Vec::new();
    let index: Vec<i64> = texts
        .iter()
        .map(|&text| {
            *indices.entry(text).or_insert_with(|| {
                distinct.push(text.to_vec());
                distinct.len() as i64 - 1
            })
        })
        .collect();
    Form::Table { distinct, index: Column::fit_over(list, &index) }
}

/// The texts as literals and numbers, if all have the same literals at the same positions.
fn template(list: &IdList, texts: &[&[u8]]) -> Option<Vec<Part>> {
    let parts = tokens(texts.first()?).count();
    if parts > MOST_PARTS {
        return None;
    }
    let mut columns: Vec<Vec<&[u8]>> = vec![Vec::with_capacity(texts.len()); parts];
    for text in texts {
        let mut tokens = tokens(text);
        for column in &mut columns {
            column.push(tokens.next()?);
        }
        if tokens.next().is_some() {
            return None;
        }
    }
    columns.iter().map(|column| part(list, column)).collect()
}

/// The tokens at one position of all texts as a part, if they are equal or numbers.
fn part(list: &IdList, tokens: &[&[u8]]) -> Option<Part> {
    let first = tokens.first()?;
    if tokens.iter().all(|token| token == first) {
        return Some(Part::Literal(first.to_vec()));
    }
    tokens.iter().all(|token| is_number(token)).then(|| number(list, tokens))?
}

/// A column of numbers in decimal, if all are padded to the width of the shortest.
fn number(list: &IdList, decimals: &[&[u8]]) -> Option<Part> {
    let width = decimals.iter().map(|decimal| decimal.len()).min()? as u8;
    let mut values = Vec::with_capacity(decimals.len());
    let mut padded = Vec::new();
    for &decimal in decimals {
        let value = decimal.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        padded.clear();
        put_number(&mut padded, value, width);
        if padded != decimal {
            return None;
        }
        values.push(value);
    }
    Some(Part::Number { width, column: Column::fit_over(list, &values) })
}

/// Splits a text into sequences of digits and sequences of other bytes.
fn tokens(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
}

fn is_number(token: &[u8]) -> bool {
    token.len() <= MOST_DIGITS && token.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(texts: &[String]) -> (TextColumn, usize) {
        let ranks: Vec<u32> = (0..texts.len() as u32).collect();
        let bytes: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let column = TextColumn::fit(&ranks, &bytes);
        for (rank, text) in ranks.iter().zip(&bytes) {
            assert_eq!(column.eval(*rank).as_deref(), Some(*text));
        }
        assert_eq!(column.eval(texts.len() as u32), None);
        let mut encoded = Vec::new();
        column.encode(&mut encoded);
        let decoded = TextColumn::decode(&mut &encoded[..], texts.len() as u32);
        assert_eq!(decoded.as_ref(), Ok(&column));
        (column, encoded.len())
    }

    fn names(count: u32, name: impl Fn(u32) -> String) -> Vec<String> {
        (0..count).map(name).collect()
    }

    #[test]
    fn a_file_per_rank_is_a_template() {
        for count in [16, 64, 1024, 16384] {
            assert!(fit(&names(count, |r| format!("out.{r:04}.dat"))).1 <= 30);
            assert!(fit(&names(count, |r| format!("out.{r}.dat"))).1 <= 30);
            assert!(fit(&names(count, |r| format!("d{}/r{r:05}_v2.h5", r / 4))).1 <= 45);
        }
    }

    #[test]
    fn the_same_text_on_all_ranks_is_stored_once() {
        assert!(fit(&names(16384, |_| "/scratch/input.nml".to_owned())).1 <= 28);
    }

    #[test]
    fn each_of_a_few_texts_is_stored_once() {
        let (_, size) = fit(&names(1024, |r| ["master", "worker"][usize::from(r > 0)].to_owned()));
        assert!(size <= 35, "{size}");
    }

    #[test]
    fn texts_without_a_pattern_read_back() {
        fit(&names(20, |r| format!("{:x}", r.wrapping_mul(0x9e37_79b9))));
        fit(&["".to_owned(), "7".to_owned(), "07".to_owned(), "x".to_owned()]);
        fit(&["1".repeat(30), "2".repeat(30)]);
        fit(&["007".to_owned(), "7".to_owned()]);
    }

    #[test]
    fn halves_merge_to_the_whole() {
        let texts = names(64, |r| format!("out.{r:04}.dat"));
        let bytes: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let ranks: Vec<u32> = (0..64).collect();
        let a = TextColumn::fit(&ranks[..23], &bytes[..23]);
        let b = TextColumn::fit(&ranks[23..], &bytes[23..]);
        assert_eq!(TextColumn::merge(b, a), TextColumn::fit(&ranks, &bytes));
    }
}
