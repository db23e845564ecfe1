//! Names of contexts in the text of a structure.
//!
//! A context says which call led to code. If the called function is unknown (calls through pointers) or is
//! a library's, the name of the context is the function of the first reference in it. Examples are `main`, which
//! the C library calls, the body of a parallel region, and a callback. So lines are first written with marks,
//! one for each context and one for the function of each reference, and [`Contexts::line`] replaces them.
//! Lines between a context and its first reference are held back until the reference is known.

use std::collections::HashMap;

const BEGIN: char = '\u{1}';
const END: char = '\u{2}';

/// The possible names of a context.
#[derive(Clone, Debug)]
pub struct Context {
    /// Its name if its code has none: `in code called at matmul.c:15`.
    pub name: String,
    /// What follows the name of the function of its first reference: `, called at matmul.c:15`. `None` if the
    /// context has a name that does not depend on its references.
    pub call: Option<String>,
    /// Whether it has a line even if no reference follows.
    pub is_shown_alone: bool,
}

/// The contexts and functions of all marks, and the lines that are held back.
#[derive(Debug, Default)]
pub struct Contexts {
    contexts: Vec<Context>,
    functions: Vec<Option<String>>,
    known: HashMap<Option<String>, usize>,
    /// The context of the next reference.
    current: Option<usize>,
    /// The function that was written for it last.
    written: Option<usize>,
    /// The indentation of a context whose name is not known yet, and the lines after it.
    held: Option<(String, Vec<String>)>,
}

impl Contexts {
    /// The mark of a context.
    pub fn context(&mut self, context: Context) -> String {
        self.contexts.push(context);
        format!("{BEGIN}c{}{END}", self.contexts.len() - 1)
    }

    /// The mark of the function that a reference is in.
    pub fn function(&mut self, function: Option<String>) -> String {
        let next = self.functions.len();
        let number = *self.known.entry(function.clone()).or_insert(next);
        if number == next {
            self.functions.push(function);
        }
        format!("{BEGIN}f{number}{END}")
    }

    /// Adds a line with marks; returns the lines that can be written now.
    pub fn line(&mut self, line: &str) -> Vec<String> {
        let (words, marks) = split(line);
        let indent = words[..words.len() - words.trim_start().len()].to_owned();
        match marks.as_slice() {
            [(_, 'f', function)] => self.reference(words, indent, *function),
            [(_, 'c', number)] if words.trim().is_empty() => {
                let mut lines = self.release(None);
                self.current = Some(*number);
                match self.contexts.get(*number) {
                    Some(Context { call: None, name, .. }) => lines.push(indent + name),
                    _ => self.held = Some((indent, Vec::new())),
                }
                lines
            }
            // Contexts in the middle of a line, or no marks.
            marks => {
                let mut sentence = words;
                for (at, _, number) in marks.iter().rev() {
                    let name = self.contexts.get(*number).map_or("", |context| &context.name);
                    sentence.insert_str(*at, name);
                }
                match &mut self.held {
                    Some((_, waiting)) => {
                        waiting.push(sentence);
                        Vec::new()
                    }
                    None => vec![sentence],
                }
            }
        }
    }

    /// The lines that are still held back at the end of the text.
    pub fn finish(&mut self) -> Vec<String> {
        let lines = self.release(None);
        self.current = None;
        lines
    }

    fn reference(&mut self, words: String, indent: String, function: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let context = self.current.and_then(|current| self.contexts.get(current));
        if let Some(Context { call: Some(call), name: own, .. }) = context {
            let name = self.functions.get(function).and_then(Option::as_ref);
            let line = name.map_or_else(|| own.clone(), |name| format!("in {name}{call}"));
            if self.held.is_some() {
                lines = self.release(Some(line));
            } else if self.written != Some(function) {
                lines.push(indent + &line);
            }
        }
        self.written = Some(function);
        lines.push(words);
        lines
    }

    /// The lines that are held back, after `line`, which is that of the context. If no reference has followed,
    /// the context has its own name, or no line.
    fn release(&mut self, line: Option<String>) -> Vec<String> {
        let Some((indent, waiting)) = self.held.take() else { return Vec::new() };
        let context = self.current.and_then(|current| self.contexts.get(current));
        let alone = context.filter(|context| context.is_shown_alone);
        let line = line.or_else(|| alone.map(|context| context.name.clone()));
        line.map(|line| indent + &line).into_iter().chain(waiting).collect()
    }
}

/// A line without its marks, and where each was: its kind and number.
fn split(line: &str) -> (String, Vec<(usize, char, usize)>) {
    let (mut words, mut marks) = (String::with_capacity(line.len()), Vec::new());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        words.push_str(before);
        let (mark, after) = after.split_once(END).unwrap_or((after, ""));
        let mut letters = mark.chars();
        if let (Some(kind), Ok(number)) = (letters.next(), letters.as_str().parse()) {
            marks.push((words.len(), kind, number));
        }
        rest = after;
    }
    words.push_str(rest);
    (words, marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Context {
        Context { name: name.into(), call: None, is_shown_alone: true }
    }

    fn unnamed(name: &str, call: &str, is_shown_alone: bool) -> Context {
        Context { name: name.into(), call: Some(call.into()), is_shown_alone }
    }

    fn resolved(contexts: &mut Contexts, text: &str) -> String {
        let mut lines: Vec<String> = text.lines().flat_map(|line| contexts.line(line)).collect();
        lines.extend(contexts.finish());
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn code_names_a_context_that_has_no_name() {
        let mut contexts = Contexts::default();
        let root = contexts.context(unnamed("outside recorded code", "", false));
        let stub = unnamed("in malloc, called at a.c:3", ", called from malloc at a.c:3", true);
        let stub = contexts.context(stub);
        let body = unnamed("in run, called at a.c:9", ", called from run at a.c:9", true);
        let body = contexts.context(body);
        let compute = contexts.context(named("in compute, called at a.c:7"));
        let [start, main, omp] = ["_start", "main", "main._omp_fn.0"]
            .map(|name| contexts.function(Some(name.to_owned())));
        let text = format!(
            "threads <0,2,1>\n\
             where threads <1,1,1> are {root}, not {compute}\n\
             {root}\n\
             load 8 a+0x1{start}\n\
             store 8 a.c:1{main}\n\
             store 8 a.c:2{main}\n\
             {stub}\n\
             {root}\n\
             loop 3 times\n  \
               store 8 a.c:4{main}\n  \
               {compute}\n  \
               load 8 a.c:5{start}\n\
             {body}\n\
             load 8 a.c:9{omp}\n\
             {root}\n"
        );
        let expected = "threads <0,2,1>\n\
             where threads <1,1,1> are outside recorded code, not in compute, called at a.c:7\n\
             in _start\n\
             load 8 a+0x1\n\
             in main\n\
             store 8 a.c:1\n\
             store 8 a.c:2\n\
             in malloc, called at a.c:3\n\
             in main\n\
             loop 3 times\n  \
               store 8 a.c:4\n  \
               in compute, called at a.c:7\n  \
               load 8 a.c:5\n\
             in main._omp_fn.0, called from run at a.c:9\n\
             load 8 a.c:9\n";
        assert_eq!(resolved(&mut contexts, &text), expected);
    }

    #[test]
    fn code_without_a_name_leaves_the_context_as_it_is() {
        let mut contexts = Contexts::default();
        let call = contexts.context(unnamed("called at a+0x3", ", called at a+0x3", false));
        let nothing = contexts.function(None);
        let text = format!("{call}\nload 8 a+0x5{nothing}\nload 8 a+0x6{nothing}\n");
        assert_eq!(resolved(&mut contexts, &text), "called at a+0x3\nload 8 a+0x5\nload 8 a+0x6\n");
    }
}
