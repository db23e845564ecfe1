//! Skeletons: signatures without their values.

use refrain_reader::refrain_nest::Stacks;
use refrain_reader::{Arg, Object, Structure};

/// Gives the lines of a call site other names; frames with the same name are the same.
pub type Renamed<'n> = dyn FnMut(&[u8]) -> Vec<u8> + 'n;

/// Numbers for skeletons, the same for all groups of a trace.
pub(super) struct Skeletons<'n> {
    known: Stacks,
    renamed: &'n mut Renamed<'n>,
    /// Whether call sites were recorded.
    pub has_sites: bool,
}

impl<'n> Skeletons<'n> {
    /// No skeletons; so many frames of call sites may differ.
    pub(super) fn new(frames: usize, renamed: &'n mut Renamed<'n>) -> Skeletons<'n> {
        Skeletons { known: Stacks::new(frames), renamed, has_sites: false }
    }

    /// The skeleton of a signature; none for a note.
    ///
    /// With call sites it is the function and the call site. Without them, the communicators, datatypes and operations
    /// stand for the call site.
    pub(super) fn of(&mut self, structure: &Structure<'_>, number: u32) -> Option<u32> {
        let signature = structure.signature(number).filter(|signature| !signature.is_note())?;
        let mut kind = signature.function.name.clone().into_bytes();
        kind.push(u8::from(signature.returned()));
        let arguments = signature.variants().next()?;
        let site = arguments.site().and_then(|site| site.eval(arguments.ranks.first()?));
        let site = match site {
            Some(site) => {
                self.has_sites = true;
                (self.renamed)(&site)
            }
            None => {
                for (name, arg) in arguments.all() {
                    if let Arg::Handle(object @ (Object::Predefined(_) | Object::Own(_))) = arg {
                        kind.extend(format!("{name}={object}").bytes());
                    }
                }
                Vec::new()
            }
        };
        Some(self.known.of(&kind, &site))
    }
}
