//! Conversions between a growing grammar and a finished one.

use super::Sequitur;
use super::nodes::{Id, Kind, Nodes, START};
use crate::canonical::Order;
use crate::grammar::{Grammar, Symbol, What};

impl Sequitur {
    /// The grammar of the terminals pushed so far. Later pushes are not affected.
    pub fn grammar(&self) -> Grammar {
        if self.cursor.walk().is_none() && self.rules.tail_is_settled() {
            return finished(&self.rules.nodes);
        }
        // Deferred terminals are settled in a copy, so that the grammar does not depend on when
        // snapshots are taken.
        let mut copy = self.clone();
        copy.settle_deferred(0);
        while copy.rules.settle_tail() {}
        finished(&copy.rules.nodes)
    }

    /// Continues from a finished grammar.
    ///
    /// Violated invariants (see [`Grammar::verify`]) are repaired.
    #[expect(
        clippy::indexing_slicing,
        reason = "rules and nodes are numbered below their count, and these lists have an entry for each"
    )]
    pub fn from_grammar(grammar: &Grammar) -> Sequitur {
        let mut sequitur = Sequitur::new();
        let rules = &mut sequitur.rules;
        let mut guards = vec![START; grammar.rules().len()];
        // Rules before the rules that use them, so that the first terminals are known.
        for &rule in &Order::of(grammar.rules()).children_first {
            let body = &grammar.rules()[rule as usize];
            let guard = match rule {
                0 => START,
                _ => {
                    let first = body.first().map_or(0, |symbol| match symbol.what {
                        What::Terminal(terminal) => terminal,
                        What::Rule(inner) => rules.nodes.get(guards[inner as usize]).count as u32,
                    });
                    rules.nodes.add_guard(first)
                }
            };
            guards[rule as usize] = guard;
            for symbol in body {
                let (kind, value) = match symbol.what {
                    What::Terminal(terminal) => (Kind::Terminal, terminal),
                    What::Rule(inner) => (Kind::Rule, guards[inner as usize]),
                };
                let id = rules.nodes.append(guard, kind, value, symbol.count);
                rules.suspect(id);
            }
            rules.suspect_rule(guard);
        }
        rules.settle();
        sequitur.len = grammar.len();
        sequitur.settled = grammar.len();
        sequitur
    }
}

/// The rules that are reachable from the start rule, numbered by first visit.
#[expect(
    clippy::indexing_slicing,
    reason = "rules and nodes are numbered below their count, and these lists have an entry for each"
)]
fn finished(nodes: &Nodes) -> Grammar {
    const UNMET: u32 = u32::MAX;
    let mut numbers = vec![UNMET; nodes.end() as usize];
    numbers[START as usize] = 0;
    let mut rules = vec![Vec::new()];
    let mut path: Vec<(usize, Id)> = vec![(0, nodes.next(START))];
    while let Some((rule, id)) = path.last_mut() {
        let node = nodes.get(*id);
        let what = match node.kind {
            Kind::Terminal => What::Terminal(node.value),
            Kind::Rule => What::Rule(node.value),
            Kind::Guard | Kind::Free => {
                path.pop();
                continue;
            }
        };
        *id = node.next;
        let rule = *rule;
        let what = match what {
            What::Rule(guard) => {
                if numbers[guard as usize] == UNMET {
                    numbers[guard as usize] = rules.len() as u32;
                    path.push((rules.len(), nodes.next(guard)));
                    rules.push(Vec::new());
                }
                What::Rule(numbers[guard as usize])
            }
            terminal => terminal,
        };
        rules[rule].push(Symbol { what, count: node.count });
    }
    Grammar::from_canonical(rules)
}
