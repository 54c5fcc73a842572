//! Which players the server shows to each player: its team, players near enough to be heard, and players in its line of sight.
//! Each of these players stays shown for some time.
//! No client receives players behind walls, so a cheating client cannot show them.

use crate::game::map::GameMap;
use crate::game::math::{Look, Vector};
use crate::game::player::{Body, Slot};
use crate::game::skeleton::Pose;
use crate::worker_group::WorkerGroup;

/// Beyond this distance an opponent is shown only in the line of sight, in millimetres.
const HEARD_MM: i64 = 12_000;
/// How long an opponent stays shown after it was last visible.
const KEEP_MS: u32 = 500;
/// How often the line of sight of each pair is checked in a second.
const LOOKS_HZ: u32 = 12;

/// One player as shown to another; as exact as a snapshot carries it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entity {
    /// The player's number.
    pub player: u8,
    /// The distance from the west wall, in millimetres.
    pub x_mm: u16,
    /// The distance from the south wall, in millimetres.
    pub y_mm: u16,
    /// The direction in which the player looks, in 4,096ths of a turn.
    pub yaw: u16,
    /// How far up the player looks, in 256ths of a turn: -64 to 63.
    pub pitch: i8,
    /// The same as [`Pose::gait`], in 256ths.
    pub gait: u8,
    /// The same as [`Pose::stride`], in 16ths.
    pub stride: u8,
    /// The same as [`Pose::stance`].
    pub stance: u8,
    /// The health, 0 to 100; 0 while the player waits to return.
    pub health: u8,
    /// Whether the player fired during this tick.
    pub shooting: bool,
}

impl Entity {
    /// The player in `slot`.
    pub fn from_body(slot: Slot, body: &Body) -> Self {
        let Pose { x_mm, y_mm, look, gait, stride, stance } = body.pose;
        Self {
            player: slot.0 as u8,
            // The map is 64 m wide, so a position always fits; the clamp only satisfies the type.
            x_mm: x_mm.clamp(0, i32::from(u16::MAX)) as u16,
            y_mm: y_mm.clamp(0, i32::from(u16::MAX)) as u16,
            yaw: look.yaw >> 4,
            pitch: (look.pitch >> 8) as i8,
            gait: (gait >> 8) as u8,
            stride: stride >> 4,
            stance,
            health: body.health,
            shooting: body.shot.is_some(),
        }
    }

    /// False while the player waits to return.
    pub fn alive(&self) -> bool {
        self.health > 0
    }

    /// The pose that a client shows.
    pub fn pose(&self) -> Pose {
        Pose {
            x_mm: self.x_mm.into(),
            y_mm: self.y_mm.into(),
            look: Look { yaw: self.yaw << 4, pitch: i16::from(self.pitch) << 8 },
            gait: u16::from(self.gait) << 8,
            stride: self.stride << 4,
            stance: self.stance,
        }
    }
}

/// Players join two teams alternately.
pub fn team(player: usize) -> usize {
    player % 2
}

/// Which players are shown to which viewers.
#[derive(Debug, Clone)]
pub struct Visibility {
    /// For each viewer and each player the last tick at which it is shown.
    rows: Vec<Vec<u32>>,
    /// Viewers are checked in this many groups, one group per tick.
    groups: u32,
    keep_ticks: u32,
}

impl Visibility {
    /// Visibility for this many players. No player is shown to another yet.
    pub fn new(slots: usize, tick_hz: u32) -> Self {
        let groups = (tick_hz / LOOKS_HZ).max(1);
        Self { rows: vec![vec![0; slots]; slots], groups, keep_ticks: tick_hz * KEEP_MS / 1_000 + groups }
    }

    /// Checks the lines of sight of this tick's group of viewers.
    pub fn look(&mut self, group: &mut WorkerGroup, tick: u32, map: &GameMap, bodies: &[Option<Body>]) {
        let (groups, keep) = (self.groups, self.keep_ticks);
        group.each_mut(&mut self.rows, |viewer, row| {
            let Some(Some(own)) = bodies.get(viewer) else {
                return row.fill(0);
            };
            if !(tick.wrapping_add(viewer as u32)).is_multiple_of(groups) && row.iter().any(|until| *until > 0) {
                return;
            }
            let eye = own.pose.eye();
            for (other, until) in row.iter_mut().enumerate() {
                match bodies.get(other) {
                    Some(Some(body)) if is_shown(map, (viewer, eye), (other, body)) => {
                        *until = tick.wrapping_add(keep).max(1);
                    }
                    Some(Some(_)) => {}
                    _ => *until = 0,
                }
            }
        });
    }

    /// Whether `viewer` is shown `other` at `tick`. All players are shown themselves.
    pub fn is_shown(&self, viewer: Slot, other: Slot, tick: u32) -> bool {
        let until = self.rows.get(viewer.0).and_then(|row| row.get(other.0)).copied().unwrap_or(0);
        viewer == other || (until > 0 && until.wrapping_sub(tick) < u32::MAX / 2)
    }
}

fn is_shown(map: &GameMap, (viewer, eye): (usize, Vector), (other, body): (usize, &Body)) -> bool {
    if team(viewer) == team(other) {
        return true;
    }
    let head = body.pose.eye();
    let square = |d: i32| i64::from(d).pow(2);
    if square(head.x - eye.x) + square(head.y - eye.y) <= HEARD_MM.pow(2) {
        return true;
    }
    map.sees(eye, head) || map.sees(eye, Vector { z: head.z - 400, ..head })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::game::map::centre;

    fn standing(pose: Pose) -> Option<Body> {
        Some(Body { pose, health: 100, life: 1, ..Body::default() })
    }

    #[test]
    fn opponents_are_shown_while_near_or_visible_and_for_a_while_after() {
        let map = GameMap::new(5);
        let eye_at = |pick| {
            let (x_mm, y_mm) = centre(map.open_place(pick));
            Pose { x_mm, y_mm, ..Pose::default() }
        };
        let viewer = eye_at(0);
        let far = |pose: &Pose| (pose.x_mm - viewer.x_mm).abs() > 13_000;
        let all = || (0..2_000).map(eye_at);
        let hidden = all().find(|pose| far(pose) && !map.sees(viewer.eye(), pose.eye())).unwrap();
        let seen = all().find(|pose| far(pose) && map.sees(viewer.eye(), pose.eye())).unwrap();
        let mut visibility = Visibility::new(3, 50);
        let mut tick = 100;
        let mut shown = |opponent: Pose| {
            // Slot 2 belongs to the viewer's team.
            let bodies = [standing(viewer), standing(opponent), standing(hidden)];
            for _ in 0..4 {
                tick += 1;
                visibility.look(&mut WorkerGroup::default(), tick, &map, &bodies);
            }
            [0, 1, 2].map(|other| visibility.is_shown(Slot(0), Slot(other), tick))
        };
        assert_eq!(shown(hidden), [true, false, true]);
        assert_eq!(shown(seen), [true, true, true]);
        assert_eq!(shown(hidden), [true, true, true], "just hidden");
        for _ in 0..8 {
            shown(hidden);
        }
        assert_eq!(shown(hidden), [true, false, true]);
        assert_eq!(shown(Pose { x_mm: viewer.x_mm + 2_000, ..viewer }), [true, true, true], "heard");
    }

    #[test]
    fn a_client_shows_players_at_their_positions() {
        let pose = Pose {
            x_mm: 12_345,
            y_mm: 54_321,
            look: Look { yaw: 0xabcd, pitch: -7_000 },
            gait: 0x1234,
            stride: 200,
            stance: 9,
        };
        let shown = Entity::from_body(Slot(3), &Body { pose, ..Body::default() }).pose();
        for (there, here) in pose.bones().iter().zip(shown.bones()) {
            let off = there.a.x.abs_diff(here.a.x).max(there.a.y.abs_diff(here.a.y)).max(there.a.z.abs_diff(here.a.z));
            assert!(off <= 20, "{off} mm");
        }
    }
}
