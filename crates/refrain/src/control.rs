//! Options that select what is recorded. They become environment variables for the agent.

use crate::Usage;
use crate::select::{Names, parse_ranks};
use anyhow::{Result, bail};
use refrain_mpi::interface;
use refrain_mpi::semantics::Op;
use refrain_reader::Meta;

/// Selects what is recorded.
#[derive(clap::Args)]
pub struct Control {
    /// Record only these functions; the prefix MPI_ is optional, `*` matches any characters. Init,
    /// Finalize, Abort and the session functions are always recorded, on all ranks.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    functions: Vec<String>,
    /// Do not record these functions.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    exclude: Vec<String>,
    /// Record only these ranks, e.g. 0-3,7.
    #[arg(long, value_name = "LIST")]
    ranks: Option<String>,
    /// Record call sites: none, return (the return address) or stack:N (N frames). `refrain show`
    /// prints them as function, file and line.
    #[arg(long, value_name = "HOW", default_value = "none")]
    callsite: String,
    /// When to merge the traces of the ranks: finalize (the ranks do it in MPI_Finalize), after (when
    /// the program has ended), or auto (finalize if there are more than 64 ranks).
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "finalize", "after"])]
    merge: String,
}

/// With `--merge auto`, jobs of at least this many ranks merge in `MPI_Finalize`.
const MANY_RANKS: u32 = 65;

impl Control {
    /// The environment variables, as NAME=VALUE.
    pub fn variables(&self, raw: bool, ranks: Option<u32>) -> Result<Vec<String>> {
        let mut variables = Vec::new();
        self.check_names()?;
        for (variable, names) in [("FUNCTIONS", &self.functions), ("EXCLUDE", &self.exclude)] {
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
            _ => bail!(Usage(format!(
                "--callsite: `{}` is none of none, return, stack:N with N from 1 to 64",
                self.callsite
            ))),
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

    /// The selecting options, each as it would be written on a command line.
    pub fn selected(&self) -> Vec<String> {
        let mut selected = Vec::new();
        for (option, names) in [("--functions", &self.functions), ("--exclude", &self.exclude)] {
            if !names.is_empty() {
                selected.push(format!("{option} {}", names.join(",")));
            }
        }
        selected.extend(self.ranks.iter().map(|ranks| format!("--ranks {ranks}")));
        if self.callsite != "none" {
            selected.push(format!("--callsite {}", self.callsite));
        }
        selected
    }

    /// Refuses names that match no function, and selections that leave nothing to record.
    fn check_names(&self) -> Result<()> {
        let only = Names::parse("--functions", &self.functions)?;
        let not = Names::parse("--exclude", &self.exclude)?;
        let is_wanted = |name: &str| (only.is_empty() || only.contain(name)) && !not.contain(name);
        let mut wanted = interface::functions().iter().filter(|f| is_wanted(&f.name)).peekable();
        if wanted.peek().is_none() {
            bail!(Usage("--functions and --exclude leave no function to record".to_owned()));
        }
        if !wanted.any(|f| interface::is_wrapped(&f.name)) {
            let names = self.functions.join(",");
            bail!(Usage(format!("--functions: {names} is never recorded")));
        }
        Ok(())
    }
}

/// Whether a function is recorded regardless of the selection.
fn is_always_recorded(name: &str) -> bool {
    let op = interface::function(name).map(|function| function.op());
    matches!(op, Some(Op::Begin | Op::End | Op::Abort))
}

/// A warning if the trace has no calls that were selected.
pub fn unmatched(meta: &Meta) -> Option<String> {
    let options: Vec<_> = meta.selected.iter().filter(|o| !o.starts_with("--callsite")).collect();
    let size = meta.streams.iter().map(|s| s.size).max().unwrap_or(0);
    let ranks = options.iter().find_map(|option| option.strip_prefix("--ranks "));
    let ranks = ranks.and_then(|list| parse_ranks("--ranks", list).ok()).unwrap_or_default();
    let absent: Vec<String> =
        ranks.iter().filter(|rank| **rank >= size).map(ToString::to_string).collect();
    if size > 0 && !absent.is_empty() {
        let absent = absent.join(",");
        return Some(format!("warning: --ranks {absent}: the job has ranks 0-{} only", size - 1));
    }
    let mut functions = meta.streams.iter().flat_map(|s| s.calls.keys());
    let found = functions.any(|function| !is_always_recorded(function));
    (!options.is_empty() && !found).then(|| {
        let options: Vec<&str> = options.iter().map(|option| option.as_str()).collect();
        format!("warning: no call was recorded: nothing matched {}", options.join(" "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(control("Wtime", "none").variables(false, None).is_err(), "it is never recorded");
        let mut nothing = control("Send", "none");
        nothing.exclude = vec!["*send".to_owned()];
        assert!(nothing.variables(false, None).is_err(), "nothing is left");
        let selected = control("Send,MPI_Recv", "stack:4").selected();
        assert_eq!(selected, ["--functions Send,MPI_Recv", "--ranks 0-3,7", "--callsite stack:4"]);
    }
}
