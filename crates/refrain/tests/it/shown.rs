//! Parses a call as `refrain show` prints it.

use std::fmt;

/// A call: `MPI_Wait(request=r1, status={source=1, tag=7, bytes=4}) = SUCCESS`.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    pub function: String,
    pub arguments: Vec<(String, Value)>,
    pub result: String,
}

/// The value of an argument.
#[derive(Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, a name, a string with its quotes.
    Word(String),
    /// `[a, b]`
    List(Vec<Value>),
    /// `{name=a, name=b}`
    Record(Vec<(String, Value)>),
    /// `a→b`
    Change(Box<Value>, Box<Value>),
}

impl Shown {
    /// Parses a call.
    pub fn parse(text: &str) -> Result<Shown, String> {
        let (function, rest) = text.split_once('(').ok_or_else(|| format!("no call: {text}"))?;
        let mut parser = Parser { rest };
        let arguments = parser.fields(')').map_err(|e| format!("{e} in {text}"))?;
        let result = parser.rest.strip_prefix(" = ").ok_or_else(|| format!("no result: {text}"))?;
        Ok(Shown { function: function.into(), arguments, result: result.into() })
    }

    /// How another call differs from this expected one.
    pub fn difference(&self, other: &Shown) -> Option<String> {
        if self.function != other.function {
            return Some("another function".to_owned());
        }
        let names = |call: &Shown| {
            call.arguments.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
        };
        if names(self) != names(other) {
            return Some(format!("arguments ({}), not ({})", names(other), names(self)));
        }
        let pairs = self.arguments.iter().zip(&other.arguments);
        let mut differences: Vec<String> = pairs
            .filter(|((_, expected), (_, got))| !expected.matches(got))
            .map(|((name, expected), (_, got))| format!("{name} is {got}, not {expected}"))
            .collect();
        if self.result != other.result {
            differences.push(format!("the result is {}, not {}", other.result, self.result));
        }
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}

impl Value {
    /// Whether a value equals this expected one, where `_` stands for any value.
    fn matches(&self, value: &Value) -> bool {
        match (self, value) {
            (Value::Word(word), _) if word == "_" => true,
            (Value::Word(a), Value::Word(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.matches(b))
            }
            (Value::Record(a), Value::Record(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((m, a), (n, b))| m == n && a.matches(b))
            }
            (Value::Change(a, b), Value::Change(c, d)) => a.matches(c) && b.matches(d),
            _ => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |all: Vec<String>| all.join(", ");
        match self {
            Value::Word(word) => write!(f, "{word}"),
            Value::List(all) => write!(f, "[{}]", join(all.iter().map(Value::to_string).collect())),
            Value::Record(fields) => {
                let fields = fields.iter().map(|(name, value)| format!("{name}={value}"));
                write!(f, "{{{}}}", join(fields.collect()))
            }
            Value::Change(before, after) => write!(f, "{before}→{after}"),
        }
    }
}

struct Parser<'t> {
    rest: &'t str,
}

impl Parser<'_> {
    /// Consumes a character if it is the next one.
    fn take(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// `name=value, name=value` up to and including the closing character.
    fn fields(&mut self, close: char) -> Result<Vec<(String, Value)>, String> {
        self.items(close, |parser| {
            let (name, rest) = parser.rest.split_once('=').ok_or("an argument has no name")?;
            parser.rest = rest;
            Ok((name.to_owned(), parser.value()?))
        })
    }

    fn items<T>(
        &mut self,
        close: char,
        item: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut all = Vec::new();
        if self.take(close) {
            return Ok(all);
        }
        loop {
            all.push(item(self)?);
            if self.take(close) {
                return Ok(all);
            }
            if !(self.take(',') && self.take(' ')) {
                return Err(format!("neither `, ` nor `{close}` before `{}`", self.rest));
            }
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        let value = if self.take('[') {
            Value::List(self.items(']', Parser::value)?)
        } else if self.take('{') {
            Value::Record(self.fields('}')?)
        } else {
            let length = if self.rest.starts_with('"') {
                string_length(self.rest).ok_or("a string is not closed")?
            } else {
                self.rest.find([',', ')', ']', '}', '→']).ok_or("a value is not closed")?
            };
            let (word, rest) = self.rest.split_at(length);
            self.rest = rest;
            Value::Word(word.to_owned())
        };
        if self.take('→') {
            return Ok(Value::Change(Box::new(value), Box::new(self.value()?)));
        }
        Ok(value)
    }
}

/// Bytes of a quoted string at the beginning of a text.
fn string_length(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[test]
fn a_call_is_parsed_and_printed_as_it_was() {
    for text in [
        "MPI_Finalize() = SUCCESS",
        "MPI_Init(argc=NULL, argv=NULL) = SUCCESS",
        "MPI_Wait(request=r1, status={source=1, tag=7, bytes=4}) = ERR_TRUNCATE",
        "MPI_Waitsome(array_of_indices=[], array_of_statuses=[{source=_, tag=1}, _]) = SUCCESS",
        r#"MPI_Info_set(info=info1, key="a, \"b\") = [c", value="") = SUCCESS"#,
        "MPI_Dims_create(dims=[0, 1]→[3, 1], position=0→12) = SUCCESS",
        "MPI_File_open(amode=MPI_MODE_CREATE|MPI_MODE_RDWR, fh=unset) = ? (never returned)",
    ] {
        let call = Shown::parse(text).unwrap();
        let arguments: Vec<_> = call.arguments.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let again = format!("{}({}) = {}", call.function, arguments.join(", "), call.result);
        assert_eq!(again, text);
    }
    for text in ["MPI_Finalize", "MPI_Send(count=1", "MPI_Send(1) = SUCCESS", "MPI_Send(a=1)"] {
        assert!(Shown::parse(text).is_err(), "{text}");
    }
}

#[test]
fn an_underscore_matches_anything_and_other_values_match_themselves() {
    let difference = |expected: &str, got: &str| {
        let parse = |arguments| Shown::parse(&format!("F({arguments}) = SUCCESS")).unwrap();
        parse(expected).difference(&parse(got))
    };
    assert_eq!(difference("a=_, b=2", "a={x=1}, b=2"), None);
    assert_eq!(difference("a=[_, {x=_, y=2}]", "a=[3, {x=5, y=2}]"), None);
    assert_eq!(difference("a=_→5", "a=4→5"), None);
    assert_eq!(difference("a=1, b=3", "a=1, b=4").unwrap(), "b is 4, not 3");
    assert_eq!(difference("a=[_]", "a=[1, 2]").unwrap(), "a is [1, 2], not [_]");
    assert_eq!(difference("a=5", "a=4→5").unwrap(), "a is 4→5, not 5");
    assert_eq!(difference("a=5", "b=5").unwrap(), "arguments (b), not (a)");
    assert!(difference("a=\"_\"", "a=\"b\"").is_some());
    assert!(difference("a={x=1}", "a={x=1, y=2}").is_some());
}
