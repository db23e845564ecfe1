//! The form of a function: how each argument is passed, derived from the interface table.

use crate::words::MOST_WORDS;
use refrain_mpi::abi::Layout;
use refrain_mpi::interface::{Direction, Function, Param};
use refrain_mpi::kind::{Class, Kind};

/// The width of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Four bytes with a sign: `int`.
    Int,
    /// Four bytes without a sign: a handle of MPICH.
    Half,
    /// Eight bytes: counts, offsets, addresses, other handles.
    Word,
}

impl Width {
    /// The word of a value of this width, whatever the upper bits of `word` are.
    #[inline]
    pub const fn widen(self, word: usize) -> usize {
        match self {
            Width::Int => word as i32 as isize as usize,
            Width::Half => word as u32 as usize,
            Width::Word => word,
        }
    }

    /// The width of a kind's values.
    fn of(class: Class, kind: &Kind, layout: &Layout) -> Width {
        match class {
            Class::Int => Width::Int,
            Class::Handle if layout.bytes_of(kind.reads_as) == 4 => Width::Half,
            _ => Width::Word,
        }
    }
}

/// How an argument is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// By value: the word is the value.
    Value(Width),
    /// The address of one value that MPI sets, or reads and sets: the word is the value, before and
    /// after the call.
    Variable(Width),
    /// An address that the caller gives: a buffer, an array, a string, a status.
    Address,
    /// C's `...`: nothing is passed. The word is ignored.
    Nothing,
}

impl Argument {
    fn of(p: &Param, layout: &Layout) -> Argument {
        let width = Width::of(p.class, p.kind, layout);
        match p.class {
            Class::Varargs => Argument::Nothing,
            Class::Memory | Class::Status | Class::Str | Class::Strings | Class::Strings2 => {
                Argument::Address
            }
            _ if p.length.is_some() => Argument::Address,
            _ if p.direction == Direction::In => Argument::Value(width),
            _ => Argument::Variable(width),
        }
    }
}

/// What a function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An error code.
    Error,
    /// A value of this width: a handle, an address, an int.
    Value(Width),
    /// A `double`.
    Double,
}

/// How the arguments and the result of a function are passed under one binary interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    arguments: [Argument; MOST_WORDS],
    length: usize,
    pub(crate) outcome: Outcome,
}

impl Form {
    /// The form of a function under a binary interface. `None` if it has more than [`MOST_WORDS`]
    /// parameters; no function of the table has.
    pub fn of(function: &Function, layout: &Layout) -> Option<Form> {
        let mut arguments = [Argument::Nothing; MOST_WORDS];
        let length = function.params.len();
        for (argument, p) in arguments.get_mut(..length)?.iter_mut().zip(&function.params) {
            *argument = Argument::of(p, layout);
        }
        let outcome = match function.result.class {
            _ if function.returns_error() => Outcome::Error,
            Class::Double => Outcome::Double,
            class => Outcome::Value(Width::of(class, function.result, layout)),
        };
        Some(Form { arguments, length, outcome })
    }

    /// How each argument is passed.
    pub fn arguments(&self) -> &[Argument] {
        self.arguments.get(..self.length).unwrap_or_default()
    }

    /// Gives `call` the words as C passes them, then widens the values that it has set. `None`, without a
    /// call, if the number of words is not that of the arguments.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        words: &mut [usize],
        call: impl FnOnce(&[usize]) -> R,
    ) -> Option<R> {
        let arguments = self.arguments();
        if words.len() != arguments.len() {
            return None;
        }
        let mut passed = [0; MOST_WORDS];
        let mut length = 0;
        for ((argument, word), slot) in arguments.iter().zip(&mut *words).zip(&mut passed) {
            *slot = match argument {
                Argument::Value(width) => width.widen(*word),
                // MPI may set the lower four bytes only, as x86-64 has them first.
                Argument::Variable(_) => &raw mut *word as usize,
                Argument::Address => *word,
                Argument::Nothing => break,
            };
            length += 1;
        }
        let result = call(passed.get(..length)?);
        for (argument, word) in arguments.iter().zip(words) {
            if let Argument::Variable(width) = argument {
                *word = width.widen(*word);
            }
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Argument::{Address, Nothing, Value, Variable};
    use Width::{Half, Int, Word};
    use refrain_mpi::abi::Family;
    use refrain_mpi::interface::{function, functions};

    fn form(name: &str, family: Family) -> Form {
        Form::of(function(name).unwrap(), Layout::of(family)).unwrap()
    }

    #[test]
    fn every_function_has_a_form_in_every_family() {
        for family in Family::ALL {
            for f in functions() {
                let form = Form::of(f, Layout::of(family)).unwrap_or_else(|| panic!("{}", f.name));
                assert_eq!(form.arguments().len(), f.params.len(), "{}", f.name);
                // Only the last argument may be passed as nothing.
                let last = form.arguments().iter().position(|a| *a == Nothing);
                assert!(last.is_none_or(|i| i + 1 == f.params.len()), "{}", f.name);
            }
        }
    }

    #[test]
    fn handles_have_the_width_of_the_family() {
        let send =
            |handle| [Address, Value(Int), Value(handle), Value(Int), Value(Int), Value(handle)];
        assert_eq!(form("MPI_Send", Family::Mpich).arguments(), send(Half));
        assert_eq!(form("MPI_Send", Family::OpenMpi).arguments(), send(Word));
        assert_eq!(form("MPI_Send", Family::StandardAbi).arguments(), send(Word));
        let large = form("MPI_Send_c", Family::Mpich);
        assert_eq!(large.arguments()[1], Value(Word));
        // Files are pointers everywhere.
        assert_eq!(form("MPI_File_close", Family::Mpich).arguments(), [Variable(Word)]);
    }

    #[test]
    fn scalar_outputs_are_variables_and_arrays_are_addresses() {
        let family = Family::Mpich;
        assert_eq!(form("MPI_Comm_rank", family).arguments(), [Value(Half), Variable(Int)]);
        assert_eq!(form("MPI_Wait", family).arguments(), [Variable(Half), Address]);
        assert_eq!(form("MPI_Waitall", family).arguments(), [Value(Int), Address, Address]);
        assert_eq!(
            form("MPI_Alloc_mem", family).arguments(),
            [Value(Word), Value(Half), Variable(Word)]
        );
        assert_eq!(form("MPI_Init", family).arguments(), [Variable(Int), Address]);
        assert_eq!(form("MPI_Pcontrol", family).arguments(), [Value(Int), Nothing]);
    }

    #[test]
    fn results_that_are_no_error_codes_have_their_widths() {
        assert_eq!(form("MPI_Wtime", Family::Mpich).outcome, Outcome::Double);
        assert_eq!(form("MPI_Aint_add", Family::Mpich).outcome, Outcome::Value(Word));
        assert_eq!(form("MPI_Comm_f2c", Family::Mpich).outcome, Outcome::Value(Half));
        assert_eq!(form("MPI_Comm_f2c", Family::OpenMpi).outcome, Outcome::Value(Word));
        assert_eq!(form("MPI_Comm_c2f", Family::OpenMpi).outcome, Outcome::Value(Int));
        assert_eq!(form("MPI_Barrier", Family::OpenMpi).outcome, Outcome::Error);
    }

    #[test]
    fn a_call_gets_values_addresses_of_variables_and_no_rest() {
        let rank = form("MPI_Comm_rank", Family::Mpich);
        // A stale upper half, as another MPI's handle would leave it.
        let mut words = [0xdead_beef_4400_0000, 0xdead_beef_dead_beef];
        let result = rank.with(&mut words, |passed| {
            assert_eq!((passed.len(), passed[0]), (2, 0x4400_0000));
            // SAFETY: the address of the second word.
            unsafe { (passed[1] as *mut i32).write(-3) };
            5
        });
        assert_eq!((result, words[1] as i64), (Some(5), -3));
        assert_eq!(words[0], 0xdead_beef_4400_0000, "inputs stay");

        let pcontrol = form("MPI_Pcontrol", Family::Mpich);
        assert_eq!(pcontrol.with(&mut [2, 77], |passed| passed.to_vec()), Some(vec![2]));
        assert_eq!(pcontrol.with(&mut [2], |_| unreachable!("it is not called")), None::<()>);
    }

    #[test]
    fn widths_ignore_bits_above_them() {
        assert_eq!(Int.widen(0xffff_ffff) as i64, -1);
        assert_eq!(Int.widen(0xdead_beef_0000_0007), 7);
        assert_eq!(Half.widen(0xdead_beef_8c00_0001), 0x8c00_0001);
        assert_eq!(Word.widen(usize::MAX), usize::MAX);
    }
}
