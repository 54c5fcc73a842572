//! Rays, and the capsules that they may hit.
//! The code uses only the four operations and the root of IEEE 754, always in the same order, so that every machine gets the same bits.

use crate::game::math::Vector;

/// A half-line.
#[derive(Debug, Clone, Copy)]
pub struct Ray {
    /// Where the ray starts.
    pub from: Vector,
    /// The ray's direction, with any length but 0.
    pub toward: Vector,
}

/// All points within a radius of the line between two points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capsule {
    /// One end of the line.
    pub a: Vector,
    /// The other end.
    pub b: Vector,
    /// The radius, in millimetres.
    pub radius_mm: i32,
}

/// A vector of real numbers.
pub(crate) type Real = [f64; 3];

pub(crate) fn real(v: Vector) -> Real {
    [f64::from(v.x), f64::from(v.y), f64::from(v.z)]
}

fn dot(a: Real, b: Real) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn minus(a: Real, b: Real) -> Real {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

impl Ray {
    /// The ray's direction with the length 1.
    pub(crate) fn unit(&self) -> Real {
        let toward = real(self.toward);
        let length = dot(toward, toward).sqrt();
        toward.map(|part| part / length)
    }
}

impl Capsule {
    /// The capsule at `part`/256 of the way to its later place.
    #[must_use]
    pub fn toward(&self, later: &Self, part: u8) -> Self {
        Self { a: self.a.toward(later.a, part), b: self.b.toward(later.b, part), radius_mm: self.radius_mm }
    }

    /// How far along the ray, in millimetres, it first hits the capsule. 0 if it starts inside.
    pub fn hit_mm(&self, ray: &Ray) -> Option<f64> {
        let (from, unit) = (real(ray.from), ray.unit());
        let (a, b) = (real(self.a), real(self.b));
        let radius = f64::from(self.radius_mm);
        let (line, offset) = (minus(b, a), minus(from, a));
        let (length2, offset_along) = (dot(line, line), dot(line, offset));
        let nearest = if length2 > 0.0 { (offset_along / length2).clamp(0.0, 1.0) } else { 0.0 };
        let away = minus(offset, line.map(|part| part * nearest));
        if dot(away, away) <= radius * radius {
            return Some(0.0);
        }
        let side = side_mm(line, offset, unit, radius);
        // If the ray hits the endless tube beyond an end of the line, it can only hit the ball at an end.
        let ends = [a, b].map(|end| ball_mm(minus(from, end), unit, radius));
        [side, ends[0], ends[1]].into_iter().flatten().reduce(f64::min)
    }
}

/// Where a ray enters the tube around a line, if that is between the line's ends.
fn side_mm(line: Real, offset: Real, unit: Real, radius: f64) -> Option<f64> {
    let (length2, along, offset_along) = (dot(line, line), dot(line, unit), dot(line, offset));
    let a = length2 - along * along;
    // A ray along the line itself hits a ball at an end first.
    if a <= length2 * 1e-9 {
        return None;
    }
    let b = length2 * dot(offset, unit) - offset_along * along;
    let c = length2 * dot(offset, offset) - offset_along * offset_along - radius * radius * length2;
    let h = b * b - a * c;
    if h < 0.0 {
        return None;
    }
    let at = (-b - h.sqrt()) / a;
    let where_on_line = offset_along + at * along;
    (at >= 0.0 && where_on_line >= 0.0 && where_on_line <= length2).then_some(at)
}

/// Where a ray enters a ball around the origin.
fn ball_mm(from: Real, unit: Real, radius: f64) -> Option<f64> {
    let b = dot(from, unit);
    let h = b * b - (dot(from, from) - radius * radius);
    let at = -b - h.max(0.0).sqrt();
    (h >= 0.0 && at >= 0.0).then_some(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn capsule() -> Capsule {
        Capsule { a: Vector::new(0, 0, 0), b: Vector::new(0, 0, 1_000), radius_mm: 200 }
    }

    #[test]
    fn a_ray_meets_a_capsule() {
        let at = |from: (i32, i32, i32), toward: (i32, i32, i32)| {
            let ray =
                Ray { from: Vector::new(from.0, from.1, from.2), toward: Vector::new(toward.0, toward.1, toward.2) };
            capsule().hit_mm(&ray).map(f64::round)
        };
        for (from, toward, hit) in [
            ((-1_000, 0, 500), (1, 0, 0), Some(800.0)),
            ((-1_000, 0, 500), (16_384, 0, 0), Some(800.0)),
            ((-1_000, 0, 500), (-1, 0, 0), None),
            ((-1_000, 199, 500), (1, 0, 0), Some(980.0)),
            ((-1_000, 201, 500), (1, 0, 0), None),
            ((-1_000, 0, 1_100), (1, 0, 0), Some(827.0)), // the ball on top
            ((-1_000, 0, 1_201), (1, 0, 0), None),
            ((0, 0, 3_000), (0, 0, -1), Some(1_800.0)), // along the line
            ((0, 0, 500), (1, 0, 0), Some(0.0)),        // from within
            ((100, 0, 3_000), (0, 0, -1), Some(1_827.0)),
        ] {
            assert_eq!(at(from, toward), hit, "{from:?} {toward:?}");
        }
        let point = Capsule { b: capsule().a, ..capsule() };
        let ray = Ray { from: Vector::new(-1_000, 0, 0), toward: Vector::new(1, 0, 0) };
        assert_eq!(point.hit_mm(&ray), Some(800.0), "a line without length is a ball");
    }

    /// The distance of a point from the capsule's line.
    fn away(capsule: &Capsule, point: Real) -> f64 {
        let (a, b) = (real(capsule.a), real(capsule.b));
        let (line, offset) = (minus(b, a), minus(point, a));
        let length2 = dot(line, line);
        let nearest = if length2 > 0.0 { (dot(line, offset) / length2).clamp(0.0, 1.0) } else { 0.0 };
        let gap = minus(offset, line.map(|part| part * nearest));
        dot(gap, gap).sqrt()
    }

    prop_compose! {
        fn place()(x in -3_000..3_000, y in -3_000..3_000, z in -3_000..3_000) -> Vector { Vector::new(x, y, z) }
    }

    proptest! {
        #[test]
        fn a_hit_is_the_first_point_that_is_near_enough(from in place(), to in place(), a in place(), b in place(), radius_mm in 1..800) {
            prop_assume!(from != to);
            let toward = Vector::new(to.x - from.x, to.y - from.y, to.z - from.z);
            let (ray, capsule) = (Ray { from, toward }, Capsule { a, b, radius_mm });
            let unit = ray.unit();
            let point = |at: f64| [0, 1, 2].map(|axis| real(from)[axis] + unit[axis] * at);
            let radius = f64::from(radius_mm);
            let hit = capsule.hit_mm(&ray);
            // No sampled point before the hit is inside the capsule. Without a hit, no sampled point is inside it.
            for step in 0..400 {
                let at = f64::from(step) * 25.0;
                if hit.is_none_or(|hit| at < hit - 0.5) {
                    prop_assert!(away(&capsule, point(at)) > radius - 0.5, "inside at {at}, hit {hit:?}");
                }
            }
            if let Some(at) = hit {
                prop_assert!(away(&capsule, point(at)) <= radius + 0.5);
            }
        }
    }
}
