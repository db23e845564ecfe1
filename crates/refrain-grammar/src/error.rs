//! Why rules or bytes are not a grammar.

use std::fmt;

/// Why rules or bytes are not a grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrammarError {
    /// The bytes are truncated.
    Truncated,
    /// A number is too large for its type.
    NumberTooLarge {
        /// Offset of the number's first byte.
        at: usize,
    },
    /// There are bytes after the end.
    TrailingBytes {
        /// Offset of the first of them.
        at: usize,
    },
    /// There is no start rule.
    NoStart,
    /// A terminal is outside the alphabet.
    UnknownTerminal {
        /// The rule that contains it.
        rule: usize,
        /// The terminal.
        terminal: i64,
        /// The size of the alphabet.
        terminals: usize,
    },
    /// All runs of terminals together are longer than the alphabet.
    RunsTooLong {
        /// The rule with the run that exceeds the limit.
        rule: usize,
    },
    /// A symbol names a rule that does not exist.
    UnknownRule {
        /// The rule that contains it.
        rule: usize,
        /// The rule that it names.
        names: i64,
        /// The number of rules.
        rules: usize,
    },
    /// A symbol is repeated zero times.
    ZeroCount {
        /// The rule that contains it.
        rule: usize,
        /// Its position in the rule.
        position: usize,
    },
    /// A rule that is in use has no symbols; or a common part of shared grammars has fewer than
    /// two.
    TooFewSymbols {
        /// The rule.
        rule: usize,
    },
    /// A rule contains itself.
    Cycle {
        /// The rule.
        rule: usize,
    },
    /// The sequence has more than 2^64 - 1 terminals.
    TooLong {
        /// The rule that yields that many.
        rule: usize,
    },
    /// The index is outside the list of shared grammars.
    NoSuchGrammar {
        /// The index.
        index: usize,
        /// The number of grammars.
        grammars: usize,
    },
    /// A shared grammar claims to be larger than all shared rules together.
    FragmentsTooLong {
        /// The grammar.
        index: usize,
    },
}

impl fmt::Display for GrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use GrammarError::*;
        match *self {
            Truncated => write!(f, "the grammar is truncated"),
            NumberTooLarge { at } => write!(f, "the number at byte {at} is too large"),
            TrailingBytes { at } => write!(f, "the grammar ends at byte {at}, the data do not"),
            NoStart => write!(f, "the grammar has no start rule"),
            UnknownTerminal { rule, terminal, terminals } => {
                write!(f, "rule {rule} has terminal {terminal}; there are {terminals}")
            }
            RunsTooLong { rule } => {
                write!(f, "the runs of terminals, up to rule {rule}, are longer than the alphabet")
            }
            UnknownRule { rule, names, rules } => {
                write!(f, "rule {rule} uses rule {names}; there are {rules}")
            }
            ZeroCount { rule, position } => {
                write!(f, "symbol {position} of rule {rule} is repeated zero times")
            }
            TooFewSymbols { rule } => write!(f, "rule {rule} has too few symbols"),
            Cycle { rule } => write!(f, "rule {rule} contains itself"),
            TooLong { rule } => write!(f, "rule {rule} yields more than 2^64 - 1 terminals"),
            NoSuchGrammar { index, grammars } => {
                write!(f, "there is no grammar {index}; there are {grammars}")
            }
            FragmentsTooLong { index } => {
                write!(f, "grammar {index} is larger than all shared rules together")
            }
        }
    }
}

impl std::error::Error for GrammarError {}
