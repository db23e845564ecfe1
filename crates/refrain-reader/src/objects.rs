//! Objects that the threads of a process make and share: sizes of datatypes, members of communicators.

use crate::communicators::Communicators;
use crate::datatypes::{Sizes, makes_datatypes};
use crate::decoder::TaskError;
use crate::functions::Function;
use crate::view::TaskView;
use refrain_signature::notes;

/// The objects of a process, collected from the signatures of its threads: a thread may use what another one made.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub sizes: Sizes,
    pub communicators: Communicators,
}

impl Objects {
    /// From the threads of a process.
    pub fn of(threads: &[TaskView<'_>]) -> Result<Objects, TaskError> {
        let (mut made, mut members) = (Vec::new(), Vec::new());
        for view in threads {
            let events = samples(view, |_, function| makes_datatypes(&function.def))?;
            if !events.is_empty() {
                made.push((events, view.handle_names()));
            }
            members.extend(samples(view, |number, _| number == notes::MEMBERS)?);
        }
        let calls =
            made.iter().flat_map(|(events, names)| events.iter().map(move |e| (e.clone(), names)));
        Ok(Objects { sizes: Sizes::new(calls), communicators: Communicators::new(&members) })
    }
}

/// One call or note for each signature of certain functions.
fn samples(
    view: &TaskView<'_>,
    wanted: impl Fn(u16, &Function) -> bool,
) -> Result<Vec<crate::event::Event>, TaskError> {
    let is_wanted = |signature: &u32| {
        let number = view.head_function(*signature);
        number.is_some_and(|n| view.function(n).is_some_and(|function| wanted(n, function)))
    };
    let signatures: Vec<u32> = (0..view.signatures() as u32).filter(is_wanted).collect();
    if signatures.is_empty() { Ok(Vec::new()) } else { view.samples(&signatures) }
}
