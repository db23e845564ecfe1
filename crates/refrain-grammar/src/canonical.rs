//! The canonical form of a grammar.
//!
//! Processes compare their grammars by hash, and [`crate::share()`] takes grammars apart and restores
//! them. Both need a unique representation. In canonical form, all rules can be reached from the
//! start rule, no two rules have the same body, and rules are numbered in the order of their first
//! visit by a walk, depth first and left to right.

use std::collections::HashMap;

use crate::error::GrammarError;
use crate::grammar::{Symbol, What};

/// The orders in which a depth-first walk visits the rules. Unreachable rules are in neither.
pub(crate) struct Order {
    /// By first visit.
    pub first_met: Vec<u32>,
    /// By last visit: each rule after all the rules that it uses.
    pub children_first: Vec<u32>,
    /// A rule that contains itself, if there is one.
    pub cycle: Option<u32>,
}

impl Order {
    /// The order from rule 0 on.
    pub fn of(rules: &[Vec<Symbol>]) -> Order {
        Walker::new(rules).walk(0..1)
    }
}

/// Walks rules depth first, repeatedly. The cost of a walk follows from the rules that it visits.
pub(crate) struct Walker<'a> {
    rules: &'a [Vec<Symbol>],
    states: Vec<State>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Unmet,
    Entered,
    Left,
}

impl<'a> Walker<'a> {
    pub fn new(rules: &'a [Vec<Symbol>]) -> Walker<'a> {
        Walker { rules, states: vec![State::Unmet; rules.len()] }
    }

    /// Walks from each start rule. Terminals are skipped.
    #[expect(
        clippy::indexing_slicing,
        reason = "rules are numbered below their count, and these lists have an entry for each"
    )]
    pub fn walk(&mut self, starts: impl IntoIterator<Item = u32>) -> Order {
        let mut order = Order { first_met: Vec::new(), children_first: Vec::new(), cycle: None };
        let mut path: Vec<(u32, usize)> = Vec::new();
        for start in starts {
            self.meet(start, &mut order, &mut path);
            while let Some((rule, position)) = path.last_mut() {
                if let Some(symbol) = self.rules[*rule as usize].get(*position) {
                    *position += 1;
                    if let What::Rule(inner) = symbol.what {
                        self.meet(inner, &mut order, &mut path);
                    }
                } else {
                    self.states[*rule as usize] = State::Left;
                    order.children_first.push(*rule);
                    path.pop();
                }
            }
        }
        for &rule in &order.first_met {
            self.states[rule as usize] = State::Unmet;
        }
        order
    }

    fn meet(&mut self, rule: u32, order: &mut Order, path: &mut Vec<(u32, usize)>) {
        match self.states.get_mut(rule as usize) {
            Some(state @ State::Unmet) => {
                *state = State::Entered;
                order.first_met.push(rule);
                path.push((rule, 0));
            }
            Some(State::Entered) => order.cycle = Some(rule),
            Some(State::Left) | None => {}
        }
    }
}

/// How many terminals each rule yields.
#[expect(
    clippy::indexing_slicing,
    reason = "rules are numbered below their count, and these lists have an entry for each"
)]
pub(crate) fn lengths(
    rules: &[Vec<Symbol>],
    children_first: &[u32],
) -> Result<Vec<u64>, GrammarError> {
    let mut lengths = vec![0_u64; rules.len()];
    for &rule in children_first {
        let length = rules[rule as usize].iter().try_fold(0_u64, |sum, symbol| {
            let unit = match symbol.what {
                What::Terminal(_) => 1,
                What::Rule(inner) => lengths[inner as usize],
            };
            sum.checked_add(unit.checked_mul(symbol.count)?)
        });
        lengths[rule as usize] = length.ok_or(GrammarError::TooLong { rule: rule as usize })?;
    }
    Ok(lengths)
}

/// Checks that rules form a grammar: every rule that is used exists and is not empty, no count is
/// zero, and no rule contains itself.
pub(crate) fn validate(rules: &[Vec<Symbol>]) -> Result<Order, GrammarError> {
    if rules.is_empty() {
        return Err(GrammarError::NoStart);
    }
    validate_symbols(rules)?;
    let order = Order::of(rules);
    match order.cycle {
        Some(rule) => Err(GrammarError::Cycle { rule: rule as usize }),
        None => Ok(order),
    }
}

/// Checks each symbol on its own.
pub(crate) fn validate_symbols(rules: &[Vec<Symbol>]) -> Result<(), GrammarError> {
    for (rule, body) in rules.iter().enumerate() {
        for (position, symbol) in body.iter().enumerate() {
            if symbol.count == 0 {
                return Err(GrammarError::ZeroCount { rule, position });
            }
            let What::Rule(inner) = symbol.what else { continue };
            match rules.get(inner as usize) {
                None => {
                    let (names, rules) = (i64::from(inner), rules.len());
                    return Err(GrammarError::UnknownRule { rule, names, rules });
                }
                Some(body) if body.is_empty() => {
                    return Err(GrammarError::TooFewSymbols { rule: inner as usize });
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

/// Brings valid rules into canonical form.
#[expect(
    clippy::indexing_slicing,
    reason = "rules are numbered below their count, and these lists have an entry for each"
)]
pub(crate) fn canonical(mut rules: Vec<Vec<Symbol>>, order: &Order) -> Vec<Vec<Symbol>> {
    // Rules with the same body become one. Children come first, so the rules that a body uses are
    // unified before the body is compared.
    let mut same: Vec<u32> = (0..rules.len() as u32).collect();
    let mut by_body: HashMap<Vec<Symbol>, u32> = HashMap::new();
    for &rule in &order.children_first {
        let mut body = std::mem::take(&mut rules[rule as usize]);
        rename(&mut body, &same);
        let first = *by_body.entry(body).or_insert(rule);
        same[rule as usize] = first;
    }
    // Number the classes by the first visit of any member.
    let mut met = vec![u32::MAX; rules.len()];
    let mut numbers = vec![0; rules.len()];
    let mut next = 0;
    for &rule in &order.first_met {
        let class = same[rule as usize] as usize;
        if met[class] == u32::MAX {
            met[class] = next;
            next += 1;
        }
        numbers[rule as usize] = met[class];
    }
    let mut canonical = vec![Vec::new(); by_body.len()];
    for (mut body, rule) in by_body {
        rename(&mut body, &numbers);
        canonical[numbers[rule as usize] as usize] = body;
    }
    canonical
}

#[expect(
    clippy::indexing_slicing,
    reason = "rules are numbered below their count, and these lists have an entry for each"
)]
fn rename(body: &mut [Symbol], numbers: &[u32]) {
    for symbol in body {
        if let What::Rule(rule) = &mut symbol.what {
            *rule = numbers[*rule as usize];
        }
    }
}
