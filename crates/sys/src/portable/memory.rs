//! Locked memory, and pages that other processes read. Only Linux has them, so each call here is refused.

/// Memory that stays resident. A program cannot request it on this system.
pub mod resident {
    use crate::Errno;

    /// Which pages of the process stay in memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Lock {
        /// All current mappings.
        Present,
        /// Current and future mappings.
        PresentAndFuture,
        /// Current mappings, each page from its first touch on.
        PresentOnFault,
        /// Current and future mappings, each page from its first touch on.
        PresentAndFutureOnFault,
    }

    /// Locks nothing.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn lock(_: Lock) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// No limit is known.
    pub fn lock_limit_bytes() -> Option<u64> {
        None
    }

    /// Not known.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn locked_kib() -> Result<u64, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Loads nothing.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn populate(_: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Loads nothing.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn populate_capacity<T>(_: &mut Vec<T>) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Not known.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn stack_left_bytes() -> Result<usize, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Sets nothing.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn keep_freed_memory() -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// A count of pages read back from swap. This system has no such count.
    #[derive(Debug)]
    pub enum SwapIns {}

    impl SwapIns {
        /// There is no such count.
        ///
        /// # Errors
        /// Always `EOPNOTSUPP`.
        pub fn open() -> Result<SwapIns, Errno> {
            Err(Errno::OPNOTSUPP)
        }

        /// The count.
        ///
        /// # Errors
        /// None.
        pub fn pages(&self) -> Result<u64, Errno> {
            match *self {}
        }
    }
}

/// The kernel's counts of a thread. This system has no such counts.
pub(crate) mod usage {
    use crate::Errno;

    /// Counts since the thread began.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Usage {
        /// Page faults without disk access.
        pub minor_faults: u64,
        /// Page faults that waited for a disk.
        pub major_faults: u64,
    }

    impl Usage {
        /// Not known.
        ///
        /// # Errors
        /// Always `EOPNOTSUPP`.
        pub fn of_this_thread() -> Result<Usage, Errno> {
            Err(Errno::OPNOTSUPP)
        }

        /// The increase since `before`.
        pub fn since(&self, before: &Usage) -> Usage {
            Usage {
                minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
                major_faults: self.major_faults.saturating_sub(before.major_faults),
            }
        }
    }
}

/// Pages of memory that other processes read. A program cannot make them on this system.
pub mod shared_page {
    use std::fs::File;
    use std::io;
    use std::path::Path;
    use std::sync::atomic::AtomicU64;

    use crate::Errno;

    /// The maximum size of a page, in bytes.
    pub const PAGE_BYTES_MAX: usize = 1 << 16;

    /// Who else may read the file.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Access {
        /// Only the file's owner.
        #[default]
        Owner,
        /// The file's group too.
        Group,
        /// All users.
        Everyone,
    }

    /// A page. No value of this type exists on this system.
    #[derive(Debug)]
    pub enum SharedPage {}

    impl SharedPage {
        /// Makes none.
        ///
        /// # Errors
        /// Always `EOPNOTSUPP`.
        pub fn create(_: &Path, _: usize, _: Access) -> Result<SharedPage, Errno> {
            Err(Errno::OPNOTSUPP)
        }

        /// The words.
        pub fn words(&self) -> &[AtomicU64] {
            match *self {}
        }

        /// Where the file is.
        pub fn path(&self) -> &Path {
            match *self {}
        }
    }

    /// Opens none.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn open(_: &Path) -> Result<File, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Not known.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn is_locked(_: &File) -> Result<bool, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Not known.
    ///
    /// # Errors
    /// Always `EOPNOTSUPP`.
    pub fn user_of(_: &File) -> Result<u32, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// The owner of a file is never known here.
    pub fn own_user() -> Option<u32> {
        None
    }

    /// Reads nothing.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
