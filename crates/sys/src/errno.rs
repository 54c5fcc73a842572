//! Error numbers by their names. A capture stores `EACCES`, not 13, so that it reads the same on every architecture.

use std::fmt;

/// An error number, as `errno(3)` names it. The numbers are those of Linux, even on other systems.
///
/// ```
/// use evenkeel_sys::Errno;
///
/// let errno = Errno::ACCESS;
/// assert_eq!(errno.to_string(), "permission denied (EACCES)");
/// assert_eq!((errno.raw(), errno.meaning(), errno.is_denial()), (13, "permission denied", true));
/// assert_eq!(Errno::parse("EACCES"), Some(errno));
/// assert!(Errno::from_raw(2).is_absence());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(i32);

macro_rules! errnos {
    ($($name:ident = $number:literal, $meaning:literal;)*) => {
        impl Errno {
            $(#[doc = $meaning] pub const $name: Errno = Errno($number);)*
        }
        const NAMES: &[(Errno, &str, &str)] = &[$((Errno::$name, concat!("E", stringify!($name)), $meaning)),*];
        /// Checks that the numbers are those of this kernel.
        #[cfg(target_os = "linux")]
        const _: () = { $(assert!($number == rustix::io::Errno::$name.raw_os_error());)* };
    };
}

errnos! {
    PERM = 1, "operation not permitted";
    NOENT = 2, "no such file or directory";
    SRCH = 3, "no such process";
    INTR = 4, "interrupted system call";
    IO = 5, "input/output error";
    NXIO = 6, "no such device or address";
    BADF = 9, "bad file descriptor";
    AGAIN = 11, "resource temporarily unavailable";
    NOMEM = 12, "out of memory";
    ACCESS = 13, "permission denied";
    BUSY = 16, "device or resource busy";
    EXIST = 17, "file exists";
    XDEV = 18, "invalid cross-device link";
    NODEV = 19, "no such device";
    NOTDIR = 20, "not a directory";
    ISDIR = 21, "is a directory";
    INVAL = 22, "invalid argument";
    MFILE = 24, "too many open files";
    NOTTY = 25, "inappropriate ioctl for device";
    FBIG = 27, "file too large";
    NOSPC = 28, "no space left on device";
    ROFS = 30, "read-only file system";
    RANGE = 34, "numerical result out of range";
    DEADLK = 35, "resource deadlock avoided";
    NAMETOOLONG = 36, "file name too long";
    NOSYS = 38, "function not implemented";
    LOOP = 40, "too many levels of symbolic links";
    NODATA = 61, "no data available";
    OVERFLOW = 75, "value too large for defined data type";
    OPNOTSUPP = 95, "operation not supported";
    PROTO = 71, "protocol error";
    NETUNREACH = 101, "network is unreachable";
    TIMEDOUT = 110, "connection timed out";
    CONNREFUSED = 111, "connection refused";
    HOSTUNREACH = 113, "no route to host";
    STALE = 116, "stale file handle";
    MSGSIZE = 90, "message too long";
    NOPROTOOPT = 92, "protocol not available";
    AFNOSUPPORT = 97, "address family not supported by protocol";
    ADDRINUSE = 98, "address already in use";
    ADDRNOTAVAIL = 99, "cannot assign requested address";
    NOBUFS = 105, "no buffer space available";
    NOTEMPTY = 39, "directory not empty";
    ILSEQ = 84, "invalid or incomplete multibyte character";
}

/// The kernel and rustix spell the name of this error differently. Captures use the kernel's spelling.
const EACCES: &str = "EACCES";

impl Errno {
    /// The number as the system call returned it.
    pub fn from_raw(raw: i32) -> Errno {
        Errno(raw)
    }

    /// The number, for messages and JSON.
    pub fn raw(self) -> i32 {
        self.0
    }

    /// Reads `EACCES` or `E524`, as [`fmt::Debug`] writes it.
    pub fn parse(name: &str) -> Option<Errno> {
        if name == EACCES {
            return Some(Errno::ACCESS);
        }
        if let Some((errno, ..)) = NAMES.iter().find(|(_, known, _)| *known == name) {
            return Some(*errno);
        }
        let digits = name.strip_prefix('E')?;
        let raw = digits.parse::<i32>().ok()?;
        (1..=4095).contains(&raw).then_some(Errno(raw))
    }

    /// The meaning in lower case, for the end of a sentence, such as `permission denied`.
    pub fn meaning(self) -> &'static str {
        NAMES.iter().find(|(errno, ..)| *errno == self).map_or("unnamed error", |(_, _, meaning)| meaning)
    }

    /// Whether this user lacks permission. False if the object is missing.
    pub fn is_denial(self) -> bool {
        self == Errno::PERM || self == Errno::ACCESS
    }

    /// Whether the object is missing, or its driver does not support it.
    pub fn is_absence(self) -> bool {
        [Errno::NOENT, Errno::SRCH, Errno::NODEV, Errno::NXIO, Errno::NOTDIR, Errno::OPNOTSUPP].contains(&self)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(errno, ..)| errno == self) {
            Some((Errno::ACCESS, ..)) => f.write_str(EACCES),
            Some((_, name, _)) => f.write_str(name),
            None => write!(f, "E{}", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({self:?})", self.meaning())
    }
}

impl std::error::Error for Errno {}

#[cfg(target_os = "linux")]
impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        Errno(errno.raw_os_error())
    }
}

impl From<&std::io::Error> for Errno {
    fn from(error: &std::io::Error) -> Errno {
        use std::io::ErrorKind;
        // Other systems have different numbers.
        let raw = error.raw_os_error().filter(|_| crate::IS_LINUX);
        // An error without a number has two sources. Some code adds a path to the kernel's error and keeps only its kind.
        // Or std itself checked the arguments (a NUL in a path), where the kernel would have returned EINVAL.
        raw.map_or_else(
            || match error.kind() {
                ErrorKind::NotFound => Errno::NOENT,
                ErrorKind::PermissionDenied => Errno::ACCESS,
                ErrorKind::AlreadyExists => Errno::EXIST,
                ErrorKind::NotADirectory => Errno::NOTDIR,
                ErrorKind::IsADirectory => Errno::ISDIR,
                ErrorKind::StorageFull => Errno::NOSPC,
                ErrorKind::ReadOnlyFilesystem => Errno::ROFS,
                ErrorKind::Unsupported => Errno::OPNOTSUPP,
                ErrorKind::TimedOut => Errno::TIMEDOUT,
                ErrorKind::ConnectionRefused => Errno::CONNREFUSED,
                _ => Errno::INVAL,
            },
            Errno,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip() {
        for raw in 1..600 {
            let errno = Errno::from_raw(raw);
            assert_eq!(Errno::parse(&format!("{errno:?}")), Some(errno), "{errno:?}");
        }
    }

    #[test]
    fn an_error_that_was_given_a_path_keeps_its_meaning() {
        use std::io::{Error, ErrorKind};
        let folder = tempfile::tempdir().unwrap();
        let wrapped = tempfile::NamedTempFile::new_in(folder.path().join("gone")).unwrap_err();
        assert_eq!(wrapped.raw_os_error(), None, "the error must wrap another error");
        let table = [
            (wrapped, Errno::NOENT),
            (Error::from_raw_os_error(13), Errno::ACCESS),
            (Error::new(ErrorKind::StorageFull, "in words"), Errno::NOSPC),
            (Error::from(ErrorKind::PermissionDenied), Errno::ACCESS),
            (Error::from(ErrorKind::InvalidInput), Errno::INVAL),
        ];
        for (error, expected) in table {
            assert_eq!(Errno::from(&error), expected, "{error}");
        }
    }

    #[test]
    fn spelling_is_the_kernels() {
        assert_eq!(format!("{:?}", Errno::from_raw(13)), "EACCES");
        assert_eq!(format!("{}", Errno::from_raw(13)), "permission denied (EACCES)");
        assert_eq!(format!("{:?}", Errno::from_raw(524)), "E524");
        for bad in ["", "E", "ENOTHING", "E0", "E-5", "E99999999999", "enoent"] {
            assert_eq!(Errno::parse(bad), None, "{bad}");
        }
    }
}
