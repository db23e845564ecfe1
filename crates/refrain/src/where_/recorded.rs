//! Which calls of a job are recorded, and which statements are therefore uncertain.

use crate::select::{Names, parse_ranks};
use refrain_analysis::matching::Action;
use refrain_mpi::interface::{self, Direction, Function};
use refrain_mpi::kind::Class;
use refrain_reader::{Meta, Paused, StreamMeta};
use std::collections::BTreeSet;

/// What is recorded.
#[derive(Default)]
pub struct Recorded {
    only: Option<String>,
    not: Option<String>,
    ranks: Option<BTreeSet<i32>>,
    /// Why calls are missing.
    left_out: Vec<String>,
    /// Whether calls are missing that the wait-for graph needs.
    hides_waits: bool,
}

impl Recorded {
    /// For a run with this metadata.
    pub fn of(meta: &Meta) -> Recorded {
        let given = |option: &str| {
            let value =
                |text: &String| text.strip_prefix(option)?.strip_prefix(' ').map(str::to_owned);
            meta.selected.iter().find_map(value)
        };
        let (only, not) = (given("--functions"), given("--exclude"));
        let ranks = given("--ranks").and_then(|list| parse_ranks("--ranks", &list).ok());
        let names = |list: &Option<String>| {
            let list = list.iter().flat_map(|list| list.split(',')).map(str::to_owned);
            Names::parse("", &list.collect::<Vec<_>>()).unwrap_or_default()
        };
        let (wanted, unwanted) = (names(&only), names(&not));
        let is_hidden = |f: &&Function| {
            !(wanted.is_empty() || wanted.contain(&f.name)) || unwanted.contain(&f.name)
        };
        let hides_waits =
            ranks.is_some() || interface::functions().iter().filter(is_hidden).any(is_needed);
        Recorded { only, not, ranks, left_out: meta.left_out(), hides_waits }
    }

    /// Whether all calls are recorded.
    pub fn is_all(&self) -> bool {
        self.left_out.is_empty()
    }

    /// Whether calls are missing that the wait-for graph needs.
    pub fn hides_waits(&self) -> bool {
        self.hides_waits
    }

    /// Why the verdict may be wrong; `None` if it is certain.
    pub fn doubt(&self) -> Option<String> {
        let matters = self.hides_waits || self.left_out.iter().any(|why| !why.starts_with("--"));
        let why = self.left_out.join(", ");
        matters.then(|| format!("not all calls are recorded ({why})"))
    }

    /// Which calls of a process are not recorded, as text.
    pub fn missing_of(&self, stream: &StreamMeta) -> Option<String> {
        if self.ranks.as_ref().is_some_and(|ranks| !ranks.contains(&stream.rank)) {
            return Some("its calls are not recorded".to_owned());
        }
        if stream.paused == Paused::Still {
            return Some("the program has switched recording off".to_owned());
        }
        let listed = |names: &String| names.replace(',', ", ");
        let only = self.only.as_ref().map(|names| format!("only {} are recorded", listed(names)));
        only.or_else(|| {
            self.not.as_ref().map(|names| format!("{} are not recorded", listed(names)))
        })
    }
}

/// Whether the wait-for graph needs the calls of a function: because they communicate, or create objects.
fn is_needed(function: &Function) -> bool {
    let makes =
        |p: &interface::Param| p.kind.class == Class::Handle && p.direction != Direction::In;
    Action::of(function) != Action::None || function.params.iter().any(makes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(selected: &[&str]) -> Recorded {
        let selected = selected.iter().map(|s| (*s).to_owned()).collect();
        Recorded::of(&Meta { selected, ..Meta::default() })
    }

    #[test]
    fn only_missing_calls_that_matter_make_the_verdict_doubtful() {
        assert!(recorded(&[]).doubt().is_none());
        assert!(recorded(&["--callsite return"]).doubt().is_none());
        assert!(recorded(&["--exclude Comm_rank,Get_count"]).doubt().is_none());
        assert!(recorded(&["--exclude Comm_dup"]).doubt().is_some());
        let why = recorded(&["--functions Send,Barrier"]).doubt();
        assert_eq!(why.as_deref(), Some("not all calls are recorded (--functions Send,Barrier)"));
        assert!(recorded(&["--ranks 0"]).hides_waits());
    }
}
