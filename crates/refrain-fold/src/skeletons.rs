//! Skeletons: signatures without their values, the same for all tasks of a trace.

use crate::roles::Functions;
use refrain_nest::Stacks;
use refrain_signature::args::{Arg, Handle};
use refrain_signature::cells::Cells;
use refrain_signature::head::Head;
use refrain_structure::group::{Group, Row};

/// Numbers for skeletons.
#[derive(Debug)]
pub(crate) struct Skeletons {
    known: Stacks,
}

impl Skeletons {
    /// None yet; so many frames of call sites may differ.
    pub fn new(frames: usize) -> Skeletons {
        Skeletons { known: Stacks::new(frames) }
    }

    /// The skeleton of each row of a group.
    ///
    /// With call sites it is the function and the call site. Without them, the objects among the arguments
    /// (communicators, datatypes, operations) stand for the call site.
    pub fn of(&mut self, group: &Group, functions: &Functions) -> Vec<u32> {
        group.rows.iter().map(|row| self.of_row(group, row, functions)).collect()
    }

    fn of_row(&mut self, group: &Group, row: &Row, functions: &Functions) -> u32 {
        let (mut key, mut stack) = (Vec::new(), Vec::new());
        let variant = row.cells.variants.first();
        let head = variant.and_then(|variant| Head::read(&mut Cells::new(&variant.cells)));
        if let (Some(head), Some(variant)) = (head, variant) {
            key.extend(head.function.to_le_bytes());
            key.push(u8::from(head.returned));
            key.extend(head.depth.to_le_bytes());
            let site = head.site.and_then(|site| group.strings.get(site as usize));
            let site = site.and_then(|site| site.eval(group.ranks.first()?));
            match site {
                Some(site) => stack = site.to_vec(),
                None if head.is_note() => {}
                None => {
                    let args = functions.args(head.function, &variant.cells);
                    let inputs = args.iter().flat_map(|args| args.inputs.iter());
                    for (param, arg) in inputs {
                        if let Arg::Handle(Handle::Own(cell) | Handle::Predefined(cell)) = arg
                            && variant.column(cell.index).is_none()
                        {
                            key.push(*param);
                            key.extend(cell.value.to_le_bytes());
                        }
                    }
                }
            }
        }
        self.known.of(&key, &stack)
    }
}
