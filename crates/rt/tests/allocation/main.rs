//! Nothing is allocated after the start: an allocation can take a lock, or fault a page in, in the middle of a tick. A program of its own, since
//! its allocator counts what every thread allocates.

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
