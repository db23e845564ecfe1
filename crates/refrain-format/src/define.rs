//! Function definitions as text. Files carry them, so any later version can read the files.
//!
//! One line of text: the name, the result as `class:reads_as`, then each parameter as
//! `name:direction:class:reads_as`, with `[]` after the class of an array:
//!
//! ```text
//! MPI_Waitany int:error count:in:int:number array_of_requests:inout:handle[]:request index:out:int:undefined status:out:status:-
//! ```

use refrain_mpi::interface::{Direction, Function};
use refrain_mpi::kind::Class;
use std::fmt::Write;

/// One parameter of a recorded function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamDef {
    /// Its name in the MPI standard.
    pub name: String,
    /// Input, output or both.
    pub direction: Direction,
    /// What C passes for it.
    pub class: Class,
    /// Whether it is an array.
    pub array: bool,
    /// The group of constants or the kind of handle that its values belong to.
    pub reads_as: String,
}

impl ParamDef {
    /// Whether its value is an input of a call.
    pub fn is_input(&self) -> bool {
        self.direction != Direction::Out || self.class == Class::Memory
    }

    /// Whether its value is an output of a call.
    pub fn is_output(&self) -> bool {
        self.direction != Direction::In && self.class != Class::Memory
    }
}

/// The definition of a recorded function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionDef {
    /// Its name in C.
    pub name: String,
    /// What it returns.
    pub result: Class,
    /// The group of constants that the result belongs to (`error` for an error code).
    pub result_reads_as: String,
    /// Its parameters in order.
    pub params: Vec<ParamDef>,
}

impl From<&Function> for FunctionDef {
    fn from(f: &Function) -> FunctionDef {
        let param = |p: &refrain_mpi::interface::Param| ParamDef {
            name: p.name.to_owned(),
            direction: p.direction,
            class: p.class,
            // The length rule of a string limits its characters; it is not a number of strings.
            array: p.length.is_some()
                && !matches!(p.class, Class::Str | Class::Strings | Class::Strings2),
            reads_as: p.kind.reads_as.to_owned(),
        };
        FunctionDef {
            name: f.name.clone(),
            result: f.result.class,
            result_reads_as: f.result.reads_as.to_owned(),
            params: f.params.iter().filter(|p| p.class != Class::Varargs).map(param).collect(),
        }
    }
}

impl FunctionDef {
    /// The line of text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} {}:{}", self.name, self.result.name(), self.result_reads_as);
        for p in &self.params {
            let array = if p.array { "[]" } else { "" };
            let (way, class) = (p.direction.name(), p.class.name());
            // Writing to a String cannot fail.
            let _ = write!(text, " {}:{way}:{class}{array}:{}", p.name, p.reads_as);
        }
        text
    }

    /// Reads the line; the error says what is wrong.
    pub fn from_text(text: &str) -> Result<FunctionDef, String> {
        let mut words = text.split_whitespace();
        let name = words.next().ok_or("an empty function definition")?.to_owned();
        let result = words.next().ok_or_else(|| format!("{name}: no result"))?;
        let (class, reads_as) = result.split_once(':').unwrap_or((result, "-"));
        let result = Class::named(class).ok_or_else(|| format!("{name}: no class `{class}`"))?;
        let params = words
            .map(|word| {
                Self::param_from(word).ok_or_else(|| format!("{name}: bad parameter `{word}`"))
            })
            .collect::<Result<_, _>>()?;
        Ok(FunctionDef { name, result, result_reads_as: reads_as.to_owned(), params })
    }

    fn param_from(word: &str) -> Option<ParamDef> {
        let mut fields = word.split(':');
        let (name, direction) = (fields.next()?, Direction::named(fields.next()?)?);
        let class = fields.next()?;
        let (class, array) = match class.strip_suffix("[]") {
            Some(class) => (class, true),
            None => (class, false),
        };
        let reads_as = fields.next()?.to_owned();
        let class = Class::named(class)?;
        Some(ParamDef { name: name.to_owned(), direction, class, array, reads_as })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_reads_back_as_written() {
        for f in refrain_mpi::interface::functions() {
            let def = FunctionDef::from(f);
            assert_eq!(FunctionDef::from_text(&def.to_text()), Ok(def));
        }
    }

    #[test]
    fn a_malformed_line_is_refused() {
        for line in ["", "MPI_X", "MPI_X what", "MPI_X int a:in", "MPI_X int a:sideways:int:-"] {
            assert!(FunctionDef::from_text(line).is_err(), "{line}");
        }
    }
}
