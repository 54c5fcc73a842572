//! Angles and vectors in whole numbers. The last bit of a library's sine differs between machines, and must not decide whether a shot hits.

/// The number that represents 1 in a sine or in a component of a direction.
pub const ONE: i32 = 1 << 14;

/// Steps of the table per quarter turn, each 16 angle units.
const STEPS: usize = 1024;
const SINES: [i16; STEPS + 1] = sines();

/// A place or a displacement in millimetres: x to the east, y to the north, z up. As a direction, in parts of [`ONE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vector {
    /// East.
    pub x: i32,
    /// North.
    pub y: i32,
    /// Up.
    pub z: i32,
}

impl Vector {
    /// A vector from its components.
    pub const fn new(x: i32, y: i32, z: i32) -> Self {
        Self { x, y, z }
    }

    /// The sum of two vectors.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::new(self.x + other.x, self.y + other.y, self.z + other.z)
    }

    /// The place at `part` of 256 of the way from here to `to`.
    #[must_use]
    pub fn toward(self, to: Self, part: u8) -> Self {
        let between = |from: i32, to: i32| from + (to - from) * i32::from(part) / 256;
        Self::new(between(self.x, to.x), between(self.y, to.y), between(self.z, to.z))
    }
}

/// The direction in which a player looks. 65,536 units are a full turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Measured from east, increasing towards north.
    pub yaw: u16,
    /// Upwards, limited to [`MAX_PITCH`] from level.
    pub pitch: i16,
}

/// The limit of the pitch: 79 degrees, so nobody looks straight up or down.
pub const MAX_PITCH: i16 = 14_400;

impl Look {
    /// The direction, in parts of [`ONE`].
    pub fn direction(self) -> Vector {
        let pitch = self.pitch as u16;
        let level = cos(pitch);
        Vector::new(scale(level, cos(self.yaw)), scale(level, sin(self.yaw)), sin(pitch))
    }
}

/// `value` times a part of [`ONE`], rounded.
pub fn scale(value: i32, part: i32) -> i32 {
    // 2^31 millimetres times 2^14 needs more than 32 bits.
    ((i64::from(value) * i64::from(part) + i64::from(ONE / 2)) >> 14) as i32
}

/// The sine of an angle, in parts of [`ONE`], within 1.
pub fn sin(angle: u16) -> i32 {
    let within = i32::from(angle & 0x3fff);
    match angle >> 14 {
        0 => quarter(within),
        1 => quarter(ONE - within),
        2 => -quarter(within),
        _ => -quarter(ONE - within),
    }
}

/// The cosine of an angle, in parts of [`ONE`], within 1.
pub fn cos(angle: u16) -> i32 {
    sin(angle.wrapping_add(0x4000))
}

/// The angle of the direction (x, y): 0 is east. 0 for (0, 0).
pub fn heading(x: i32, y: i32) -> u16 {
    let (across, along) = (i64::from(x).abs(), i64::from(y).abs());
    if across == 0 && along == 0 {
        return 0;
    }
    // Finds the largest angle in the first quarter that does not exceed the direction's.
    let (mut low, mut high) = (0_u16, 0x4000_u16);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let is_beyond = i64::from(sin(middle)) * across > i64::from(cos(middle)) * along;
        (low, high) = if is_beyond { (low, middle - 1) } else { (middle, high) };
    }
    match (x < 0, y < 0) {
        (false, false) => low,
        (true, false) => 0x8000 - low,
        (true, true) => 0x8000 + low,
        (false, true) => 0_u16.wrapping_sub(low),
    }
}

/// The whole part of the square root.
pub fn root(value: i64) -> i32 {
    value.max(0).isqrt() as i32
}

/// The sine up to a quarter turn, linear between the steps of the table.
fn quarter(within: i32) -> i32 {
    let (step, part) = ((within / 16) as usize, within % 16);
    let low = i32::from(SINES[step.min(STEPS)]);
    let high = i32::from(SINES[(step + 1).min(STEPS)]);
    low + (high - low) * part / 16
}

/// Computed at compile time by Taylor's series. The error is far below a part of [`ONE`].
const fn sines() -> [i16; STEPS + 1] {
    let mut table = [0; STEPS + 1];
    let mut step = 0;
    while step <= STEPS {
        let angle = step as f64 * std::f64::consts::FRAC_PI_2 / STEPS as f64;
        let (mut sum, mut term, mut n) = (0.0, angle, 1.0);
        while n < 20.0 {
            sum += term;
            term = -term * angle * angle / ((n + 1.0) * (n + 2.0));
            n += 2.0;
        }
        table[step] = (sum * ONE as f64 + 0.5) as i16;
        step += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sines_are_within_one_of_the_truth() {
        for angle in 0..=u16::MAX {
            let turn = f64::from(angle) / 65_536.0 * std::f64::consts::TAU;
            assert!((f64::from(sin(angle)) - turn.sin() * f64::from(ONE)).abs() <= 1.5, "{angle}");
            assert!((f64::from(cos(angle)) - turn.cos() * f64::from(ONE)).abs() <= 1.5, "{angle}");
        }
    }

    #[test]
    fn a_heading_points_the_way() {
        for (x, y, angle) in [(1, 0, 0), (0, 1, 0x4000), (-1, 0, 0x8000), (0, -1, 0xc000), (0, 0, 0)] {
            assert_eq!(heading(x, y), angle, "{x} {y}");
        }
        for angle in (0..=u16::MAX).step_by(37) {
            let turned = heading(cos(angle) * 4, sin(angle) * 4).wrapping_sub(angle) as i16;
            assert!(turned.abs() <= 12, "{angle}: {turned}");
        }
    }

    #[test]
    fn a_direction_is_as_long_as_one() {
        for (yaw, pitch) in [(0, 0), (9_000, 5_000), (40_000, -14_000), (65_535, 14_400)] {
            let Vector { x, y, z } = Look { yaw, pitch }.direction();
            let length = (f64::from(x).powi(2) + f64::from(y).powi(2) + f64::from(z).powi(2)).sqrt();
            assert!((length - f64::from(ONE)).abs() < 3.0, "{yaw} {pitch}: {length}");
            assert_eq!(z > 0, pitch > 0);
        }
    }
}
