//! Folds the sequence of grammars. Repetitions are not expanded: a rule with a repetition count is folded once and
//! repeated, so the time is that of the grammar where the sequence is regular.

use crate::folded::{Folded, Visits};
use crate::folder::{Folder, Options};
use crate::partial::Work;
use crate::seq::Seq;
use crate::{Nest, children_first, heads, merge};
use refrain_grammar::{Grammar, Symbol, What};
use std::collections::HashMap;
use std::sync::Arc;

/// A rule that yields more terminals is folded once, even where it is not repeated.
const LONG: u64 = 1 << 12;

/// The folded nest of grammars whose sequences follow each other. `skeleton` gives the skeleton of a terminal, or none
/// if the terminal is left out.
pub fn fold(
    grammars: &[Grammar],
    options: Options,
    mut skeleton: impl FnMut(u32) -> Option<u32>,
) -> Vec<Folded> {
    let heads = heads::of(grammars, &mut skeleton).map(Arc::new);
    let work = Work::default();
    let mut folder = Folder::with_heads(options, heads.clone(), &work);
    for grammar in grammars {
        let mut rules = Rules { grammar, repeated: repeated(grammar), folded: HashMap::new() };
        for rule in children_first(grammar) {
            if rule != 0 && rules.is_folded(rule as u32) {
                let mut inner = Folder::with_heads(options, heads.clone(), &work);
                rules.push_rule(&mut inner, rule as u32, &mut skeleton);
                let nodes = inner.finish_inner();
                rules.folded.insert(rule as u32, nodes);
            }
        }
        rules.push_rule(&mut folder, 0, &mut skeleton);
    }
    folder.finish()
}

/// For each rule, whether a symbol repeats it.
fn repeated(grammar: &Grammar) -> Vec<bool> {
    let mut repeated = vec![false; grammar.rules().len()];
    for symbol in grammar.rules().iter().flatten().filter(|symbol| symbol.count > 1) {
        if let What::Rule(rule) = symbol.what {
            repeated[rule as usize] = true;
        }
    }
    repeated
}

struct Rules<'g> {
    grammar: &'g Grammar,
    /// By rule: whether a symbol repeats it.
    repeated: Vec<bool>,
    folded: HashMap<u32, Vec<Folded>>,
}

impl Rules<'_> {
    /// Whether a rule is folded on its own: it is repeated somewhere, or long.
    fn is_folded(&self, rule: u32) -> bool {
        self.grammar.length(rule) > LONG || self.repeated[rule as usize]
    }

    /// Pushes what a rule yields.
    fn push_rule(
        &self,
        folder: &mut Folder,
        rule: u32,
        skeleton: &mut impl FnMut(u32) -> Option<u32>,
    ) {
        let body = |rule: u32| self.grammar.rules()[rule as usize].iter();
        let mut stack = vec![body(rule)];
        while let Some(symbols) = stack.last_mut() {
            let Some(Symbol { what, count }) = symbols.next() else {
                stack.pop();
                continue;
            };
            match *what {
                What::Terminal(terminal) => {
                    if let Some(skeleton) = skeleton(terminal) {
                        let values = Seq::run(terminal, *count);
                        let leaf = Nest::Leaf(Visits { skeleton, values });
                        folder.push(match count {
                            1 => leaf,
                            count => Nest::Loop { count: Seq::run(*count, 1), body: vec![leaf] },
                        });
                    }
                }
                What::Rule(inner) => match self.folded.get(&inner) {
                    Some(nodes) => push_repeated(folder, nodes, *count, false),
                    None => stack.push(body(inner)),
                },
            }
        }
    }
}

/// Pushes a folded rule, repeated.
fn push_repeated(folder: &mut Folder, body: &[Folded], count: u64, is_rotated: bool) {
    let push = |folder: &mut Folder, nodes: &[Folded]| {
        nodes.iter().for_each(|node| folder.push(node.clone()));
    };
    if count < 3 {
        (0..count).for_each(|_| push(folder, body));
        return;
    }
    // The rule begins anywhere in the iteration; the iteration begins with the outermost header.
    let begin = match is_rotated {
        true => 0,
        false => folder.beginning(body).unwrap_or(0),
    };
    if begin > 0 {
        let (before, after) = body.split_at(begin);
        push(folder, before);
        push_repeated(folder, &[after, before].concat(), count - 1, true);
        push(folder, after);
        return;
    }
    if let [first, middle @ .., last] = body
        && first.key() == last.key()
    {
        // The end of an iteration and the beginning of the next are one inner loop.
        folder.push(first.clone());
        let inner = merge::run(last.clone(), first.clone());
        let body: Vec<Folded> = middle.iter().cloned().chain([inner]).collect();
        push_repeated(folder, &body, count - 1, true);
        push(folder, middle);
        folder.push(last.clone());
        return;
    }
    let body = folder.contained(body.to_vec());
    match body.as_slice() {
        [] => {}
        [Nest::Loop { count: trips, body }] => {
            let body = body.iter().map(|node| node.clone().repeat(count)).collect();
            folder.push(Nest::Loop { count: Seq::run(trips.sum() * count, 1), body });
        }
        body => {
            let body = body.iter().map(|node| node.clone().repeat(count)).collect();
            folder.push(Nest::Loop { count: Seq::run(count, 1), body });
        }
    }
}
