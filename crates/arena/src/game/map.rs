//! The map of the game: rooms, doors and cover on a grid. The same seed gives the same map on every machine.
//! The map also computes how far a body can move and how far a ray goes.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::game::math::Vector;
use crate::game::shape::{Ray, real};

/// Cells along each side.
pub const CELLS: i32 = 64;
/// Length of a cell's side, in millimetres.
pub const CELL_MM: i32 = 1_000;
/// Half the side of a player's square body, in millimetres.
pub const BODY_MM: i32 = 300;
/// The height of cover: above a crouching player's head, and below a standing player's eyes.
pub const COVER_MM: i32 = 1_300;
/// Height of walls, and of the ceiling.
pub const WALL_MM: i32 = 3_000;

/// The distance between walls, in cells.
const ROOM: i32 = 9;
/// One in this many open cells of a room becomes cover.
const SPARSITY: u32 = 14;

/// The content of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// An empty cell.
    Open,
    /// A box up to [`COVER_MM`].
    Cover,
    /// A wall up to the ceiling.
    Wall,
}

/// A cell by its column and row.
pub type Place = (i32, i32);

/// A square of cells. The outermost ring is wall, so nothing can leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GameMap {
    cells: Vec<Cell>,
    /// Open cells where players may appear. Each can be reached on foot from all others.
    open: Vec<Place>,
}

/// A point in millimetres from the south-west corner.
pub type Point = (i32, i32);

/// The place of a body, and how far it wants to go.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    /// The current centre of the body.
    pub from: Point,
    /// The wanted change: less than a cell along each axis.
    pub by: (i32, i32),
}

impl GameMap {
    /// Builds rooms from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut map = Self { cells: vec![Cell::Open; (CELLS * CELLS) as usize], open: Vec::new() };
        for line in (0..CELLS).step_by(ROOM as usize) {
            map.wall(line, &mut rng);
        }
        for y in 0..CELLS {
            for x in 0..CELLS {
                let rim = x == 0 || y == 0 || x == CELLS - 1 || y == CELLS - 1;
                let cover = rng.next_u32().is_multiple_of(SPARSITY);
                match map.cell((x, y)) {
                    _ if rim => map.set((x, y), Cell::Wall),
                    Cell::Open if cover => map.set((x, y), Cell::Cover),
                    _ => {}
                }
            }
        }
        map.open = map.largest_region();
        map
    }

    /// Builds a wall along one column and one row, with a door or a gap in each room's side.
    fn wall(&mut self, line: i32, rng: &mut ChaCha8Rng) {
        for side in (0..CELLS).step_by(ROOM as usize) {
            let (pick, door) = (rng.next_u32(), (rng.next_u32() % 5) as i32 + 1);
            for along in 0..ROOM.min(CELLS - side) {
                let is_door = along == door || along == door + 1;
                // Leave out every fourth side of a room, for halls and long views.
                let left_out = |turn: u32| pick.rotate_right(turn).is_multiple_of(4) && along != 0;
                if !is_door && !left_out(0) {
                    self.set((line, side + along), Cell::Wall);
                }
                if !is_door && !left_out(8) {
                    self.set((side + along, line), Cell::Wall);
                }
            }
        }
    }

    /// The largest set of open cells that are connected by their sides, in order.
    fn largest_region(&self) -> Vec<Place> {
        let mut region = vec![0_usize; self.cells.len()];
        let mut sizes = vec![0_usize];
        let mut stack = Vec::with_capacity(self.cells.len());
        for start in 0..self.cells.len() {
            if region[start] != 0 || self.cells[start] != Cell::Open {
                continue;
            }
            let number = sizes.len();
            sizes.push(0);
            stack.push(start);
            region[start] = number;
            while let Some(at) = stack.pop() {
                sizes[number] += 1;
                let (x, y) = (at as i32 % CELLS, at as i32 / CELLS);
                for next in [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)] {
                    let index = (next.1 * CELLS + next.0) as usize;
                    if self.cell(next) == Cell::Open && region[index] == 0 {
                        region[index] = number;
                        stack.push(index);
                    }
                }
            }
        }
        let largest = (1..sizes.len()).max_by_key(|number| (sizes[*number], usize::MAX - number)).unwrap_or(0);
        let places = (0..self.cells.len()).filter(|at| region[*at] == largest && largest > 0);
        places.map(|at| (at as i32 % CELLS, at as i32 / CELLS)).collect()
    }

    /// An open cell chosen by `pick`. All cells that this returns are connected.
    pub fn open_place(&self, pick: u32) -> Place {
        // A map has an open cell unless 3,844 draws all give cover.
        let index = pick as usize % self.open.len().max(1);
        self.open.get(index).copied().unwrap_or((CELLS / 2, CELLS / 2))
    }

    /// The content of the cell at this place. Outside the grid everything is wall.
    pub fn cell(&self, (x, y): Place) -> Cell {
        if !(0..CELLS).contains(&x) || !(0..CELLS).contains(&y) {
            return Cell::Wall;
        }
        self.cells[(y * CELLS + x) as usize]
    }

    fn set(&mut self, (x, y): Place, cell: Cell) {
        self.cells[(y * CELLS + x) as usize] = cell;
    }

    /// Whether a player can stand in this cell.
    pub fn is_open(&self, place: Place) -> bool {
        self.cell(place) == Cell::Open
    }

    /// The place where a body stops that moves by `step`: first along x, then along y, each until it touches a blocked cell.
    /// So a body that runs into a wall at an angle slides along it.
    pub fn slide(&self, step: Move) -> Point {
        let (x, y) = step.from;
        let x = slide_axis(x, step.by.0, |cell| span(y).any(|other| !self.is_open((cell, other))));
        let y = slide_axis(y, step.by.1, |cell| span(x).any(|other| !self.is_open((other, cell))));
        (x, y)
    }

    /// How far a ray goes before it meets a wall, cover, the floor or the ceiling, in millimetres.
    /// It walks the grid cell by cell (Amanatides and Woo, 1987). It uses only operations of IEEE 754, so every machine gets the same bits.
    pub fn reach_mm(&self, ray: &Ray) -> f64 {
        let unit = ray.unit();
        let height = real(ray.from)[2];
        let level = if unit[2] < 0.0 { 0.0 } else { f64::from(WALL_MM) };
        let most = if unit[2] == 0.0 { f64::INFINITY } else { ((level - height) / unit[2]).max(0.0) };
        let (mut x, mut y) = (Walk::new(ray.from.x, unit[0]), Walk::new(ray.from.y, unit[1]));
        let mut entered = 0.0;
        // The rim is closed, so a ray from inside crosses every column and every row at most once.
        for _ in 0..2 * CELLS {
            let left = x.next.min(y.next);
            match self.cell((x.cell, y.cell)) {
                Cell::Wall => break,
                Cell::Open => {}
                Cell::Cover => {
                    if height + unit[2] * entered < f64::from(COVER_MM) {
                        break;
                    }
                    if left.is_finite() && height + unit[2] * left < f64::from(COVER_MM) {
                        entered = (f64::from(COVER_MM) - height) / unit[2];
                        break;
                    }
                }
            }
            if left >= most {
                return most;
            }
            entered = left;
            let nearer = if x.next < y.next { &mut x } else { &mut y };
            nearer.cell += nearer.step;
            nearer.next += nearer.stride;
        }
        entered.min(most)
    }

    /// Whether nothing blocks the view between two places.
    pub fn sees(&self, from: Vector, to: Vector) -> bool {
        let way = Vector::new(to.x - from.x, to.y - from.y, to.z - from.z);
        let [x, y, z] = real(way);
        let length = (x * x + y * y + z * z).sqrt();
        length < 1.0 || self.reach_mm(&Ray { from, toward: way }) >= length
    }
}

/// The cells on one axis that a body with this centre occupies.
fn span(at: i32) -> std::ops::RangeInclusive<i32> {
    (at - BODY_MM).div_euclid(CELL_MM)..=(at + BODY_MM - 1).div_euclid(CELL_MM)
}

/// Moves `at` by `by`. If the cell that its leading edge enters is blocked, it moves only up to that cell's edge.
fn slide_axis(at: i32, by: i32, blocked: impl Fn(i32) -> bool) -> i32 {
    let to = at + by;
    let lead = to + by.signum() * BODY_MM;
    // The far edge belongs to the next cell only from the next millimetre on.
    let cell = if by > 0 { lead - 1 } else { lead }.div_euclid(CELL_MM);
    if by == 0 || !blocked(cell) {
        to
    } else if by > 0 {
        cell * CELL_MM - BODY_MM
    } else {
        (cell + 1) * CELL_MM + BODY_MM
    }
}

/// One axis of a ray's walk through the grid.
struct Walk {
    cell: i32,
    /// The direction of the next cell: -1, 0 or 1.
    step: i32,
    /// Where on the ray the next cell begins.
    next: f64,
    /// The length of ray per cell.
    stride: f64,
}

impl Walk {
    fn new(from: i32, direction: f64) -> Self {
        let cell = from.div_euclid(CELL_MM);
        if direction == 0.0 {
            return Self { cell, step: 0, next: f64::INFINITY, stride: 0.0 };
        }
        let step = if direction > 0.0 { 1 } else { -1 };
        let edge = if step > 0 { (cell + 1) * CELL_MM } else { cell * CELL_MM };
        let per_mm = 1.0 / direction.abs();
        Self { cell, step, next: f64::from((edge - from).abs()) * per_mm, stride: f64::from(CELL_MM) * per_mm }
    }
}

/// The middle of a cell.
pub fn centre((x, y): Place) -> Point {
    (x * CELL_MM + CELL_MM / 2, y * CELL_MM + CELL_MM / 2)
}

/// The cell of a point.
pub fn place_of((x_mm, y_mm): Point) -> Place {
    (x_mm.div_euclid(CELL_MM), y_mm.div_euclid(CELL_MM))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first open cell with a wall to its east and an open cell to its north.
    fn next_to_a_wall(map: &GameMap) -> (Point, i32) {
        let is = |place: &&Place| map.cell((place.0 + 1, place.1)) == Cell::Wall && map.is_open((place.0, place.1 + 1));
        let place = *map.open.iter().find(is).unwrap();
        (centre(place), place.0 + 1)
    }

    #[test]
    fn a_seed_gives_one_map_with_room_to_play() {
        assert_eq!(GameMap::new(1), GameMap::new(1));
        assert_ne!(GameMap::new(1), GameMap::new(2));
        for seed in 0..40 {
            let map = GameMap::new(seed);
            let count = |wanted| map.cells.iter().filter(|cell| **cell == wanted).count();
            assert!(count(Cell::Cover) > 100 && count(Cell::Wall) > 500, "seed {seed}");
            let share = map.open.len() as f64 / count(Cell::Open) as f64;
            assert!(map.open.len() > 1_800 && share > 0.9, "seed {seed}: {} open, {share}", map.open.len());
        }
    }

    #[test]
    fn a_body_stops_at_a_wall_and_slides_along_it() {
        let map = GameMap::new(1);
        let (from, wall) = next_to_a_wall(&map);
        let stop_x = wall * CELL_MM - BODY_MM;
        let hit = map.slide(Move { from, by: (600, 0) });
        assert_eq!(hit, (stop_x, from.1));
        let along = map.slide(Move { from: hit, by: (600, 150) });
        assert_eq!(along, (stop_x, from.1 + 150));
    }

    #[test]
    fn rays_end_at_walls_at_cover_and_at_the_floor() {
        let mut map = GameMap { cells: vec![Cell::Open; (CELLS * CELLS) as usize], open: Vec::new() };
        map.set((10, 5), Cell::Cover);
        map.set((20, 5), Cell::Wall);
        let reach = |z, toward: (i32, i32, i32)| {
            let ray = Ray { from: Vector::new(5_500, 5_500, z), toward: Vector::new(toward.0, toward.1, toward.2) };
            map.reach_mm(&ray).round()
        };
        for (z, toward, reached) in [
            (1_200, (1, 0, 0), 4_500.0),
            (1_500, (1, 0, 0), 14_500.0), // over the cover
            (1_500, (2, 0, 0), 14_500.0),
            (1_310, (1_000, 0, -2), 5_000.0), // onto the cover
            (1_500, (0, 0, -1), 1_500.0),
            (1_500, (0, 0, 1), 1_500.0),
            (1_000, (1, 0, -1), 1_414.0),
        ] {
            assert_eq!(reach(z, toward), reached, "{z} {toward:?}");
        }
        let (low, high) = (Vector::new(5_500, 5_500, 1_200), Vector::new(5_500, 5_500, 1_500));
        let beyond = |z| Vector::new(12_500, 5_500, z);
        assert!(!map.sees(low, beyond(1_200)) && map.sees(high, beyond(1_500)) && map.sees(low, low));
    }

    /// Whether a body with this centre overlaps nothing.
    fn free(map: &GameMap, (x, y): Point) -> bool {
        span(x).all(|cx| span(y).all(|cy| map.is_open((cx, cy))))
    }

    proptest! {
        #[test]
        fn no_walk_enters_a_wall(
            seed in 0u64..50,
            pick: u32,
            steps in prop::collection::vec((-600i32..=600, -600i32..=600), 1..100),
        ) {
            let map = GameMap::new(seed);
            let mut at = centre(map.open_place(pick));
            prop_assert!(free(&map, at));
            for by in steps {
                at = map.slide(Move { from: at, by });
                prop_assert!(free(&map, at), "{at:?}");
            }
        }

        #[test]
        fn a_ray_is_free_up_to_where_it_ends(seed in 0u64..50, pick: u32, z in 100..2_900, toward: (i8, i8, i8)) {
            prop_assume!(toward != (0, 0, 0));
            let map = GameMap::new(seed);
            let (x, y) = centre(map.open_place(pick));
            let toward = Vector::new(toward.0.into(), toward.1.into(), toward.2.into());
            let ray = Ray { from: Vector::new(x, y, z), toward };
            let (reached, unit) = (map.reach_mm(&ray), ray.unit());
            prop_assert!(reached < 100_000.0);
            for part in 0..80 {
                let at = reached * 0.999 * f64::from(part) / 80.0;
                let [x, y, z] = [0, 1, 2].map(|axis| real(ray.from)[axis] + unit[axis] * at);
                let filled_mm = match map.cell(place_of((x.floor() as i32, y.floor() as i32))) {
                    Cell::Open => 0,
                    Cell::Cover => COVER_MM,
                    Cell::Wall => WALL_MM,
                };
                prop_assert!(z >= f64::from(filled_mm) - 0.5 && z <= f64::from(WALL_MM) + 0.5, "{x} {y} {z}");
            }
        }
    }
}
