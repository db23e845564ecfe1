//! What of a program is recorded: options that become variables for the agent.

use crate::show::parse_ranks;
use anyhow::{Context, Result, bail};

/// What is recorded.
#[derive(clap::Args)]
pub struct Control {
    /// Only these functions, with or without MPI_; `*` stands for anything.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    functions: Vec<String>,
    /// Not these functions.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    exclude: Vec<String>,
    /// Only these ranks, e.g. 0-3,7.
    #[arg(long, value_name = "LIST")]
    ranks: Option<String>,
    /// Tell calls apart by where they come from: none, return (the return address), or stack:N
    /// (N frames). `refrain show` prints them as function, file and line.
    #[arg(long, value_name = "HOW", default_value = "none")]
    callsite: String,
    /// When the ranks' traces are put together: by the ranks themselves in MPI_Finalize, or after
    /// the program has ended; auto: by the ranks if they are more than 64.
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "finalize", "after"])]
    merge: String,
}

/// From so many ranks on they merge their traces themselves.
const MANY_RANKS: u32 = 65;

impl Control {
    /// The variables, as NAME=VALUE.
    pub fn variables(&self, raw: bool, ranks: Option<u32>) -> Result<Vec<String>> {
        let mut variables = Vec::new();
        let names = [
            ("FUNCTIONS", "--functions", &self.functions),
            ("EXCLUDE", "--exclude", &self.exclude),
        ];
        for (variable, option, names) in names {
            for name in names {
                known(name).with_context(|| option.to_owned())?;
            }
            if !names.is_empty() {
                variables.push(format!("REFRAIN_{variable}={}", names.join(",")));
            }
        }
        if let Some(ranks) = &self.ranks {
            parse_ranks("--ranks", ranks)?;
            variables.push(format!("REFRAIN_RANKS={ranks}"));
        }
        let frames = self.callsite.strip_prefix("stack:").map(str::parse::<u8>);
        match (self.callsite.as_str(), frames) {
            ("none", _) => {}
            ("return", _) | (_, Some(Ok(1..=64))) => {
                variables.push(format!("REFRAIN_CALLSITE={}", self.callsite));
            }
            _ => bail!(
                "--callsite: `{}` is none of none, return, stack:N with N from 1 to 64",
                self.callsite
            ),
        }
        let many = ranks.is_some_and(|ranks| ranks >= MANY_RANKS);
        if self.merge == "finalize" || (self.merge == "auto" && many) {
            variables.push("REFRAIN_MERGE=finalize".to_owned());
        }
        if raw {
            variables.push("REFRAIN_RAW=1".to_owned());
        }
        Ok(variables)
    }
}

/// Whether a name or pattern names any function.
fn known(name: &str) -> Result<()> {
    let pattern = normalised(name);
    let mut functions = refrain_mpi::interface::functions().iter();
    if !functions.any(|f| matches(&pattern, &normalised(&f.name))) {
        bail!("MPI has no function `{name}`");
    }
    Ok(())
}

fn normalised(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    name.strip_prefix("mpi_").unwrap_or(&name).to_owned()
}

/// Whether a name fits a pattern in which `*` stands for anything.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_functions() {
        assert!(matches("isend", "isend"));
        assert!(matches("wait*", "waitall"));
        assert!(matches("*send*", "isend_c"));
        assert!(!matches("wait*", "iwait"));
        assert!(known("MPI_Type_*").is_ok());
        assert!(known("Frobnicate").is_err());
    }

    #[test]
    fn options_become_variables() {
        let control = |functions: &str, callsite: &str| Control {
            functions: functions.split(',').map(str::to_owned).collect(),
            exclude: Vec::new(),
            ranks: Some("0-3,7".to_owned()),
            callsite: callsite.to_owned(),
            merge: "auto".to_owned(),
        };
        let variables = control("Send,MPI_Recv", "stack:4").variables(true, None).unwrap();
        assert_eq!(
            variables,
            [
                "REFRAIN_FUNCTIONS=Send,MPI_Recv",
                "REFRAIN_RANKS=0-3,7",
                "REFRAIN_CALLSITE=stack:4",
                "REFRAIN_RAW=1",
            ]
        );
        assert!(control("Send", "stack:0").variables(false, None).is_err());
        assert!(control("Nonsense", "none").variables(false, None).is_err());
    }
}
