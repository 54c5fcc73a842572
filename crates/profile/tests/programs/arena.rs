//! Rust names: a method of a trait, and a generic function.

pub mod arena {
    pub trait Step {
        fn step(&mut self) -> u64;
    }

    pub struct World(pub u64);

    impl Step for World {
        #[inline(never)]
        fn step(&mut self) -> u64 {
            self.0 = std::hint::black_box(self.0.wrapping_mul(31));
            self.0
        }
    }

    #[inline(never)]
    pub fn run<T: Step>(world: &mut T) -> u64 {
        std::hint::black_box(world.step()) + 1
    }
}

fn main() {
    println!("{}", arena::run(&mut arena::World(7)));
}
