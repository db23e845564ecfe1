//! Any bytes as a grammar, and as grammars that share rules. A decoded grammar is continued by Sequitur, and
//! encoded again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use refrain_grammar::{Grammar, Sequitur, Shared, share};

fuzz_target!(|bytes: &[u8]| {
    let Some((&terminals, bytes)) = bytes.split_first() else { return };
    let terminals = usize::from(terminals);
    if let Ok(grammar) = Grammar::decode(bytes, terminals) {
        check(&grammar, terminals);
    }
    if let Ok(shared) = Shared::decode(bytes, terminals) {
        let all: Vec<Grammar> = shared.iter().take(8).flatten().collect();
        all.iter().for_each(|grammar| check(grammar, terminals));
        let again = share(&all).grammars().expect("what was shared is there");
        assert_eq!(again, all);
    }
});

fn check(grammar: &Grammar, terminals: usize) {
    let mut bytes = Vec::new();
    grammar.encode(&mut bytes);
    assert_eq!(Grammar::decode(&bytes, terminals).as_ref(), Ok(grammar));
    let sum = grammar.counts(terminals).iter().fold(0u64, |sum, n| sum.saturating_add(*n));
    assert_eq!(sum, grammar.len());
    let _ = grammar.verify();
    let middle = grammar.len() / 2;
    let start: Vec<u32> = grammar.iter().take(300).collect();
    grammar.iter_from(middle).take(300).for_each(drop);
    if grammar.len() > u64::MAX / 2 {
        return;
    }
    // Sequitur continues the decoded grammar as it would the original.
    let mut sequitur = Sequitur::from_grammar(grammar);
    for terminal in [0, 1, 0, 1, 2, 2] {
        sequitur.push(terminal);
    }
    let after = sequitur.grammar();
    assert_eq!(after.len(), grammar.len() + 6);
    assert_eq!(after.verify(), Ok(()));
    assert!(after.iter().take(start.len()).eq(start));
}
