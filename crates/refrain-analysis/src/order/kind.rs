//! The kind of a call in a record of receive orders.

use refrain_mpi::interface::Function;
use refrain_mpi::semantics::{Choice, Form, Op};
use refrain_order::Kind;

/// The kind of a function's calls; `None` if its calls are not recorded.
pub fn kind(function: &Function) -> Option<Kind> {
    let polls = function.form() == Form::Nonblocking;
    Some(match function.op() {
        Op::Receive => Kind::Recv,
        Op::SendReceive => Kind::Sendrecv,
        Op::MatchedReceive => Kind::Mrecv,
        Op::Probe if polls => Kind::Iprobe,
        Op::Probe => Kind::Probe,
        Op::MatchedProbe if polls => Kind::Improbe,
        Op::MatchedProbe => Kind::Mprobe,
        Op::Complete(choice) => match (choice, polls) {
            (Choice::One, false) => Kind::Wait,
            (Choice::All, false) => Kind::Waitall,
            (Choice::Any, false) => Kind::Waitany,
            (Choice::Some, false) => Kind::Waitsome,
            (Choice::One, true) => Kind::Test,
            (Choice::All, true) => Kind::Testall,
            (Choice::Any, true) => Kind::Testany,
            (Choice::Some, true) => Kind::Testsome,
        },
        Op::Inspect(Choice::One) => Kind::GetStatus,
        Op::Inspect(Choice::All) => Kind::GetStatusAll,
        Op::Inspect(Choice::Any) => Kind::GetStatusAny,
        Op::Inspect(Choice::Some) => Kind::GetStatusSome,
        Op::Arrived => Kind::Parrived,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_mpi::interface::function;

    #[test]
    fn a_kind_has_the_name_of_its_function() {
        for kind_ in Kind::ALL {
            let name = format!("{kind_:?}").replace("GetStatus", "Request_get_status_");
            let name = name.trim_end_matches('_').to_owned();
            let name = name[..1].to_owned() + &name[1..].to_lowercase();
            let function = function(&format!("MPI_{name}")).expect(&name);
            assert_eq!(kind(function), Some(kind_), "{name}");
        }
    }
}
