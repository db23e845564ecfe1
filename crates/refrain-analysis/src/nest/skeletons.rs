//! Skeletons: signatures without their values.

use refrain_reader::{Arg, Object, Structure};
use std::collections::HashMap;

/// Numbers for skeletons, the same for all groups of a trace.
#[derive(Debug, Default)]
pub(super) struct Skeletons {
    known: HashMap<Vec<u8>, u32>,
    /// Whether call sites were recorded.
    pub has_sites: bool,
}

impl Skeletons {
    /// The skeleton of a signature; none for a note.
    ///
    /// With call sites it is the function and the call site. Without them, the communicators, datatypes and operations
    /// stand for the call site.
    pub(super) fn of(&mut self, structure: &Structure<'_>, number: u32) -> Option<u32> {
        let signature = structure.signature(number).filter(|signature| !signature.is_note())?;
        let mut key = signature.function.name.clone().into_bytes();
        key.push(u8::from(signature.returned()));
        let arguments = signature.variants().next()?;
        let site = arguments.site().and_then(|site| site.eval(arguments.ranks.first()?));
        match site {
            Some(site) => {
                self.has_sites = true;
                key.extend(site);
            }
            None => {
                for (name, arg) in arguments.all() {
                    if let Arg::Handle(object @ (Object::Predefined(_) | Object::Own(_))) = arg {
                        key.extend(format!("{name}={object}").bytes());
                    }
                }
            }
        }
        let next = self.known.len() as u32;
        Some(*self.known.entry(key).or_insert(next))
    }
}
