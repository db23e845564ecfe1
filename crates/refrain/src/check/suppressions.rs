//! Findings that a user knows and does not want to see.

use super::report::Row;
use crate::Usage;
use anyhow::{Context, Result, bail};
use refrain_check::Class;
use std::path::Path;

/// A line of the file: a class, and a pattern for one of its calls.
#[derive(Debug, PartialEq)]
struct Rule {
    class: Option<Class>,
    pattern: Option<String>,
}

/// The rules of a file.
#[derive(Debug, Default, PartialEq)]
pub struct Suppressions(Vec<Rule>);

impl Suppressions {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Suppressions> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Suppressions::parse(&text, &path.display().to_string())
    }

    fn parse(text: &str, name: &str) -> Result<Suppressions> {
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split('#').next().unwrap_or("").split_whitespace();
            let Some(class) = words.next() else { continue };
            let of = match class {
                "*" => None,
                name => Class::named(name).map(Some).unwrap_or(None),
            };
            if of.is_none() && class != "*" {
                let classes: Vec<&str> = Class::ALL.into_iter().map(Class::name).collect();
                bail!(Usage(format!(
                    "{name}, line {}: `{class}` is no class of findings. The classes are {}",
                    number + 1,
                    classes.join(", ")
                )));
            }
            rules.push(Rule { class: of, pattern: words.next().map(str::to_owned) });
        }
        Ok(Suppressions(rules))
    }

    /// Whether a finding is not to be shown.
    pub fn cover(&self, row: &Row) -> bool {
        self.0.iter().any(|rule| {
            let is_class = rule.class.is_none_or(|class| class.name() == row.class);
            let is_place = rule.pattern.as_ref().is_none_or(|pattern| {
                row.places.iter().any(|place| {
                    let line = match (&place.file, place.line) {
                        (Some(file), Some(line)) => format!("{}:{line}", last_part(file)),
                        _ => String::new(),
                    };
                    [place.function.as_str(), &line].iter().any(|text| fits(pattern, text))
                })
            });
            is_class && is_place
        })
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a text is as a pattern, in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| fits(after, rest)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        assert!(fits("MPI_*send", "MPI_Isend"));
        assert!(fits("a.c:*", "a.c:17"));
        assert!(!fits("a.c:1", "a.c:17"));
        assert!(fits("*", ""));
    }

    #[test]
    fn an_unknown_class_is_refused_with_its_line() {
        let error = Suppressions::parse("# none\nobject-leak MPI_Comm_dup\nleak\n", "known.txt");
        let error = error.expect_err("a bad class").to_string();
        assert!(
            error.contains("known.txt, line 3: `leak`") && error.contains("object-leak"),
            "{error}"
        );
    }
}
