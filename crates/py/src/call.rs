//! What every function does alike: its arguments become C's, the interpreter is let go of, the C function is
//! called, and its outputs and its code are returned. An API error is a code, never an exception; only a
//! wrong Python type is one.

use crate::{
    exit, interrupt,
    library::{Library, library},
    line,
};
use pyo3::{
    Borrowed, PyTypeCheck,
    exceptions::{PyOverflowError, PyTypeError, PyUnicodeEncodeError},
    prelude::*,
    sync::PyOnceLock,
    types::{PyInt, PyList, PyString},
};
use std::{ffi::CString, fmt::Display};

/// An address or a handle: pyACL has plain ints for both.
pub type Address = usize;
/// Bytes.
pub type Size = usize;

/// Calls into the library without holding the interpreter. Any call may wait: for a copy, for a lock, for a
/// callback. Raises what the handler of a signal raised that ended such a wait.
pub fn enter<T: Send>(py: Python<'_>, body: impl FnOnce(&'static Library) -> T + Send) -> PyResult<T> {
    line::note(py);
    let value = py.detach(|| exit::within(|| interrupt::within(|| body(library()))));
    interrupt::raised().map_or(Ok(value), Err)
}

/// As `enter` for a call that never waits for work.
pub fn enter_briefly<T: Send>(py: Python<'_>, body: impl FnOnce(&'static Library) -> T + Send) -> T {
    line::note(py);
    py.detach(|| exit::within(|| body(library())))
}

/// As `enter` for a call that may wait for ever and touches no memory: the end of the program does not wait
/// for it.
pub fn enter_to_rest<T: Send>(
    py: Python<'_>,
    body: impl FnOnce(&'static Library) -> T + Send,
) -> PyResult<T> {
    line::note(py);
    let value = py.detach(|| {
        let value = interrupt::within(|| body(library()));
        exit::stay_away_if_over();
        value
    });
    interrupt::raised().map_or(Ok(value), Err)
}

/// ACL_ERROR_RT_PARAM_INVALID.
const PARAM_INVALID: i32 = 107000;

/// Refuses a call for an argument that is of the right type but nothing C can be given. Returns the code; the
/// message is kept for acl.get_recent_err_msg.
pub fn refuse(py: Python<'_>, function: &str, note: impl Display) -> i32 {
    refuse_as(py, function, PARAM_INVALID, note)
}

/// Refuses a call as [`refuse`] does, with this code.
pub fn refuse_as(py: Python<'_>, function: &str, code: i32, note: impl Display) -> i32 {
    let text = |text: String| CString::new(text.replace('\0', "?")).expect("it has no zero");
    let (function, note) = (text(function.to_owned()), text(note.to_string()));
    // SAFETY: both are C strings.
    enter_briefly(py, |library| unsafe {
        (library.private.ferryRefuse)(function.as_ptr(), note.as_ptr(), code)
    })
}

/// Why an argument cannot be given to C.
pub enum Why {
    /// It is of the wrong type: an exception.
    Type(PyErr),
    /// Its type is right: an API error, its code and its words.
    Value(i32, String),
}

impl Why {
    /// The TypeError of an argument.
    pub fn not_of_type(name: &str, words: impl Display) -> Why {
        Why::Type(PyTypeError::new_err(format!("argument '{name}': {words}")))
    }

    /// The API error of a value.
    pub fn unfit(words: String) -> Why {
        Why::Value(PARAM_INVALID, words)
    }
}

/// A Python int that is to become a number of C's.
pub enum Int<T: Number> {
    /// It does.
    Fits(T::C),
    /// It is too large, or too small; in words.
    Outside { given: String, negative: bool },
    /// It is no int; what Python says of it.
    Wrong(String),
}

/// What a number of C's is.
pub trait Number {
    /// The type that C has for it.
    type C: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>;
    /// What a number is answered that C cannot have.
    const CODE: i32 = PARAM_INVALID;

    /// What fits, in words.
    fn range() -> String;

    /// What C is given in place of a number that it cannot have, where it looks at none.
    fn instead() -> Option<Self::C> {
        None
    }
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl Number for $type {
            type C = $type;
            fn range() -> String {
                format!("{} to {}", <$type>::MIN, <$type>::MAX)
            }
        }
    )* };
}

numbers!(usize, u64, u32, u16, i32, u8);

/// Numbers that name something, each with the code of a number that names nothing: one that C cannot have
/// names nothing either.
macro_rules! names {
    ($($(#[doc = $doc:expr])+ $name:ident = $code:expr;)*) => { $(
        $(#[doc = $doc])+
        pub struct $name;

        impl Number for $name {
            type C = i32;
            const CODE: i32 = $code;
            fn range() -> String {
                <i32 as Number>::range()
            }
        }
    )* };
}

names! {
    /// aclrtMemcpyKind and aclrtReduceKind: ACL_ERROR_INVALID_PARAM.
    Kind = 100000;
    /// aclDataType, for reductions: ACL_ERROR_RT_FEATURE_NOT_SUPPORT.
    DataType = 207000;
    /// A device: ACL_ERROR_RT_INVALID_DEVICEID.
    Device = 107001;
}

/// A kind that C ignores.
pub struct AnyKind;

impl Number for AnyKind {
    type C = i32;
    fn range() -> String {
        <i32 as Number>::range()
    }
    fn instead() -> Option<i32> {
        Some(-1)
    }
}

impl<'a, 'py, T: Number> FromPyObject<'a, 'py> for Int<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Int<T>> {
        let py = object.py();
        if object.is_instance_of::<PyInt>() {
            return fit(&object);
        }
        static INDEX: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let index = INDEX.import(py, "operator", "index")?;
        // What an object's `__index__` does is Python code.
        match exit::call(index, &(object,).into_pyobject(py)?) {
            Ok(number) => fit(&number),
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                Ok(Int::Wrong(error.value(py).to_string()))
            }
            Err(error) => Err(error),
        }
    }
}

/// A Python int as C's, or what to say of it.
fn fit<T: Number>(number: &Bound<'_, PyAny>) -> PyResult<Int<T>> {
    match number.extract::<T::C>() {
        Ok(value) => return Ok(Int::Fits(value)),
        Err(error) if error.is_instance_of::<PyOverflowError>(number.py()) => {}
        Err(error) => return Err(error),
    }
    let negative = number.lt(0)?;
    // Python does not write out numbers of thousands of digits.
    let too_long = if negative { "a very large negative number" } else { "a very large number" };
    let given = number.str().map_or_else(|_| too_long.into(), |text| text.to_string());
    Ok(Int::Outside { given, negative })
}

impl<T: Number> Int<T> {
    /// The number, or why the argument `name` cannot be given to C.
    pub fn get(self, name: &str) -> Result<T::C, Why> {
        match self {
            Int::Fits(value) => Ok(value),
            Int::Outside { given, .. } => T::instead().ok_or_else(|| {
                Why::Value(T::CODE, format!("{name} is {given}: it must be in {}", T::range()))
            }),
            Int::Wrong(words) => Err(Why::not_of_type(name, words)),
        }
    }
}

/// A Python str that is to become a C string.
pub enum Text {
    /// It does, unless there is a zero in it.
    Bytes(Vec<u8>),
    /// It has characters that no file name and no C string has; what Python says of them.
    Outside(String),
    /// It is no str; in words.
    Wrong(String),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Text> {
        let py = object.py();
        let Ok(text) = object.cast::<PyString>() else {
            return Ok(Text::Wrong(format!("'{}' object is not a str", type_name(&object))));
        };
        // What of a path is no UTF-8, Python keeps in a way that only this understands.
        let fsencode = py.import("os")?.getattr("fsencode")?;
        match exit::call(&fsencode, &(text,).into_pyobject(py)?) {
            Ok(bytes) => Ok(Text::Bytes(bytes.extract()?)),
            Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(py) => {
                Ok(Text::Outside(error.value(py).to_string()))
            }
            Err(error) => Err(error),
        }
    }
}

impl Text {
    /// The C string, or why the argument `name` cannot be one.
    pub fn get(self, name: &str) -> Result<CString, Why> {
        match self {
            Text::Bytes(bytes) => CString::new(bytes)
                .map_err(|error| Why::unfit(format!("{name} has a zero at {}", error.nul_position()))),
            Text::Outside(words) => Err(Why::unfit(format!("{name} cannot be a C string: {words}"))),
            Text::Wrong(words) => Err(Why::not_of_type(name, words)),
        }
    }
}

/// The argument `name` as a Python type, called `kind`.
pub fn cast<'a, 'py, T: PyTypeCheck>(
    object: &'a Bound<'py, PyAny>,
    name: &str,
    kind: &str,
) -> PyResult<&'a Bound<'py, T>> {
    object.cast().map_err(|_| {
        let words = format!("argument '{name}': '{}' object is not a {kind}", type_name(object));
        PyTypeError::new_err(words)
    })
}

/// The argument `name`, which is to be called.
pub fn callable<'a, 'py>(name: &str, object: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyAny>> {
    if object.is_callable() {
        return Ok(object);
    }
    let words = format!("argument '{name}': '{}' object is not callable", type_name(object));
    Err(PyTypeError::new_err(words))
}

/// The name of an object's type.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string())
}

/// The name of an argument, which Rust may have to write in another way.
pub fn plain(name: &str) -> &str {
    name.strip_prefix("r#").unwrap_or(name)
}

/// An argument as C has it, or code and words of why C cannot be given it.
pub type Given<T> = Result<T, (i32, String)>;

/// Raises for an argument of the wrong type; else it is the argument, or code and words of why it cannot be
/// given to C.
pub fn of_type<T>(given: Result<T, Why>) -> PyResult<Given<T>> {
    match given {
        Ok(value) => Ok(Ok(value)),
        Err(Why::Value(code, note)) => Ok(Err((code, note))),
        Err(Why::Type(error)) => Err(error),
    }
}

/// A list of numbers, or code and words of the first that cannot be given to C. A wrong type raises.
pub fn list_of<T: Number>(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Given<Vec<T::C>>> {
    let (mut numbers, mut outside) = (Vec::new(), None);
    for (index, one) in cast::<PyList>(object, name, "list")?.iter().enumerate() {
        match of_type(one.extract::<Int<T>>()?.get(&format!("{name}[{index}]")))? {
            Ok(value) => numbers.push(value),
            Err(refusal) => outside = outside.or(Some(refusal)),
        }
    }
    Ok(outside.map_or(Ok(numbers), Err))
}

/// Takes arguments as C has them, each under its own name. A wrong type raises, whatever the values of the
/// others; for a value that C cannot have, `$refused` makes what the function returns out of the code.
macro_rules! take {
    ($py:ident, $function:expr, [$($arg:ident),*], $refused:expr) => {
        $(let $arg = $crate::call::of_type($arg.get($crate::call::plain(stringify!($arg))))?;)*
        $(let $arg = match $arg {
            Ok(value) => value,
            Err((code, note)) => return Ok($refused($crate::call::refuse_as($py, $function, code, note))),
        };)*
    };
}
pub(crate) use take;

/// Functions that are one call of one C function:
/// `fn name(arguments) -> (outputs) = cName(arguments and outputs)`.
///
/// Each becomes a function of Python's that returns the code, or a tuple of the outputs and the code. Outputs
/// are 0 where the C function writes none.
macro_rules! functions {
    ($module:literal: $(
        $(#[doc = $doc:expr])+
        fn $name:ident($($arg:ident: $type:ty),*) $(-> ($($out:ident: $out_type:ty),+))?
            = $c:ident($($given:ident),*);
    )*) => {
        $(
            $crate::call::functions!{@one $module, [$($doc)+], $name, [$($arg: $type),*],
                [$($($out: $out_type),+)?], $c, [$($given),*]}
        )*

        /// Adds the functions of this list to a module.
        fn add_list_to(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
            use pyo3::types::PyModuleMethods;
            $(module.add_function(pyo3::wrap_pyfunction!($name, module)?)?;)*
            Ok(())
        }
    };
    (@one $module:literal, [$($doc:expr)+], $name:ident, [], $outs:tt, $c:ident, $given:tt) => {
        $crate::call::functions!{@body $module, [$($doc)+], (), $name, [], $outs, $c, $given}
    };
    (@one $module:literal, [$($doc:expr)+], $name:ident, [$($arg:ident: $type:ty),+], $outs:tt, $c:ident,
        $given:tt) => {
        $crate::call::functions!{@body $module, [$($doc)+], ($($arg),+, /), $name, [$($arg: $type),+], $outs,
            $c, $given}
    };
    (@body $module:literal, [$($doc:expr)+], $signature:tt, $name:ident, [$($arg:ident: $type:ty),*], [],
        $c:ident, [$($given:ident),*]) => {
        $(#[doc = $doc])+
        #[pyo3::pyfunction]
        #[pyo3(signature = $signature)]
        #[allow(clippy::too_many_arguments)]
        fn $name(py: pyo3::Python<'_>, $($arg: $crate::call::Int<$type>),*) -> pyo3::PyResult<i32> {
            $crate::call::take!(py, concat!($module, ".", stringify!($name)), [$($arg),*], |code| code);
            // SAFETY: the C function refuses what it cannot use; what is promised about memory, the caller
            // promises.
            $crate::call::enter(py, |library| unsafe { (library.functions.$c)($($given as _),*) })
        }
    };
    (@body $module:literal, [$($doc:expr)+], $signature:tt, $name:ident, [$($arg:ident: $type:ty),*],
        [$($out:ident: $out_type:ty),+], $c:ident, [$($given:ident),*]) => {
        $(#[doc = $doc])+
        #[pyo3::pyfunction]
        #[pyo3(signature = $signature)]
        #[allow(clippy::too_many_arguments)]
        fn $name(
            py: pyo3::Python<'_>,
            $($arg: $crate::call::Int<$type>),*
        ) -> pyo3::PyResult<($($out_type,)+ i32)> {
            $crate::call::take!(py, concat!($module, ".", stringify!($name)), [$($arg),*],
                |code| ($(<$out_type>::default(),)+ code));
            $crate::call::enter(py, |library| {
                $(let mut $out = <$out_type>::default();)+
                let code = {
                    $(let $out = &raw mut $out;)+
                    // SAFETY: outputs are writable; the C function refuses what it cannot use; what is
                    // promised about memory, the caller promises.
                    unsafe { (library.functions.$c)($($given as _),*) }
                };
                ($($out,)+ code)
            })
        }
    };
}
pub(crate) use functions;
