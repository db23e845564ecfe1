//! How long an array argument is: the rules in the square brackets of `interface.txt`.
//!
//! C passes arrays as bare addresses. Before an array is read, its length must be known, and whether the
//! argument is significant on this process (`root:`) and in this call (`sent:`).

use std::fmt;

/// The length of an array argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// The value of another parameter, times a constant.
    Param(String, usize),
    /// A limit of the MPI library, e.g. `MPI_MAX_PORT_NAME`.
    Limit(String),
    /// A property of an MPI object, e.g. `peers(comm)`; more than one argument is possible.
    Of(String, Vec<String>),
    /// The smaller of a parameter and a rule.
    Min(String, Box<Length>),
    /// Significant at the root only.
    Root(Box<Length>),
    /// Not significant where `sendbuf` is `MPI_IN_PLACE`.
    Sent(Box<Length>),
    /// Up to the closing NULL pointer (`argv`).
    Argv,
    /// Up to the closing NUL character.
    NulTerminated,
}

impl Length {
    /// Reads a rule of the table.
    pub fn parse(rule: &str) -> Result<Length, String> {
        let rule = rule.trim();
        if let Some(rest) = rule.strip_prefix("root:") {
            return Ok(Length::Root(Box::new(Length::parse(rest)?)));
        }
        if let Some(rest) = rule.strip_prefix("sent:") {
            return Ok(Length::Sent(Box::new(Length::parse(rest)?)));
        }
        if let Some((head, rest)) = rule.split_once('(') {
            let inside = rest.strip_suffix(')').ok_or_else(|| format!("`{rule}` is not closed"))?;
            if head == "min" {
                let (param, rest) =
                    inside.split_once(',').ok_or_else(|| format!("`{rule}` needs two limits"))?;
                return Ok(Length::Min(word(param)?, Box::new(Length::parse(rest)?)));
            }
            let arguments = inside.split(',').map(word).collect::<Result<_, _>>()?;
            return Ok(Length::Of(word(head)?, arguments));
        }
        if let Some((name, times)) = rule.split_once('*') {
            let times = times.parse().map_err(|_| format!("`{rule}`: not a number after *"))?;
            return Ok(Length::Param(word(name)?, times));
        }
        Ok(match word(rule)?.as_str() {
            "argv" => Length::Argv,
            "string" => Length::NulTerminated,
            limit if limit.starts_with("MPI_MAX_") => Length::Limit(limit.into()),
            name => Length::Param(name.into(), 1),
        })
    }

    /// The parameters that the rule depends on.
    pub fn parameters(&self) -> Vec<&str> {
        match self {
            Length::Param(name, _) => vec![name],
            Length::Of(_, names) => names.iter().map(String::as_str).collect(),
            Length::Min(name, rule) => {
                let mut all = rule.parameters();
                all.push(name);
                all
            }
            Length::Root(rule) => {
                let mut all = rule.parameters();
                all.extend(["root", "comm"]);
                all
            }
            Length::Sent(rule) => {
                let mut all = rule.parameters();
                all.push("sendbuf");
                all
            }
            Length::Limit(_) | Length::Argv | Length::NulTerminated => Vec::new(),
        }
    }
}

fn word(text: &str) -> Result<String, String> {
    let text = text.trim();
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is not a name"))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Param(name, 1) | Length::Limit(name) => write!(f, "{name}"),
            Length::Param(name, times) => write!(f, "{name}*{times}"),
            Length::Of(what, names) => write!(f, "{what}({})", names.join(", ")),
            Length::Min(name, rule) => write!(f, "min({name}, {rule})"),
            Length::Root(rule) => write!(f, "root:{rule}"),
            Length::Sent(rule) => write!(f, "sent:{rule}"),
            Length::Argv => write!(f, "argv"),
            Length::NulTerminated => write!(f, "string"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_rule_reads_back_as_written() {
        for rule in [
            "count",
            "n*3",
            "peers(comm)",
            "root:peers(comm)",
            "sent:peers(comm)",
            "neighbors(comm, rank)",
            "min(maxdims, dims(comm))",
            "MPI_MAX_PORT_NAME",
            "root:argv",
            "root:string",
        ] {
            assert_eq!(Length::parse(rule).unwrap().to_string(), rule);
        }
    }

    #[test]
    fn a_malformed_rule_is_refused() {
        for rule in ["", "peers(comm", "n*x", "min(a)", "a b"] {
            assert!(Length::parse(rule).is_err(), "{rule}");
        }
    }
}
