//! Why a frame has no name.

use serde::Serialize;

/// Why frames have no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The file is stripped.
    NoSymbols,
    /// The file has symbols, but none at these addresses.
    NotInTable,
    /// The file is not the file that ran.
    Replaced,
    /// The file no longer exists.
    Gone,
    /// The file was recorded on another machine, and the file here can't be verified.
    OtherMachine,
    /// The user may not read the file.
    NotAllowed,
    /// The file is malformed.
    Malformed,
    /// The kernel hides its addresses.
    KernelHidden,
    /// The code was recorded under another kernel.
    OtherKernel,
    /// The code is generated at run time, and there is no `/tmp/perf-PID.map`.
    NoMap,
    /// The owner of `/tmp/perf-PID.map` is not the user of the process.
    MapOfOthers,
    /// No code is mapped at the address: the program keeps no frame pointers, so its stack leads nowhere.
    NoFramePointers,
    /// The recording has no name for the frame.
    NotRecorded,
}

impl Why {
    /// The reason as text.
    pub fn words(self) -> &'static str {
        match self {
            Why::NoSymbols => "it is stripped",
            Why::NotInTable => "it has no symbols at these addresses",
            Why::Replaced => "it was replaced after the recording",
            Why::Gone => "it no longer exists",
            Why::OtherMachine => {
                "it ran on another machine, and without a build ID evenkeel cannot verify the file here"
            }
            Why::NotAllowed => "you may not read it",
            Why::Malformed => "it is not a readable ELF file",
            Why::KernelHidden => "the kernel hides its addresses",
            Why::OtherKernel => "it was recorded under another kernel",
            Why::NoMap => "it was generated at run time, and there is no /tmp/perf-PID.map",
            Why::MapOfOthers => "its /tmp/perf-PID.map belongs to another user",
            Why::NoFramePointers => {
                "some of its code keeps no frame pointers, so its stacks lead to addresses without code"
            }
            Why::NotRecorded => "the recording has no name for it",
        }
    }
}

/// Why a frame has no name, with details.
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
