//! Which calls of a job are recorded, and what therefore cannot be known about it.

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
    /// Why not all calls are there.
    left_out: Vec<String>,
    /// Whether a call is missing that says who waits for whom.
    hides_waits: bool,
}

impl Recorded {
    /// Of a run with these facts.
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
            ranks.is_some() || interface::functions().iter().filter(is_hidden).any(tells);
        Recorded { only, not, ranks, left_out: meta.left_out(), hides_waits }
    }

    /// Whether that is everything.
    pub fn is_all(&self) -> bool {
        self.left_out.is_empty()
    }

    /// Whether so much is missing that nothing can be said about who waits for whom.
    pub fn hides_waits(&self) -> bool {
        self.hides_waits
    }

    /// Why a verdict may be wrong; nothing if it is right.
    pub fn doubt(&self) -> Option<String> {
        let matters = self.hides_waits || self.left_out.iter().any(|why| !why.starts_with("--"));
        let why = self.left_out.join(", ");
        matters.then(|| format!("not all calls are recorded ({why})"))
    }

    /// What is not recorded of a process.
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

/// Whether a function has to do with who waits for whom: by what it does, or by what it makes.
fn tells(function: &Function) -> bool {
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
    fn only_what_has_to_do_with_waiting_makes_a_verdict_doubtful() {
        assert!(recorded(&[]).doubt().is_none());
        assert!(recorded(&["--callsite return"]).doubt().is_none());
        assert!(recorded(&["--exclude Comm_rank,Get_count"]).doubt().is_none());
        assert!(recorded(&["--exclude Comm_dup"]).doubt().is_some());
        let why = recorded(&["--functions Send,Barrier"]).doubt();
        assert_eq!(why.as_deref(), Some("not all calls are recorded (--functions Send,Barrier)"));
        assert!(recorded(&["--ranks 0"]).hides_waits());
    }
}
