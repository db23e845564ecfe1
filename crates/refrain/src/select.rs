//! Parses names of functions, patterns and lists of ranks.

use crate::Usage;
use anyhow::Result;
use refrain_mpi::interface;
use std::collections::BTreeSet;

/// Names of functions, with or without `MPI_`, case-insensitive; `*` matches any characters.
#[derive(Debug, Default)]
pub struct Names(Vec<String>);

impl Names {
    /// Parses the names passed to an option. Each must match a function of MPI.
    pub fn parse(option: &str, names: &[String]) -> Result<Names> {
        for name in names {
            let pattern = normalised(name);
            let mut functions = interface::functions().iter();
            if !functions.any(|f| matches(&pattern, &normalised(&f.name))) {
                return Err(Usage(format!("{option}: MPI has no function `{name}`")).into());
            }
        }
        Ok(Names(names.iter().map(|name| normalised(name)).collect()))
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a function matches one of the names.
    pub fn contain(&self, function: &str) -> bool {
        let name = normalised(function);
        self.0.iter().any(|pattern| matches(pattern, &name))
    }
}

/// `MPI_Send`, `send` and `Send` become the same name.
fn normalised(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    name.strip_prefix("mpi_").unwrap_or(&name).to_owned()
}

/// Whether a name matches a pattern in which `*` matches any characters.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|tail| {
            (0..=tail.len())
                .filter(|i| tail.is_char_boundary(*i))
                .any(|i| matches(rest, &tail[i..]))
        }),
    }
}

/// Parses a list of ranks such as `0-3,7`, passed to that option.
pub fn parse_ranks(option: &str, list: &str) -> Result<BTreeSet<i32>> {
    let mut ranks = BTreeSet::new();
    for item in list.split(',') {
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        match (from.trim().parse::<i32>(), to.trim().parse::<i32>()) {
            (Ok(from), Ok(to)) if from <= to && to - from < 1 << 24 => ranks.extend(from..=to),
            _ => {
                let why = format!("{option}: `{item}` is neither a rank nor a range such as 0-3");
                return Err(Usage(why).into());
            }
        }
    }
    Ok(ranks)
}

/// `rank 3`, `ranks 0, 2-5`.
pub fn ranks_in_words(all: &[i32]) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for &rank in all {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let run = |&(first, last): &(i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let runs: Vec<_> = runs.iter().map(run).collect();
    format!("rank{} {}", if all.len() == 1 { "" } else { "s" }, runs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_in_a_row_are_a_range() {
        assert_eq!(ranks_in_words(&[3]), "rank 3");
        assert_eq!(ranks_in_words(&[0, 1]), "ranks 0, 1");
        assert_eq!(ranks_in_words(&[0, 2, 3, 4, 9]), "ranks 0, 2-4, 9");
    }

    #[test]
    fn rank_lists_take_numbers_and_ranges() {
        let ranks =
            |list| parse_ranks("--rank", list).map(|set| set.into_iter().collect::<Vec<_>>()).ok();
        assert_eq!(ranks("0-3,7"), Some(vec![0, 1, 2, 3, 7]));
        assert_eq!(ranks("5"), Some(vec![5]));
        assert_eq!(ranks("3-1"), None);
        assert_eq!(ranks("all"), None);
        assert_eq!(ranks(""), None);
    }

    #[test]
    fn names_of_functions_are_normalised() {
        assert_eq!(normalised("MPI_Send"), "send");
        assert_eq!(normalised("Send"), "send");
        assert_eq!(normalised("mpi_send_c"), "send_c");
    }

    #[test]
    fn patterns_name_functions() {
        assert!(matches("isend", "isend"));
        assert!(matches("wait*", "waitall"));
        assert!(matches("*send*", "isend_c"));
        assert!(!matches("wait*", "iwait"));
        let names = |name: &str| Names::parse("--functions", &[name.to_owned()]);
        assert!(names("MPI_Type_*").is_ok_and(|n| n.contain("MPI_Type_free")));
        let why = names("Frob*").expect_err("no such function").to_string();
        assert_eq!(why, "--functions: MPI has no function `Frob*`");
    }
}
