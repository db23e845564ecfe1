//! The functions of a trace, by their numbers in signatures.

use crate::decoder::TaskError;
use refrain_format::define::FunctionDef;
use refrain_signature::notes;
use refrain_signature::plan::{Kinds, Plan};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A function: its definition, and how its values are encoded.
#[derive(Debug)]
pub struct Function {
    /// The definition that the trace carries.
    pub def: Arc<FunctionDef>,
    /// How signatures and outcomes hold its values.
    pub plan: Plan,
}

/// The functions of a trace.
#[derive(Debug, Default)]
pub struct Functions {
    kinds: Kinds,
    all: BTreeMap<u16, Arc<Function>>,
}

impl Functions {
    /// Reads the definitions.
    pub fn read<'a>(
        texts: impl IntoIterator<Item = (u16, &'a str)>,
    ) -> Result<Functions, TaskError> {
        let mut functions = Functions::default();
        for (number, text) in texts {
            let def =
                FunctionDef::from_text(text).map_err(|why| TaskError::Function(number, why))?;
            let plan = Plan::new(def.clone(), &mut functions.kinds);
            functions.all.insert(number, Arc::new(Function { def: Arc::new(def), plan }));
        }
        Ok(functions)
    }

    /// A function by its number.
    pub fn get(&self, number: u16) -> Option<&Arc<Function>> {
        self.all.get(&number)
    }

    /// The functions that are called, without notes.
    pub fn called(&self) -> impl Iterator<Item = (u16, &Arc<Function>)> {
        self.all.range(..notes::FIRST).map(|(number, function)| (*number, function))
    }

    /// Kinds of handles, by number.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }
}
