//! An MPI library in this process.

use crate::abi::resolve;
use crate::form::Outcome;
use crate::function::{self, NAMES};
use crate::words::{Returned, invoke};
use crate::{Abi, CallError, Form, Opened, Status, Symbols};
use refrain_mpi::abi::{Family, Layout, Source};
use refrain_mpi::interface::functions;
use refrain_mpi::names;
use refrain_mpi::status::{CountEncoding, StatusLayout};
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;

/// An MPI library in this process.
pub struct Library<S: Symbols = Opened> {
    symbols: S,
    abi: Abi,
}

impl<S: Symbols> Library<S> {
    /// A library that is loaded already. Detects its binary interface.
    pub fn from_loaded(symbols: S) -> Library<S> {
        let abi = Abi::detect(&symbols);
        Library { symbols, abi }
    }

    /// The values of its binary interface.
    #[inline]
    pub fn abi(&self) -> &Abi {
        &self.abi
    }

    /// What its binary interface fixes for all processes.
    #[inline]
    pub fn layout(&self) -> &'static Layout {
        self.abi.layout()
    }

    /// MPI's own implementation of a function, past tools; `None` if the library does not have it.
    #[inline]
    pub fn address(&self, number: usize) -> Option<*const ()> {
        self.symbols.function(number)
    }

    /// Calls MPI's own implementation of a function, past tools, with the words that C passes: a scalar
    /// output is an address, too. `MPI_ERR_UNSUPPORTED_OPERATION` if the library does not have it.
    ///
    /// # Safety
    /// The function must return an error code, and the words must be its arguments.
    #[inline]
    pub unsafe fn call_words(&self, number: usize, words: &[usize]) -> c_int {
        match self.symbols.function(number) {
            // SAFETY: `Symbols` finds the function of that number; for the rest, the caller's promise.
            Some(f) => unsafe { invoke(f, words) }.unwrap_or_else(|| self.layout().err_other),
            None => self.layout().err_unsupported_operation,
        }
    }

    /// A function of that name, as the program's calls reach it: through tools, where there are any.
    ///
    /// # Errors
    /// If MPI has no such function, or this library does not have it.
    pub fn function(&self, name: &str) -> Result<Callable<'_>, CallError> {
        let unknown = || CallError::Unknown(name.to_owned());
        let number = function::number(name).ok_or_else(unknown)?;
        let name = *NAMES.get(number).ok_or_else(unknown)?;
        let form = functions().get(number).and_then(|f| Form::of(f, self.layout()));
        let address = self.symbols.entry(number).ok_or(CallError::Absent(name))?;
        let form = form.ok_or_else(unknown)?;
        Ok(Callable { name, address, form, library: PhantomData })
    }

    /// Calls the function of that name; see [`Callable::call`]. Looks the name up every time.
    ///
    /// # Errors
    /// If MPI or this library has no such function, if the number of words is wrong, or if the function
    /// does not return an error code.
    ///
    /// # Safety
    /// The words must be arguments of the function.
    pub unsafe fn call(&self, name: &str, words: &mut [usize]) -> Result<c_int, CallError> {
        // SAFETY: the caller's promise.
        unsafe { self.function(name)?.call(words) }
    }

    /// A predefined handle by its name, such as `MPI_COMM_WORLD`; `None` if the library does not have it.
    ///
    /// Handles of MPICH and of the standard ABI are numbers, also those that only newer or other versions
    /// of the library have.
    pub fn predefined(&self, name: &str) -> Option<usize> {
        let mut all = names::predefined_handles(self.abi.family).filter(|(_, one, _)| *one == name);
        all.find_map(|(.., source)| self.resolve(source))
    }

    /// A named number, such as `MPI_ERR_TRUNCATE`; `None` if the family does not have it.
    pub fn constant(&self, name: &str) -> Option<i64> {
        names::constant_value(self.abi.family, name)
    }

    /// A named address that stands for something else than memory, such as `MPI_IN_PLACE`; `None` if there
    /// is none of that name.
    pub fn sentinel(&self, name: &str) -> Option<usize> {
        let layout = self.layout();
        self.resolve(match name {
            "MPI_STATUS_IGNORE" => layout.status_ignore,
            "MPI_STATUSES_IGNORE" => layout.statuses_ignore,
            "MPI_BOTTOM" => layout.bottom,
            "MPI_IN_PLACE" => layout.in_place,
            "MPI_BUFFER_AUTOMATIC" => layout.buffer_automatic,
            "MPI_UNWEIGHTED" => layout.unweighted,
            "MPI_WEIGHTS_EMPTY" => layout.weights_empty,
            "MPI_ARGV_NULL" => layout.argv_null,
            "MPI_ARGVS_NULL" => layout.argvs_null,
            "MPI_ERRCODES_IGNORE" => layout.errcodes_ignore,
            _ => return None,
        })
    }

    /// The value of a handle or sentinel in this process; `None` if the library lacks its symbol.
    pub fn resolve(&self, source: Source) -> Option<usize> {
        resolve(&self.symbols, source)
    }

    /// The layout of `MPI_Status`.
    ///
    /// The standard ABI leaves the encoding of counts to the library. So the library is asked, between
    /// `MPI_Init` and `MPI_Finalize`, every time: keep the answer. Before and after, the encoding is
    /// [`CountEncoding::Unknown`].
    pub fn status_layout(&self) -> StatusLayout {
        let layout = self.layout().status;
        match self.abi.family {
            Family::Mpich | Family::OpenMpi => layout,
            Family::StandardAbi => StatusLayout { count: self.count_encoding(), ..layout },
        }
    }

    fn count_encoding(&self) -> CountEncoding {
        let Some(byte) = self.predefined("MPI_BYTE").filter(|_| self.is_initialized()) else {
            return CountEncoding::Unknown;
        };
        let mut status = Status::new();
        let at = status.address() as usize;
        let sample = CountEncoding::SAMPLE as usize;
        // SAFETY: local functions, on a status of our own.
        unsafe {
            self.call_words(function::MPI_Status_set_elements_x, &[at, byte, sample]);
            self.call_words(function::MPI_Status_set_cancelled, &[at, 1]);
        }
        CountEncoding::recognise(status.bytes())
    }

    /// Whether `MPI_Init` has been called and `MPI_Finalize` has not.
    pub fn is_initialized(&self) -> bool {
        let ask = |number| {
            let mut flag: c_int = 0;
            // SAFETY: either function takes the address of an int, and may be called at any time.
            unsafe { self.call_words(number, &[&raw mut flag as usize]) == 0 && flag != 0 }
        };
        ask(function::MPI_Initialized) && !ask(function::MPI_Finalized)
    }

    /// What `MPI_Get_library_version` says, which may be called at any time.
    pub fn version(&self) -> String {
        // MPI_MAX_LIBRARY_VERSION_STRING is at most 8192 in the MPIs there are.
        let mut text = vec![0u8; 16384];
        let mut length: c_int = 0;
        let words = [text.as_mut_ptr() as usize, &raw mut length as usize];
        // SAFETY: the buffer is longer than any MPI writes, and zeros close it.
        unsafe { self.call_words(function::MPI_Get_library_version, &words) };
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        text.to_string_lossy().trim().to_owned()
    }

    /// This process's rank in `MPI_COMM_WORLD`, and its size, once MPI is initialized.
    pub fn world(&self) -> Option<(c_int, c_int)> {
        let ask = |number| {
            let mut value: c_int = -1;
            let words = [self.abi.comm_world, &raw mut value as usize];
            // SAFETY: local functions of this form, on a handle that is valid now.
            (unsafe { self.call_words(number, &words) } == 0).then_some(value)
        };
        Some((ask(function::MPI_Comm_rank)?, ask(function::MPI_Comm_size)?))
    }

    /// The class of an error code.
    ///
    /// Open MPI cannot be asked about every code. It treats an unknown code, for example one that a callback
    /// of the program made up, as an error of the query and calls the error handler; and it refuses the
    /// query before `MPI_Init` and after `MPI_Finalize`. Its own codes equal their classes.
    pub fn error_class(&self, code: c_int) -> c_int {
        if self.abi.family == Family::OpenMpi {
            return code;
        }
        let mut class = code;
        let words = [code as usize, &raw mut class as usize];
        // SAFETY: a local function of this form in every MPI.
        unsafe { self.call_words(function::MPI_Error_class, &words) };
        class
    }
}

/// A function of a library, looked up once.
#[derive(Clone, Copy, Debug)]
pub struct Callable<'l> {
    name: &'static str,
    address: *const (),
    form: Form,
    library: PhantomData<&'l ()>,
}

// SAFETY: the address of a function that stays loaded, which any thread may call.
unsafe impl Send for Callable<'_> {}
// SAFETY: as above.
unsafe impl Sync for Callable<'_> {}

/// What a function returns that does not return an error code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A handle, an address or an int.
    Word(usize),
    /// Seconds.
    Double(f64),
}

impl Callable<'_> {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How its arguments are passed.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Calls the function, and returns its error code.
    ///
    /// Each word is an argument. Inputs are values; what the table calls memory, string or status, and all
    /// arrays, are addresses. The word of a scalar output is not an address: it holds the value after the
    /// call, sign-extended if it is an `int`.
    ///
    /// # Errors
    /// If the number of words is wrong, or if the function does not return an error code. The function is
    /// not called then.
    ///
    /// # Safety
    /// The words must be arguments of the function.
    pub unsafe fn call(&self, words: &mut [usize]) -> Result<c_int, CallError> {
        match self.form.outcome {
            // SAFETY: the table says that it returns an error code; for the rest, the caller's promise.
            Outcome::Error => unsafe { self.invoke(words) },
            Outcome::Value(_) | Outcome::Double => Err(CallError::ReturnsValue(self.name)),
        }
    }

    /// Calls the function, and returns what it returns; of an error code, the word.
    ///
    /// # Errors
    /// If the number of words is wrong. The function is not called then.
    ///
    /// # Safety
    /// As for [`Callable::call`].
    pub unsafe fn value(&self, words: &mut [usize]) -> Result<Value, CallError> {
        // SAFETY: the table says what it returns; for the rest, the caller's promise.
        unsafe {
            Ok(match self.form.outcome {
                Outcome::Error => Value::Word(self.invoke::<c_int>(words)? as usize),
                Outcome::Value(width) => Value::Word(width.widen(self.invoke(words)?)),
                Outcome::Double => Value::Double(self.invoke(words)?),
            })
        }
    }

    /// # Safety
    /// As for [`Callable::call`], and the function must return an `R`.
    unsafe fn invoke<R: Returned>(&self, words: &mut [usize]) -> Result<R, CallError> {
        let (takes, given) = (self.form.arguments().len(), words.len());
        // SAFETY: the caller's promise.
        let result = self.form.with(words, |passed| unsafe { invoke(self.address, passed) });
        result.flatten().ok_or(CallError::Arguments { function: self.name, takes, given })
    }
}

#[cfg(test)]
mod tests {
    #![allow(non_upper_case_globals, reason = "functions have the names that MPI gives them")]

    use super::*;
    use crate::function::{MPI_Aint_add, MPI_Comm_rank, MPI_Comm_size, MPI_Wtime};

    /// A library with MPICH's interface and four functions.
    struct Fake;

    unsafe extern "C" fn comm_rank(comm: c_int, rank: *mut c_int) -> c_int {
        // SAFETY: the caller's int.
        unsafe { *rank = if comm == 0x4400_0000 { 3 } else { -1 } };
        0
    }

    unsafe extern "C" fn comm_size(_comm: c_int, size: *mut c_int) -> c_int {
        // SAFETY: the caller's int.
        unsafe { *size = 4 };
        0
    }

    unsafe extern "C" fn aint_add(base: isize, offset: isize) -> isize {
        base + offset
    }

    unsafe extern "C" fn wtime() -> f64 {
        1.5
    }

    // SAFETY: functions of the forms that MPI gives them; no variables.
    unsafe impl Symbols for Fake {
        fn function(&self, number: usize) -> Option<*const ()> {
            match number {
                MPI_Comm_rank => Some(comm_rank as *const ()),
                MPI_Comm_size => Some(comm_size as *const ()),
                MPI_Aint_add => Some(aint_add as *const ()),
                MPI_Wtime => Some(wtime as *const ()),
                _ => None,
            }
        }

        fn variable(&self, _name: &str) -> Option<usize> {
            None
        }
    }

    #[test]
    fn outputs_are_in_their_words_and_values_are_returned() {
        let mpi = Library::from_loaded(Fake);
        assert_eq!(mpi.abi().family, Family::Mpich);
        let world = mpi.predefined("MPI_COMM_WORLD").unwrap();
        let mut words = [world, usize::MAX];
        // SAFETY: functions of this test, with arguments of their forms.
        unsafe {
            assert_eq!(mpi.call("MPI_Comm_rank", &mut words), Ok(0));
            let sum = mpi.function("MPI_Aint_add").unwrap().value(&mut [1 << 40, 2]);
            assert_eq!(sum, Ok(Value::Word((1 << 40) + 2)));
            let time = mpi.function("MPI_Wtime").unwrap().value(&mut []);
            assert_eq!(time, Ok(Value::Double(1.5)));
        }
        assert_eq!(words[1], 3);
        assert_eq!(mpi.world(), Some((3, 4)));
    }

    #[test]
    fn a_call_that_cannot_be_made_says_why() {
        let mpi = Library::from_loaded(Fake);
        // SAFETY: nothing is called.
        let call = |name, words: &mut [usize]| unsafe { mpi.call(name, words) };
        assert_eq!(call("MPI_Nonsense", &mut []), Err(CallError::Unknown("MPI_Nonsense".into())));
        assert_eq!(call("MPI_Barrier", &mut [0]), Err(CallError::Absent("MPI_Barrier")));
        assert_eq!(call("MPI_Wtime", &mut []), Err(CallError::ReturnsValue("MPI_Wtime")));
        let wrong = CallError::Arguments { function: "MPI_Comm_rank", takes: 2, given: 1 };
        assert_eq!(call("MPI_Comm_rank", &mut [0]), Err(wrong.clone()));
        assert_eq!(wrong.to_string(), "MPI_Comm_rank takes 2 arguments, not 1");
        // SAFETY: the function is absent.
        let result = unsafe { mpi.call_words(function::MPI_Barrier, &[0]) };
        assert_eq!(result, mpi.layout().err_unsupported_operation);
    }

    #[test]
    fn handles_constants_and_sentinels_are_found_by_name() {
        let mpi = Library::from_loaded(Fake);
        assert_eq!(mpi.predefined("MPI_INT"), Some(0x4c00_0405));
        assert_eq!(mpi.predefined("MPI_FILE_NULL"), Some(0));
        assert_eq!(mpi.predefined("MPI_NONSENSE"), None);
        assert_eq!(mpi.constant("MPI_ERR_TRUNCATE"), Some(14));
        assert_eq!(mpi.sentinel("MPI_IN_PLACE"), Some(usize::MAX));
        assert_eq!(mpi.sentinel("MPI_UNWEIGHTED"), None, "a variable that the library lacks");
        assert!(!mpi.is_initialized() && mpi.version().is_empty());
    }
}
