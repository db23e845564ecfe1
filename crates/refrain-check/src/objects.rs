//! Objects that a program creates and should free.

use crate::finding::{Class, Findings, Place};
use refrain_bytes::table::Map;
use refrain_mpi::interface::Function;
use refrain_reader::{Call, Value};

use std::sync::Arc;

/// Kinds of handles that are followed, with what to call them and how they are freed.
const KINDS: [(&str, &str, &str); 7] = [
    ("comm", "communicator", "MPI_Comm_free"),
    ("group", "group", "MPI_Group_free"),
    ("datatype", "datatype", "MPI_Type_free"),
    ("op", "reduction operation", "MPI_Op_free"),
    ("win", "window", "MPI_Win_free"),
    ("file", "file", "MPI_File_close"),
    ("info", "info object", "MPI_Info_free"),
];

#[derive(Debug)]
struct Live {
    place: Arc<Place>,
    /// How often MPI returned the handle minus how often it was freed.
    references: u32,
}

/// The objects of a process.
#[derive(Debug, Default)]
pub struct Objects {
    live: Map<(&'static str, u64), Live>,
}

/// The handles in a value.
pub fn words(value: Option<&Value>) -> Vec<u64> {
    let word = |value: &Value| match value {
        Value::Word(word) => Some(*word),
        _ => None,
    };
    match value {
        Some(Value::List(all)) => all.iter().filter_map(word).collect(),
        Some(one) => word(one).into_iter().collect(),
        None => Vec::new(),
    }
}

fn kind_of(name: &str) -> Option<&'static str> {
    KINDS.iter().find(|(kind, ..)| *kind == name).map(|(kind, ..)| *kind)
}

impl Objects {
    /// Follows the objects that a call creates and frees.
    pub fn observe(&mut self, call: &Call, function: &Function, place: &Arc<Place>) {
        for param in function.creates() {
            let Some((kind, at)) = self.position(call, function, param) else { continue };
            for handle in words(call.event().outputs.get(at).and_then(Option::as_ref)) {
                if call.handle_name(kind, handle).is_some() {
                    continue;
                }
                let new = || Live { place: place.clone(), references: 0 };
                self.live.entry((kind, handle)).or_insert_with(new).references += 1;
            }
        }
        for param in function.frees() {
            let Some((kind, at)) = self.position(call, function, param) else { continue };
            for handle in words(call.event().inputs.get(at).and_then(Option::as_ref)) {
                let Some(live) = self.live.get_mut(&(kind, handle)) else { continue };
                live.references = live.references.saturating_sub(1);
                if live.references == 0 {
                    self.live.remove(&(kind, handle));
                }
            }
        }
    }

    fn position(
        &self,
        call: &Call,
        function: &Function,
        param: usize,
    ) -> Option<(&'static str, usize)> {
        let param = function.params.get(param)?;
        let kind = kind_of(param.kind.reads_as)?;
        let at = call.function().params.iter().position(|p| p.name == param.name)?;
        Some((kind, at))
    }

    /// How many objects are alive.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// The process calls `MPI_Finalize`: what is alive is never freed.
    pub fn finish(&mut self, findings: &mut Findings) {
        let mut left: Vec<_> = self.live.drain().collect();
        left.sort_by_key(|((kind, handle), live)| (live.place.number, *kind, *handle));
        for ((kind, _), live) in left {
            let words = KINDS.iter().find(|(name, ..)| *name == kind);
            let (_, what, free) = words.copied().unwrap_or((kind, kind, "its free function"));
            let article = if what.starts_with('i') { "An" } else { "A" };
            let message = format!(
                "{article} {what} that {} creates is never freed ({free}).",
                live.place.function
            );
            findings.add(Class::ObjectLeak, message, vec![(*live.place).clone()]);
        }
    }
}
