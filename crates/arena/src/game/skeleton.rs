//! Hit boxes as a skeleton moves them.
//! A pose consists of a few small numbers, and the hit boxes follow from it, starting at the hips, in whole numbers and without drawing.
//! The joints of arms and legs are where two bones of given lengths meet.

use crate::game::math::{Look, Vector, cos, root, scale, sin};
use crate::game::shape::Capsule;

/// The number of capsules of a body.
pub const BONES: usize = 11;
/// The largest `stance`; the smallest is 0.
pub const MAX_STANCE: u8 = 15;
/// No part of a body is further than this from its middle, in millimetres.
pub const REACH_MM: i32 = 1_150;

const HIP_MM: i32 = 920;
const STANCE_MM: i32 = 24;
const LEG_BONE_MM: i32 = 445;
const ARM_BONE_MM: i32 = 280;
const ANKLE_MM: i32 = 60;
const SPINE_MM: i32 = 470;

/// The place of a bone in a skeleton's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bone(pub u8);

impl Bone {
    /// The head.
    pub const HEAD: Self = Self(0);
    /// Upper body.
    pub const CHEST: Self = Self(1);
    /// Lower body.
    pub const HIPS: Self = Self(2);

    /// How many of a player's 100 health points a hit here costs.
    pub fn damage(self) -> u8 {
        match self {
            Self::HEAD => 100,
            Self::CHEST | Self::HIPS => 34,
            _ => 20,
        }
    }
}

/// The values that determine the places of all body parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pose {
    /// The body's place along x, in millimetres.
    pub x_mm: i32,
    /// The body's place along y, in millimetres.
    pub y_mm: i32,
    /// The direction in which the player looks and aims.
    pub look: Look,
    /// The progress of the current step of both legs; 65,536 is a full cycle.
    pub gait: u16,
    /// How far the legs swing: from 0 (standing) to 255 (full speed).
    pub stride: u8,
    /// The stance, from 0 (upright) to [`MAX_STANCE`] (crouched).
    pub stance: u8,
}

/// A place relative to the body: forward, to the left, up.
type Local = Vector;

impl Pose {
    /// The place of the player's eyes, from which the gun points too.
    pub fn eye(&self) -> Vector {
        self.place(self.head())
    }

    /// The middle of the body, from which [`REACH_MM`] is measured.
    pub fn middle(&self) -> Vector {
        Vector::new(self.x_mm, self.y_mm, self.hip_mm() + 50)
    }

    /// The hit boxes, [`Bone::HEAD`] first.
    pub fn bones(&self) -> [Capsule; BONES] {
        let (hips, neck, head) = (self.hips(), self.neck(), self.head());
        let [left_leg, right_leg] = [self.leg(1), self.leg(-1)];
        let [left_arm, right_arm] = [self.arm(1), self.arm(-1)];
        let lines = [
            (head, head, 115),
            (hips.toward(neck, 128), neck.plus(Local::new(0, 0, -120)), 175),
            (hips.plus(Local::new(0, -70, 0)), hips.plus(Local::new(0, 70, 0)), 150),
            (left_leg[0], left_leg[1], 85),
            (left_leg[1], left_leg[2], 65),
            (right_leg[0], right_leg[1], 85),
            (right_leg[1], right_leg[2], 65),
            (left_arm[0], left_arm[1], 55),
            (left_arm[1], left_arm[2], 45),
            (right_arm[0], right_arm[1], 55),
            (right_arm[1], right_arm[2], 45),
        ];
        let (cos, sin) = (cos(self.look.yaw), sin(self.look.yaw));
        lines.map(|(a, b, radius_mm)| Capsule { a: self.turned(a, cos, sin), b: self.turned(b, cos, sin), radius_mm })
    }

    fn hip_mm(&self) -> i32 {
        HIP_MM - STANCE_MM * i32::from(self.stance.min(MAX_STANCE))
    }

    fn hips(&self) -> Local {
        Local::new(0, 0, self.hip_mm())
    }

    /// Crouched players lean forward, and all lean slightly in the direction where they look.
    fn neck(&self) -> Local {
        let lean = 9 * i32::from(self.stance.min(MAX_STANCE)) - i32::from(self.look.pitch) / 200;
        self.hips().plus(Local::new(lean, 0, root(i64::from(SPINE_MM).pow(2) - i64::from(lean).pow(2))))
    }

    fn head(&self) -> Local {
        self.neck().plus(Local::new(40, 0, 130))
    }

    /// Hip, knee and ankle of the left (1) or right (-1) leg. The two legs are half a turn of the gait apart.
    fn leg(&self, side: i32) -> [Local; 3] {
        let phase = if side > 0 { self.gait } else { self.gait.wrapping_add(0x8000) };
        let stride = i32::from(self.stride);
        let forward = scale(stride, sin(phase));
        let lifted = scale(stride / 2, cos(phase)).max(0);
        let hip = self.hips().plus(Local::new(0, 90 * side, -40));
        let ankle = Local::new(forward, 110 * side, ANKLE_MM + lifted);
        [hip, bend(hip, ankle, LEG_BONE_MM, 1), ankle]
    }

    /// Shoulder, elbow and hand: both hold the gun, in front of the chest and along the aim.
    fn arm(&self, side: i32) -> [Local; 3] {
        let aim = self.look.pitch as u16;
        let shoulder = self.neck().plus(Local::new(0, 190 * side, -70));
        let ahead = if side > 0 { 420 } else { 260 };
        let grip = Local::new(scale(ahead, cos(aim)), -40 - 20 * side, scale(ahead, sin(aim)) - 130);
        let hand = self.neck().plus(grip);
        [shoulder, bend(shoulder, hand, ARM_BONE_MM, -1), hand]
    }

    fn place(&self, local: Local) -> Vector {
        self.turned(local, cos(self.look.yaw), sin(self.look.yaw))
    }

    fn turned(&self, local: Local, cos: i32, sin: i32) -> Vector {
        let east = scale(local.x, cos) - scale(local.y, sin);
        let north = scale(local.x, sin) + scale(local.y, cos);
        Vector::new(self.x_mm + east, self.y_mm + north, local.z)
    }
}

/// The joint between two bones of equal length from `from` to `to`, bent forward (1) or down and back (-1).
/// If the end is too far away for the bones, the limb is straight.
fn bend(from: Local, to: Local, bone_mm: i32, way: i32) -> Local {
    let (dx, dz) = (i64::from(to.x - from.x), i64::from(to.z - from.z));
    let dy = i64::from(to.y - from.y);
    let apart2 = dx * dx + dy * dy + dz * dz;
    let out = root(i64::from(bone_mm).pow(2) - apart2 / 4);
    let middle = from.toward(to, 128);
    // At a right angle to the limb, in the plane of forward and up.
    let length = i64::from(root(dx * dx + dz * dz)).max(1);
    let (x, z) = (-dz * i64::from(out) / length, dx * i64::from(out) / length);
    middle.plus(Local::new(x as i32 * way, 0, z as i32 * way))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::game::shape::Ray;

    fn apart_mm(a: Vector, b: Vector) -> i32 {
        let square = |d: i32| i64::from(d).pow(2);
        root(square(a.x - b.x) + square(a.y - b.y) + square(a.z - b.z))
    }

    #[test]
    fn a_crouching_body_is_lower_and_ducks_under_a_shot() {
        let standing = Pose { x_mm: 10_000, y_mm: 10_000, ..Pose::default() };
        let crouched = Pose { stance: MAX_STANCE, ..standing };
        assert_eq!((standing.eye().z, crouched.eye().z), (1_520, 1_140));
        let level = Ray { from: Vector::new(0, 10_000, 1_480), toward: Vector::new(1, 0, 0) };
        let meets = |pose: &Pose| pose.bones().iter().any(|bone| bone.hit_mm(&level).is_some());
        assert!(meets(&standing) && !meets(&crouched));
    }

    #[test]
    fn legs_swing_against_each_other() {
        let shins = |gait| {
            let bones = Pose { stride: 255, gait, ..Pose::default() }.bones();
            (bones[4].b.x, bones[6].b.x)
        };
        assert_eq!(shins(0x4000), (255, -255));
        assert_eq!(shins(0xc000), (-255, 255));
    }

    prop_compose! {
        fn pose()(yaw: u16, pitch in -14_400_i16..=14_400, gait: u16, stride: u8, stance in 0..=MAX_STANCE) -> Pose {
            Pose { x_mm: 30_000, y_mm: 30_000, look: Look { yaw, pitch }, gait, stride, stance }
        }
    }

    proptest! {
        #[test]
        fn a_body_holds_together(pose in pose()) {
            let bones = pose.bones();
            for bone in bones {
                for end in [bone.a, bone.b] {
                    prop_assert!(apart_mm(end, pose.middle()) + bone.radius_mm <= REACH_MM, "{bone:?}");
                }
                prop_assert!(bone.a.z.min(bone.b.z) - bone.radius_mm >= -40, "below the floor: {bone:?}");
            }
            for limb in [3, 5, 7, 9] {
                prop_assert_eq!(bones[limb].b, bones[limb + 1].a, "a joint is one place");
            }
            for (limb, bone_mm) in [(3, LEG_BONE_MM), (4, LEG_BONE_MM), (5, LEG_BONE_MM), (6, LEG_BONE_MM)] {
                let length = apart_mm(bones[limb].a, bones[limb].b);
                prop_assert!((length - bone_mm).abs() <= 30, "bone {limb} is {length} mm");
            }
        }

        #[test]
        fn turning_the_body_turns_its_bones(pose in pose()) {
            let east = Pose { look: Look { yaw: 0, ..pose.look }, ..pose };
            for (turned, straight) in pose.bones().iter().zip(east.bones()) {
                prop_assert!((apart_mm(turned.a, pose.middle()) - apart_mm(straight.a, east.middle())).abs() <= 2);
                prop_assert_eq!(turned.a.z, straight.a.z);
            }
        }
    }
}
