//! The one error of the workspace: a kind that a caller could act on, and a note for the person who reads it.

use std::{borrow::Cow, fmt, ops::Deref};

/// The result of everything in the engine that can fail.
///
/// ```
/// use ferry_core::{Kind, Result};
///
/// fn half(number: u32) -> Result<u32> {
///     if number % 2 == 0 { Ok(number / 2) } else { Err(Kind::BadShape.because(format!("{number} is odd"))) }
/// }
/// assert_eq!(half(8), Ok(4));
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as far as a caller could act on it.
///
/// ```
/// use ferry_core::{Error, Kind};
///
/// fn is_worth_another_try(error: &Error) -> bool {
///     matches!(error.kind, Kind::OutOfMemory | Kind::LimitReached | Kind::Timeout)
/// }
/// assert!(!is_worth_another_try(&Kind::NoDevice.because("device 7 of 2 devices")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The address belongs to nothing that may be copied from or to.
    BadAddress,
    /// The range starts inside an allocation and leaves it.
    OutOfBounds,
    /// Pitches, widths or sizes contradict each other or overflow.
    BadShape,
    /// The two ends cannot be joined by this copy.
    BadRoute,
    /// Addresses read while the work ran made no sense.
    BadDescriptor,
    /// There is not enough device or page-locked memory left.
    OutOfMemory,
    /// The product has no more of these.
    LimitReached,
    /// There is no such device.
    NoDevice,
    /// This backend cannot do it.
    Unsupported,
    /// The wait took longer than its limit.
    Timeout,
    /// The work was dropped before it ran.
    Aborted,
    /// A setting has a value that is not valid.
    BadSetting,
    /// The stream takes work into a graph at the moment, and not to run.
    Captured,
    /// Work broke the device for this process: it accessed memory that is not mapped, or never ended.
    Fault,
    /// Memory of the device failed.
    BadMemory,
    /// The device is gone for this process.
    Lost,
    /// The device, its driver or the operating system failed us.
    Device,
    /// A code of the API above, which a stream's status carries unchanged to the call that reports it.
    Native(i32),
}

/// A kind and a note, behind one pointer: results stay small where nothing fails.
///
/// ```
/// use ferry_core::Kind;
///
/// let error = Kind::OutOfBounds.because("3..11 is not a part of 10 elements");
/// assert_eq!(error.kind, Kind::OutOfBounds);
/// assert_eq!(error.to_string(), error.note);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Details>);

/// What an error says; reached through the error itself: `error.kind`, `error.note`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// What a caller can act on.
    pub kind: Kind,
    /// What a person reads. It names the pointer, the allocation, the expected and the given value.
    pub note: Cow<'static, str>,
}

impl Kind {
    /// An error of this kind with a note: `Kind::OutOfBounds.because(format!(..))`.
    #[cold]
    pub fn because(self, note: impl Into<Cow<'static, str>>) -> Error {
        Error(Box::new(Details { kind: self, note: note.into() }))
    }
}

impl Deref for Error {
    type Target = Details;
    fn deref(&self) -> &Details {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.note)
    }
}

impl std::error::Error for Error {}
