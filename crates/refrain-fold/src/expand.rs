//! A folded nest as a grammar.
//!
//! Iterations that are alike become a rule with a repetition count at once: loops over constant values and trip counts are
//! not expanded. Iterations that differ are looked at one by one; equal ones share a rule.

use refrain_grammar::{Grammar, Symbol, What};
use refrain_nest::seq::Values;
use refrain_nest::{Folded, Nest};
use std::collections::HashMap;

/// Turns a nest into the rules of a grammar.
struct Expander<'a> {
    values: Vec<Values<'a, u32>>,
    counts: Vec<Values<'a, u64>>,
    /// Bodies of rules; the start rule is added at the end.
    rules: Vec<Vec<Symbol>>,
    known: HashMap<Vec<Symbol>, u32>,
    /// How many more symbols may be made.
    left: u64,
}

/// A node with its vectors by their indices.
enum Step {
    Leaf(usize),
    Loop(usize, Vec<Step>),
}

/// The grammar of a nest whose values are terminals. None if vectors are too short, or if there would be more than
/// `most` symbols.
pub(crate) fn grammar(nest: &[Folded], most: &mut u64) -> Option<Grammar> {
    let mut expander = Expander {
        values: Vec::new(),
        counts: Vec::new(),
        rules: vec![Vec::new()],
        known: HashMap::new(),
        left: *most,
    };
    let steps = expander.steps(nest);
    let mut start = Vec::new();
    expander.body(&steps, &mut start)?;
    expander.rules[0] = start;
    *most = expander.left;
    let rules = inlined(expander.rules);
    Grammar::new(rules).ok()
}

impl<'a> Expander<'a> {
    fn steps(&mut self, nest: &'a [Folded]) -> Vec<Step> {
        let mut steps = Vec::with_capacity(nest.len());
        for node in nest {
            match node {
                Nest::Leaf(visits) => {
                    self.values.push(visits.values.iter());
                    steps.push(Step::Leaf(self.values.len() - 1));
                }
                Nest::Loop { count, body } => {
                    self.counts.push(count.iter());
                    let counts = self.counts.len() - 1;
                    steps.push(Step::Loop(counts, self.steps(body)));
                }
                Nest::Block(_) => {}
            }
        }
        steps
    }

    /// Executes a body once.
    fn body(&mut self, steps: &[Step], out: &mut Vec<Symbol>) -> Option<()> {
        for step in steps {
            match step {
                Step::Leaf(values) => {
                    let value = self.values.get_mut(*values)?.next()?;
                    self.push(out, Symbol::terminal(value, 1))?;
                }
                Step::Loop(counts, body) => {
                    let count = self.counts.get_mut(*counts)?.next()?;
                    self.repeated(body, count, out)?;
                }
            }
        }
        Some(())
    }

    fn push(&mut self, out: &mut Vec<Symbol>, symbol: Symbol) -> Option<()> {
        if let Some(last) = out.last_mut()
            && last.what == symbol.what
        {
            last.count = last.count.checked_add(symbol.count)?;
            return Some(());
        }
        self.left = self.left.checked_sub(1)?;
        out.push(symbol);
        Some(())
    }

    /// Executes a body so many times.
    fn repeated(&mut self, steps: &[Step], count: u64, out: &mut Vec<Symbol>) -> Option<()> {
        let mut left = count;
        if let [Step::Leaf(values)] = steps {
            while left > 0 {
                let (value, run) = self.values.get_mut(*values)?.run()?;
                let run = run.min(left);
                self.values.get_mut(*values)?.skip_in_run(run);
                self.push(out, Symbol::terminal(value, run))?;
                left -= run;
            }
            return Some(());
        }
        while left > 0 {
            self.left = self.left.checked_sub(1)?;
            let alike = self.alike(steps)?.clamp(1, left);
            let mut body = Vec::new();
            self.body(steps, &mut body)?;
            if body.is_empty() {
                // Without a call, it is executed as often as its conditions say.
                self.skip(steps, alike - 1);
                left -= alike;
                continue;
            }
            self.skip(steps, alike - 1);
            left -= alike;
            match body.as_slice() {
                [Symbol { what, count: 1 }] => {
                    self.push(out, Symbol { what: *what, count: alike })?;
                }
                _ => {
                    let rule = self.rule(body);
                    self.push(out, Symbol::rule(rule, alike))?;
                }
            }
        }
        Some(())
    }

    /// The rule with a body.
    fn rule(&mut self, body: Vec<Symbol>) -> u32 {
        if let Some(rule) = self.known.get(&body) {
            return *rule;
        }
        let rule = self.rules.len() as u32;
        self.rules.push(body.clone());
        self.known.insert(body, rule);
        rule
    }

    /// How many executions of a body from here on are certainly alike.
    fn alike(&mut self, steps: &[Step]) -> Option<u64> {
        let mut least = u64::MAX;
        for step in steps {
            let run = match step {
                Step::Leaf(values) => self.values.get_mut(*values)?.run()?.1,
                Step::Loop(counts, body) => match self.counts.get_mut(*counts)?.run()? {
                    (0, run) => run,
                    (count, run) => run.min(self.alike(body)? / count),
                },
            };
            least = least.min(run);
            if least < 2 {
                break;
            }
        }
        Some(least)
    }

    /// Skips executions of a body that are alike.
    fn skip(&mut self, steps: &[Step], times: u64) {
        if times == 0 {
            return;
        }
        for step in steps {
            match step {
                Step::Leaf(values) => {
                    if let Some(values) = self.values.get_mut(*values) {
                        values.skip_in_run(times);
                    }
                }
                Step::Loop(counts, body) => {
                    let Some(counts) = self.counts.get_mut(*counts) else { continue };
                    let count = counts.run().map_or(0, |(count, _)| count);
                    counts.skip_in_run(times);
                    self.skip(body, times.saturating_mul(count));
                }
            }
        }
    }
}

/// The rules without those that are used once: their bodies are where they were used.
fn inlined(rules: Vec<Vec<Symbol>>) -> Vec<Vec<Symbol>> {
    let mut uses = vec![0usize; rules.len()];
    for symbol in rules.iter().flatten() {
        if let What::Rule(rule) = symbol.what {
            uses[rule as usize] += if symbol.count == 1 { 1 } else { 2 };
        }
    }
    if uses.iter().skip(1).all(|uses| *uses > 1) {
        return rules;
    }
    // A rule uses only rules with smaller numbers, except for the start.
    let mut kept: Vec<Vec<Symbol>> = vec![Vec::new()];
    let mut numbers = vec![0u32; rules.len()];
    let mut bodies: Vec<Option<Vec<Symbol>>> = vec![None; rules.len()];
    let mut all = rules.into_iter().enumerate();
    let start = all.next();
    for (rule, body) in all.chain(start) {
        let mut out: Vec<Symbol> = Vec::with_capacity(body.len());
        for symbol in body {
            match symbol.what {
                What::Rule(inner) if uses[inner as usize] == 1 => {
                    let inner = bodies[inner as usize].take().unwrap_or_default();
                    for symbol in inner {
                        match out.last_mut() {
                            Some(last) if last.what == symbol.what => last.count += symbol.count,
                            _ => out.push(symbol),
                        }
                    }
                }
                What::Rule(inner) => {
                    let what = What::Rule(numbers[inner as usize]);
                    match out.last_mut() {
                        Some(last) if last.what == what => last.count += symbol.count,
                        _ => out.push(Symbol { what, count: symbol.count }),
                    }
                }
                What::Terminal(_) => match out.last_mut() {
                    Some(last) if last.what == symbol.what => last.count += symbol.count,
                    _ => out.push(symbol),
                },
            }
        }
        match (rule, uses[rule]) {
            (0, _) => kept[0] = out,
            (_, 1) => bodies[rule] = Some(out),
            _ => {
                numbers[rule] = kept.len() as u32;
                kept.push(out);
            }
        }
    }
    kept
}
