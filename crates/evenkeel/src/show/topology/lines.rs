//! Routes the lines of the picture from a queue up to the CPU that serves the queue's interrupt.
//! The lines run in the gaps between cores, so they cross no caption.
//! If another row of cores is in the way, a line runs around all cores, in the margin.

/// All lengths are in pixels of the picture.
pub(super) const MARGIN: usize = 16;
pub(super) const LINE: usize = 18;
pub(super) const CELL_WIDTH: usize = 48;
pub(super) const CELL_HEIGHT: usize = 34;
pub(super) const GAP: usize = 4;
pub(super) const QUEUE_WIDTH: usize = 116;

/// The position of a CPU's cell. It has only the values that a line needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) x: usize,
    pub(super) y: usize,
    /// The index of the CPU in its core. Lines to several CPUs of a core run in parallel.
    pub(super) thread: usize,
    /// The lower end of the row that contains the CPU. The next row begins below it.
    pub(super) floor: usize,
}

/// An area that no line may cross.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Area {
    /// Whether the area touches the vertical line from `top` to `bottom` at `x`.
    fn meets(&self, x: usize, top: usize, bottom: usize) -> bool {
        (self.x..self.x + self.width).contains(&x) && self.y < bottom && top < self.y + self.height
    }
}

/// The box of a queue, and the vertical position of the first row of the device's queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) first_row: usize,
}

impl Queue {
    /// The beginning of the line's path, and the horizontal position at which the line leaves the queues of the device.
    fn begin(self) -> (String, usize) {
        if self.y == self.first_row {
            let middle = self.x + QUEUE_WIDTH / 2;
            return (format!("M{middle} {}", self.y), middle);
        }
        // The line runs up between the boxes of the rows above.
        let (side, gap) = (self.x + QUEUE_WIDTH, self.x + QUEUE_WIDTH + GAP / 2);
        (format!("M{side} {} H{gap} V{}", self.y + LINE, self.first_row), gap)
    }
}

/// The path from a queue to `cell`. `end` is the lower end of all cores.
/// `is_below` means that the queues of another device are in between. `number` separates lines that run in the margin.
pub(super) fn path(queue: Queue, cell: Cell, taken: &[Area], end: usize, is_below: bool, number: usize) -> String {
    let (begin, from_x) = queue.begin();
    let (from_y, side, middle) = (queue.first_row, cell.x + CELL_WIDTH, cell.y + CELL_HEIGHT / 2);
    // The line runs between the frames of two cores.
    let gap = side + GAP + 1 + cell.thread % 2 * 2;
    if !is_below && !taken.iter().any(|area| area.meets(gap, middle, end)) {
        return format!("{begin} {} V{middle} H{side}", curve((from_x, from_y), (gap, end)));
    }
    let margin = MARGIN - 3 - number % 4 * 3;
    let top = if is_below { from_y.saturating_sub(10 * GAP) } else { end };
    format!("{begin} {} V{} H{gap} V{middle} H{side}", curve((from_x, from_y), (margin, top)), cell.floor)
}

/// A curve that begins and ends vertically.
fn curve((from_x, from_y): (usize, usize), (to_x, to_y): (usize, usize)) -> String {
    let bend = from_y.saturating_sub(to_y) / 2;
    format!("C{from_x} {} {to_x} {} {to_x} {to_y}", from_y - bend, to_y + bend)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: Cell = Cell { x: 100, y: 100, thread: 0, floor: 190 };

    fn queue(y: usize) -> Queue {
        Queue { x: 0, y, first_row: y }
    }

    #[test]
    fn a_line_goes_through_the_gap_beside_its_core() {
        // These areas are the frames of the line's own core and of the next core.
        let cores = [96, 156].map(|x| Area { x, y: 96, width: 56, height: 80 });
        assert_eq!(path(queue(300), CELL, &cores, 200, false, 0), "M58 300 C58 250 153 250 153 200 V117 H148");
        let other = Cell { thread: 1, ..CELL };
        assert_eq!(path(queue(300), other, &cores, 200, false, 0), "M58 300 C58 250 155 250 155 200 V117 H148");
    }

    #[test]
    fn a_line_goes_round_what_is_in_its_way() {
        let below = [Area { x: 140, y: 220, width: 56, height: 80 }];
        let round = path(queue(400), CELL, &below, 310, false, 1);
        assert_eq!(round, "M58 400 C58 355 10 355 10 310 V190 H153 V117 H148");
        assert_eq!(path(queue(500), CELL, &[], 310, true, 0), "M58 500 C58 480 13 480 13 460 V190 H153 V117 H148");
        let second_row = Queue { y: 344, ..queue(300) };
        let between = path(second_row, CELL, &[], 200, false, 0);
        assert_eq!(between, "M116 362 H118 V300 C118 250 153 250 153 200 V117 H148");
    }
}
