//! Why a frame has no name.

use serde::Serialize;

/// Why frames have no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The file has no names of its functions: it was stripped.
    NoSymbols,
    /// The file has names, and none for these places.
    NotInTable,
    /// The file is another one than the one that ran.
    Replaced,
    /// The file is not there any more.
    Gone,
    /// It was recorded on another machine, and nothing tells whether the file here is the same.
    OtherMachine,
    /// The file may not be read.
    NotAllowed,
    /// The file can't be what it says it is.
    Malformed,
    /// The kernel does not show its addresses.
    KernelHidden,
    /// Another kernel than this one ran.
    OtherKernel,
    /// Code of no file, and no `/tmp/perf-PID.map` that names it.
    NoMap,
    /// There is a `/tmp/perf-PID.map`, and it belongs to somebody else than the process.
    MapOfOthers,
    /// Nothing that could be run is mapped there: the program keeps no frame pointers, and its stack was followed into nothing.
    NoFramePointers,
    /// Who made the recording did not know the name.
    #[serde(rename = "not-told")]
    NotRecorded,
}

impl Why {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Why::NoSymbols => "it was stripped of the names of its functions",
            Why::NotInTable => "it has no names for these places",
            Why::Replaced => "it was replaced since the recording",
            Why::Gone => "it is not there any more",
            Why::OtherMachine => "it ran on another machine, and no build id tells whether the file here is the same",
            Why::NotAllowed => "it may not be read",
            Why::Malformed => "it is no ELF file that could be read",
            Why::KernelHidden => "the kernel does not show its addresses",
            Why::OtherKernel => "another kernel ran than the one that runs here now",
            Why::NoMap => "it was compiled at run time, and no perf map names it",
            Why::MapOfOthers => "its perf map belongs to somebody else",
            Why::NoFramePointers => {
                "no code is there: some of its code keeps no frame pointers, so that its stacks lead nowhere"
            }
            Why::NotRecorded => "the recording does not tell",
        }
    }
}

/// Why something has no name, and what was found instead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Reason {
    pub(super) why: Why,
    pub(super) detail: Option<String>,
}

impl From<Why> for Reason {
    fn from(why: Why) -> Reason {
        Reason { why, detail: None }
    }
}
