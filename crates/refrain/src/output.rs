//! Escapes control characters in text for a terminal. Command lines, host names and symbols come from
//! traces that others may have written; control characters in them could move the cursor or give
//! commands to the terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// A text of several lines: every control character except newline is escaped.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.is_control() && c != '\n')
}

/// A text of one line: every control character is escaped.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, char::is_control)
}

fn escaped(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Bytes that begin a control character; nearly all text has none.
    let may_be = |b: u8| (b < 0x20 && b != b'\n') || b == 0x7f || b == 0xc2;
    let bytes = text.as_bytes();
    if !bytes.iter().any(|b| may_be(*b) || (*b == b'\n' && is_unsafe('\n'))) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_unsafe(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Writing to a String cannot fail.
            c => drop(write!(out, "\\x{:02x}", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else_is() {
        assert_eq!(line("plain µs “text” é"), "plain µs “text” é");
        assert_eq!(line("a\x1b[31mb\x07\r\n\tc\x7f"), "a\\x1b[31mb\\x07\\r\\n\\tc\\x7f");
        assert_eq!(line("\u{9b}2J"), "\\x9b2J");
        assert_eq!(lines("one\ntwo\x1b]0;title\x07"), "one\ntwo\\x1b]0;title\\x07");
    }

    #[test]
    fn text_without_control_characters_is_not_copied() {
        assert!(matches!(lines("one\ntwo"), Cow::Borrowed(_)));
        assert!(matches!(line("one"), Cow::Borrowed(_)));
    }
}
