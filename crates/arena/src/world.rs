//! The ground the game is played on: a grid of boxes, the same for the same seed on every machine, with the two questions
//! the game asks of it: how far may this body move, how far does this ray go.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Cells along each side.
pub const CELLS: i32 = 64;
/// Length of a cell's side, in millimetres.
pub const CELL_MM: i32 = 1_000;
/// Half the side of a player's square body, in millimetres.
pub const BODY_MM: i32 = 300;

/// One cell in this many is a box.
const SPARSITY: u32 = 8;

/// A square of cells, each open or filled by a box. The outermost ring is filled, so nothing leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    boxes: Vec<bool>,
    /// Centres of the open cells, where players may appear.
    open: Vec<(i32, i32)>,
}

/// A point in millimetres from the south-west corner.
pub type Point = (i32, i32);

/// Where a body is and how far it wants to go.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    /// Centre of the body now.
    pub from: Point,
    /// Wanted change; less than a cell along each axis.
    pub by: (i32, i32),
}

/// A half-line.
#[derive(Debug, Clone, Copy)]
pub struct Ray {
    /// Where it starts.
    pub from: Point,
    /// Where to; any length but (0, 0).
    pub direction: (i32, i32),
}

impl World {
    /// Scatters boxes by `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut world = Self { boxes: Vec::with_capacity((CELLS * CELLS) as usize), open: Vec::new() };
        for y in 0..CELLS {
            for x in 0..CELLS {
                let rim = x == 0 || y == 0 || x == CELLS - 1 || y == CELLS - 1;
                let filled = rng.next_u32().is_multiple_of(SPARSITY) || rim;
                world.boxes.push(filled);
                if !filled {
                    world.open.push((centre(x), centre(y)));
                }
            }
        }
        world
    }

    /// An open place picked by `pick`.
    pub fn spawn_place(&self, pick: u32) -> Point {
        // A world without a single open cell would take 3,844 draws that all say box.
        let fallback = (centre(CELLS / 2), centre(CELLS / 2));
        let index = pick as usize % self.open.len().max(1);
        self.open.get(index).copied().unwrap_or(fallback)
    }

    /// Whether the cell at these cell coordinates is a box; outside the grid all is.
    pub fn is_box(&self, x: i32, y: i32) -> bool {
        if !(0..CELLS).contains(&x) || !(0..CELLS).contains(&y) {
            return true;
        }
        self.boxes[(y * CELLS + x) as usize]
    }

    /// Where a body ends that tries `step`: along x first, then along y, each until it touches a box. So a body that runs
    /// into a wall at an angle slides along it.
    pub fn slide(&self, step: Move) -> Point {
        let (x, y) = step.from;
        let x = self.slide_axis(x, step.by.0, |cell| self.blocked(cell, (y, y), true));
        let y = self.slide_axis(y, step.by.1, |cell| self.blocked(cell, (x, x), false));
        (x, y)
    }

    /// Moves `at` by `by` unless the cell its leading edge enters is blocked; then up to that cell's edge.
    fn slide_axis(&self, at: i32, by: i32, blocked: impl Fn(i32) -> bool) -> i32 {
        let to = at + by;
        let lead = to + by.signum() * BODY_MM;
        // The far edge belongs to the next cell only from the millimetre after it.
        let cell = if by > 0 { lead - 1 } else { lead }.div_euclid(CELL_MM);
        if by == 0 || !blocked(cell) {
            to
        } else if by > 0 {
            cell * CELL_MM - BODY_MM
        } else {
            (cell + 1) * CELL_MM + BODY_MM
        }
    }

    /// Whether a body that spans `across` on the other axis meets a box in this row or column of cells.
    fn blocked(&self, cell: i32, across: (i32, i32), cell_is_x: bool) -> bool {
        let first = (across.0 - BODY_MM).div_euclid(CELL_MM);
        let last = (across.1 + BODY_MM - 1).div_euclid(CELL_MM);
        (first..=last).any(|other| match cell_is_x {
            true => self.is_box(cell, other),
            false => self.is_box(other, cell),
        })
    }

    /// How far a ray goes before it meets a box, in units of its direction's length: walks the grid cell by cell
    /// (Amanatides and Woo, 1987). Only the four IEEE operations, so every machine gets the same bits.
    pub fn cast(&self, ray: Ray) -> f64 {
        let mut x = Walk::new(ray.from.0, ray.direction.0);
        let mut y = Walk::new(ray.from.1, ray.direction.1);
        let mut reached = 0.0;
        // The rim is closed: a ray from inside crosses at most every column and every row once.
        for _ in 0..2 * CELLS {
            if self.is_box(x.cell, y.cell) {
                break;
            }
            let nearer = if x.next < y.next { &mut x } else { &mut y };
            reached = nearer.next;
            nearer.cell += nearer.step;
            nearer.next += nearer.stride;
        }
        reached
    }
}

/// One axis of a ray's walk through the grid.
struct Walk {
    cell: i32,
    /// Which way the next cell lies: -1, 0 or 1.
    step: i32,
    /// Where on the ray the next cell begins.
    next: f64,
    /// How much ray a cell takes.
    stride: f64,
}

impl Walk {
    fn new(from: i32, direction: i32) -> Self {
        let cell = from.div_euclid(CELL_MM);
        let edge = match direction.signum() {
            1 => (cell + 1) * CELL_MM,
            _ => cell * CELL_MM,
        };
        let per_mm = 1.0 / f64::from(direction.abs());
        let infinite = direction == 0;
        Self {
            cell,
            step: direction.signum(),
            next: if infinite { f64::INFINITY } else { f64::from((edge - from).abs()) * per_mm },
            stride: if infinite { 0.0 } else { f64::from(CELL_MM) * per_mm },
        }
    }
}

fn centre(cell: i32) -> i32 {
    cell * CELL_MM + CELL_MM / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first open cell with a box to its east, and the box's cell.
    fn beside_a_box(world: &World) -> (Point, i32) {
        let place = world
            .open
            .iter()
            .find(|(x, y)| world.is_box(x / CELL_MM + 1, y / CELL_MM) && !world.is_box(x / CELL_MM, y / CELL_MM + 1));
        let (x, y) = *place.unwrap();
        ((x, y), x / CELL_MM + 1)
    }

    #[test]
    fn a_seed_gives_one_world() {
        assert_eq!(World::new(1), World::new(1));
        assert_ne!(World::new(1), World::new(2));
        let open = World::new(1).open.len();
        assert!((3_000..3_700).contains(&open), "{open} of 3,844 cells open");
    }

    #[test]
    fn a_body_stops_at_a_box_and_slides_along_it() {
        let world = World::new(1);
        let (from, wall) = beside_a_box(&world);
        let stop_x = wall * CELL_MM - BODY_MM;
        let hit = world.slide(Move { from, by: (600, 0) });
        assert_eq!(hit, (stop_x, from.1));
        let along = world.slide(Move { from: hit, by: (600, 150) });
        assert_eq!(along, (stop_x, from.1 + 150));
    }

    #[test]
    fn a_ray_ends_at_the_box_it_meets() {
        let world = World::new(1);
        let (from, wall) = beside_a_box(&world);
        let reached = world.cast(Ray { from, direction: (1, 0) });
        assert_eq!(reached, f64::from(wall * CELL_MM - from.0));
        let half = world.cast(Ray { from, direction: (2, 0) });
        assert_eq!(half, reached / 2.0);
    }

    /// Whether a body centred here overlaps no box.
    fn free(world: &World, (x, y): Point) -> bool {
        let cells = |at: i32| (at - BODY_MM).div_euclid(CELL_MM)..=(at + BODY_MM - 1).div_euclid(CELL_MM);
        cells(x).all(|cx| cells(y).all(|cy| !world.is_box(cx, cy)))
    }

    proptest! {
        #[test]
        fn no_walk_enters_a_box(
            seed in 0u64..50,
            pick: u32,
            steps in prop::collection::vec((-600i32..=600, -600i32..=600), 1..100),
        ) {
            let world = World::new(seed);
            let mut at = world.spawn_place(pick);
            prop_assert!(free(&world, at));
            for by in steps {
                at = world.slide(Move { from: at, by });
                prop_assert!(free(&world, at), "{at:?}");
            }
        }

        #[test]
        fn a_ray_is_free_up_to_where_it_ends(seed in 0u64..50, pick: u32, direction: (i8, i8)) {
            prop_assume!(direction != (0, 0));
            let world = World::new(seed);
            let from = world.spawn_place(pick);
            let (dx, dy) = (i32::from(direction.0), i32::from(direction.1));
            let reached = world.cast(Ray { from, direction: (dx, dy) });
            let cell_at = |t: f64| {
                let at = |from: i32, d: i32| ((f64::from(from) + t * f64::from(d)) / f64::from(CELL_MM)).floor() as i32;
                (at(from.0, dx), at(from.1, dy))
            };
            for part in 0..50 {
                let (x, y) = cell_at(reached * 0.999 * f64::from(part) / 50.0);
                prop_assert!(!world.is_box(x, y));
            }
        }
    }
}
