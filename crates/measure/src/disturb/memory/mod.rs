//! `memory`: the pressure disturber takes memory up to a reserve that it always leaves.
//! The bandwidth disturber moves memory as fast as it can.

pub mod bandwidth;
pub mod pressure;

use evenkeel_hostfs::Root;

use crate::meters::memory::Room;

/// How much memory can be taken, in bytes, before the kernel reclaims heavily or kills a process.
/// The result is the smaller of two values: the memory that the kernel reports as available,
/// and the memory that the limits of our control groups leave. None if the kernel does not report it.
pub fn headroom(root: &Root) -> Option<u64> {
    Room::read(root).ok().map(|room| room.available_bytes)
}
