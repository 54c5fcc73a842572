//! Nothing is allocated after the start: an allocation can take a lock, or cause a page fault, in the middle of a tick.
//! This is a separate program, because its allocator counts the allocations of every thread.

mod counted;
mod jobs;
mod ticks;
mod udp;

#[test]
fn the_counter_counts() {
    let _alone = counted::alone();
    let change = counted::count(|| drop(std::hint::black_box(vec![0_u8; 100])));
    assert_eq!(change.allocations, 1);
}
