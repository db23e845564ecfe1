//! Strings among the arguments.

use super::{Argument, Over, Writer, nth};
use crate::names;
use crate::program::Signature;
use refrain_format::define::ParamDef;
use refrain_mpi::abi::Layout;
use refrain_mpi::interface::{Direction, Param};
use refrain_mpi::length::Length;
use refrain_mpi::names::{constant_name, mask_names};
use refrain_reader::{Event, Value};

impl Writer<'_, '_> {
    pub(super) fn string(
        &mut self,
        def: &ParamDef,
        param: Option<&Param>,
        inputs: &Over<'_>,
        events: &[&(u32, Event)],
    ) -> Argument {
        if def.direction == Direction::Out {
            let length = match param.and_then(|param| param.length.as_ref()) {
                Some(Length::Param(..)) => {
                    let passed = self.length(param, &Vec::new(), events);
                    (passed + 1).max(256)
                }
                _ => 8192,
            };
            return format!("(char[{length}]){{0}}").into();
        }
        let texts: Vec<(u32, String)> = inputs
            .iter()
            .map(|(rank, value)| match value {
                Value::Text(text) => (*rank, names::text(text)),
                _ => (*rank, "NULL".to_owned()),
            })
            .collect();
        let text = self.ranks().choice(&texts);
        let is_open = events.iter().any(|(_, event)| event.function.name == "MPI_File_open");
        match def.name.as_str() {
            "filename" if events.iter().any(|(_, event)| is_file_missing(event, self.layout())) => {
                format!("missing({text})").into()
            }
            "filename" if text.starts_with("\"/dev/") => format!("(char *){text}").into(),
            "filename"
                if is_open && !events.iter().any(|(_, event)| creates(event, self.layout())) =>
            {
                format!("existing({text})").into()
            }
            "filename" => format!("scratch({text})").into(),
            _ => text.into(),
        }
    }

    /// Arrays of strings: the arguments of the program.
    pub(super) fn strings(
        &mut self,
        signature: &Signature,
        def: &ParamDef,
        inputs: &Over<'_>,
    ) -> Argument {
        let Some((_, Value::List(first))) = inputs.first() else { return "NULL".into() };
        let mut words = Vec::new();
        for at in 0..first.len() {
            let texts: Vec<(u32, String)> = inputs
                .iter()
                .map(|(rank, value)| match nth(value, at) {
                    Some(Value::Text(text)) => (*rank, names::text(text)),
                    _ => (*rank, "NULL".to_owned()),
                })
                .collect();
            words.push(self.ranks().choice(&texts));
        }
        if !signature.function.name.starts_with("MPI_Init") {
            return format!("(char *[]){{{}, NULL}}", words.join(", ")).into();
        }
        let name = &def.name;
        let words: Vec<String> = words.iter().map(|word| format!("(char *){word}")).collect();
        let words = if words.is_empty() { String::new() } else { words.join(", ") + ", " };
        Argument {
            before: vec![
                format!("char *words[] = {{{words}NULL}};"),
                format!("char **{name} = words;"),
            ],
            text: format!("&{name}"),
            after: Vec::new(),
        }
    }
}

/// Whether a call failed because a file or folder does not exist.
pub(super) fn is_file_missing(event: &Event, layout: &Layout) -> bool {
    let class = event.error_class.map(i64::from).filter(|class| *class != 0);
    let name = class.and_then(|class| constant_name(layout.family, "error", class));
    matches!(
        name,
        Some(
            "MPI_ERR_NO_SUCH_FILE"
                | "MPI_ERR_BAD_FILE"
                | "MPI_ERR_IO"
                | "MPI_ERR_OTHER"
                | "MPI_ERR_FILE"
        )
    )
}

/// Whether a call makes a file, or wants none.
pub(super) fn creates(event: &Event, layout: &Layout) -> bool {
    let mode = event.function.params.iter().position(|p| p.reads_as == "amode");
    match mode.and_then(|at| event.inputs.get(at)) {
        Some(Some(Value::Int(mode))) => {
            mask_names(layout.family, "amode", *mode).contains("MPI_MODE_CREATE")
                || event.is_failed()
        }
        _ => event.is_failed(),
    }
}
