//! Numbers and texts that depend on the rank, as C expressions of `rank`.

use refrain_elastic::{Column, Form, Formula, IdList, Section, TreeStep};
use std::collections::BTreeMap;
use std::fmt::Write;

/// With more pieces, a column is a table.
const MOST_PIECES: usize = 3;

/// Tables at the beginning of the program, each with a name.
#[derive(Debug, Default)]
pub struct Tables {
    /// By their text, their number.
    known: BTreeMap<String, usize>,
    /// The definitions in order.
    texts: Vec<String>,
}

impl Tables {
    /// The name of a table with these elements.
    pub fn name(&mut self, ctype: &str, prefix: &str, dimensions: &str, elements: &str) -> String {
        let rest = format!("{dimensions} = {elements};");
        let key = format!("{ctype} {rest}");
        let number = match self.known.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.texts.len();
                self.texts.push(format!("static const {ctype} {prefix}{number}{rest}"));
                self.known.insert(key, number);
                number
            }
        };
        format!("{prefix}{number}")
    }

    /// The definitions.
    pub fn definitions(&self) -> &[String] {
        &self.texts
    }
}

/// The C type that holds numbers.
pub fn int_or_long(values: impl IntoIterator<Item = i64>) -> &'static str {
    let fits = |value: i64| i32::try_from(value).is_ok();
    if values.into_iter().all(fits) { "int" } else { "long" }
}

/// A number as a C literal.
pub fn literal(value: i64) -> String {
    match value {
        i64::MIN => "(-9223372036854775807L - 1)".to_owned(),
        _ if i32::try_from(value).is_err() => format!("{value}L"),
        _ => value.to_string(),
    }
}

/// What the generator knows of ranks.
pub struct Ranks<'t> {
    /// How many processes there are.
    pub size: u32,
    /// Where tables go.
    pub tables: &'t mut Tables,
}

impl Ranks<'_> {
    /// A condition that holds for the `wanted` among `all` ranks.
    pub fn condition(&mut self, wanted: &[u32], all: &[u32]) -> String {
        if let [only] = wanted {
            return format!("rank == {only}");
        }
        let others: Vec<u32> = all.iter().copied().filter(|r| !wanted.contains(r)).collect();
        if let [only] = others.as_slice() {
            return format!("rank != {only}");
        }
        if let (Some(last), Some(first)) = (wanted.last(), others.first())
            && last < first
        {
            return format!("rank < {first}");
        }
        if let (Some(first), Some(last)) = (wanted.first(), others.last())
            && first > last
        {
            return format!("rank > {last}");
        }
        let list = IdList::from_sorted(wanted);
        if let [section] = list.sections()
            && let Some(text) = section_text(section)
        {
            return text;
        }
        let flags: Vec<&str> = (0..self.size)
            .map(|rank| if wanted.binary_search(&rank).is_ok() { "1" } else { "0" })
            .collect();
        let elements = format!("{{{}}}", flags.join(", "));
        let name = self.tables.name("char", "is", &format!("[{}]", self.size), &elements);
        format!("{name}[rank]")
    }

    /// Texts that depend on the rank: a choice.
    pub fn choice(&mut self, texts: &[(u32, String)]) -> String {
        let mut by_text: Vec<(&String, Vec<u32>)> = Vec::new();
        for (rank, text) in texts {
            match by_text.iter_mut().find(|(known, _)| *known == text) {
                Some((_, ranks)) => ranks.push(*rank),
                None => by_text.push((text, vec![*rank])),
            }
        }
        // The most frequent one last, without a condition.
        by_text.sort_by_key(|(_, ranks)| ranks.len());
        let mut all: Vec<u32> = texts.iter().map(|(rank, _)| *rank).collect();
        all.sort_unstable();
        let Some((last, _)) = by_text.pop() else { return "0".to_owned() };
        let mut text = String::new();
        for (choice, mut ranks) in by_text {
            ranks.sort_unstable();
            let condition = self.condition(&ranks, &all);
            let _ = write!(text, "{condition} ? {choice} : ");
            all.retain(|rank| !ranks.contains(rank));
        }
        match text.is_empty() {
            true => last.clone(),
            false => format!("({text}{last})"),
        }
    }

    /// Numbers of ranks. Those with a name are written by it.
    pub fn number(
        &mut self,
        values: &[(u32, i64)],
        name: &dyn Fn(i64) -> Option<String>,
    ) -> String {
        let Some((_, first)) = values.first() else { return "0".to_owned() };
        let text = |value: i64| name(value).unwrap_or_else(|| literal(value));
        if values.iter().all(|(_, value)| value == first) {
            return text(*first);
        }
        let plain: Vec<(u32, i64)> =
            values.iter().copied().filter(|(_, value)| name(*value).is_none()).collect();
        let named: Vec<(u32, String)> =
            values.iter().filter_map(|(rank, value)| Some((*rank, name(*value)?))).collect();
        let formula = match plain.is_empty() {
            true => None,
            false => self.formula(&plain),
        };
        match (named.is_empty(), formula) {
            (true, Some(formula)) => formula,
            (false, None) if plain.is_empty() => self.choice(&named),
            (false, Some(formula)) if named.len() <= plain.len().max(4) => {
                let mut texts = named.clone();
                texts.extend(plain.iter().map(|(rank, _)| (*rank, formula.clone())));
                texts.sort_by_key(|(rank, _)| *rank);
                self.choice(&texts)
            }
            _ => self.table(values, &text),
        }
    }

    /// A table with a number for each rank.
    fn table(&mut self, values: &[(u32, i64)], text: &dyn Fn(i64) -> String) -> String {
        let ctype = int_or_long(values.iter().map(|(_, value)| *value));
        let mut elements = vec!["0".to_owned(); self.size as usize];
        for (rank, value) in values {
            if let Some(element) = elements.get_mut(*rank as usize) {
                *element = text(*value);
            }
        }
        let elements = format!("{{{}}}", elements.join(", "));
        let name = self.tables.name(ctype, "by_rank", &format!("[{}]", self.size), &elements);
        format!("{name}[rank]")
    }

    /// A formula of the rank, if there is a short one.
    fn formula(&mut self, values: &[(u32, i64)]) -> Option<String> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let (ranks, numbers): (Vec<u32>, Vec<i64>) = sorted.iter().copied().unzip();
        let column = Column::fit(&ranks, &numbers);
        if column.pieces().len() > MOST_PIECES {
            return None;
        }
        let Form::Formula(rest) = column.rest() else { return None };
        let mut left = ranks.clone();
        let mut text = String::new();
        for piece in column.pieces() {
            let Form::Formula(formula) = &piece.values else { return None };
            let these: Vec<u32> =
                left.iter().copied().filter(|rank| piece.ranks.contains(*rank)).collect();
            let condition = self.condition(&these, &left);
            left.retain(|rank| !these.contains(rank));
            let _ = write!(text, "{condition} ? {} : ", formula_text(formula));
        }
        let rest = formula_text(rest);
        Some(if text.is_empty() { rest } else { format!("({text}{rest})") })
    }
}

/// A section of ranks as a condition, if it is short.
fn section_text(section: &Section) -> Option<String> {
    let start = section.start();
    let last = section.last();
    match section.dimensions() {
        [] => Some(format!("rank == {start}")),
        [only] if only.stride == 1 => Some(match start {
            0 => format!("rank <= {last}"),
            _ => format!("(rank >= {start} && rank <= {last})"),
        }),
        [only] => {
            let mut parts = Vec::new();
            if start >= only.stride {
                parts.push(format!("rank >= {start}"));
            }
            parts.push(format!("rank <= {last}"));
            parts.push(format!("rank % {} == {}", only.stride, start % only.stride));
            Some(format!("({})", parts.join(" && ")))
        }
        _ => None,
    }
}

fn summed(text: String, offset: i64) -> String {
    match offset {
        0 => text,
        offset if offset < 0 => format!("{text} - {}", literal(offset).trim_start_matches('-')),
        offset => format!("{text} + {}", literal(offset)),
    }
}

fn scaled(text: &str, scale: i64) -> String {
    match scale {
        1 => text.to_owned(),
        -1 => format!("-{text}"),
        scale => format!("{} * {text}", literal(scale)),
    }
}

/// A formula as a C expression that needs no parentheses inside of an argument.
fn formula_text(formula: &Formula) -> String {
    match *formula {
        Formula::Constant(value) => literal(value),
        Formula::Affine { scale, offset } => summed(scaled("rank", scale), offset),
        Formula::Modulo { shift: 0, modulus, offset } => {
            summed(format!("rank % {modulus}"), offset)
        }
        Formula::Modulo { shift, modulus, offset } => {
            summed(format!("(rank + {shift}) % {modulus}"), offset)
        }
        Formula::Xor { mask, offset } => summed(format!("(rank ^ {})", literal(mask)), offset),
        Formula::Tree { step, scale, offset } => {
            let step = match step {
                TreeStep::LowestBit => "lowest_bit(rank)",
                TreeStep::WithoutLowestBit => "(rank - lowest_bit(rank))",
                TreeStep::PlusLowestBit => "(rank + lowest_bit(rank))",
                TreeStep::WithNextBit => "(rank | (rank + 1))",
                TreeStep::HighestBit => "highest_bit(rank)",
                TreeStep::WithoutHighestBit => "(rank - highest_bit(rank))",
            };
            summed(format!("(int)({})", scaled(step, scale)), offset)
        }
        Formula::Grid(grid) => {
            let mut terms = Vec::new();
            let mut below = 1u64;
            for digit in grid.digits() {
                let above = if below == 1 { "rank".to_owned() } else { format!("rank / {below}") };
                let text = match digit.shift {
                    0 => format!("({above} % {})", digit.radix),
                    shift => format!("(({above} + {shift}) % {})", digit.radix),
                };
                if digit.scale != 0 {
                    terms.push(scaled(&text, digit.scale));
                }
                below = below.saturating_mul(digit.radix.into());
            }
            if grid.top() != 0 {
                terms.push(scaled(&format!("(rank / {below})"), grid.top()));
            }
            if terms.is_empty() {
                return literal(grid.offset());
            }
            summed(terms.join(" + "), grid.offset())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(values: &[i64]) -> (String, Vec<String>) {
        let mut tables = Tables::default();
        let mut ranks = Ranks { size: values.len() as u32, tables: &mut tables };
        let values: Vec<(u32, i64)> = (0..).zip(values.iter().copied()).collect();
        let name = |value: i64| (value == -1).then(|| "MPI_PROC_NULL".to_owned());
        let text = ranks.number(&values, &name);
        (text, tables.definitions().to_vec())
    }

    #[test]
    fn a_value_without_a_rank_is_never_part_of_a_formula() {
        assert_eq!(text(&[-1, 0, 1, 2]).0, "(rank == 0 ? MPI_PROC_NULL : rank - 1)");
        assert_eq!(text(&[3, 3, 3]).0, "3");
        assert_eq!(text(&[1, 2, 3, 0]).0, "(rank + 1) % 4");
    }

    #[test]
    fn values_without_a_formula_are_a_table() {
        let (text, tables) = text(&[9, 4, 77, 2, 31, 8, 60, 5]);
        assert_eq!(text, "by_rank0[rank]");
        assert_eq!(tables, ["static const int by_rank0[8] = {9, 4, 77, 2, 31, 8, 60, 5};"]);
    }

    proptest! {
        #[test]
        fn equal_values_are_one_literal(value: i64, ranks in 1usize..9) {
            prop_assume!(value != -1);
            prop_assert_eq!(text(&vec![value; ranks]).0, literal(value));
        }
    }
}
