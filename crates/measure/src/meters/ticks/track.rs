//! `follow`: goes from tick to tick through a thread's activity. It searches near the time when the next tick is due.
//! If nothing begins there, it searches later for a late tick.
//! If the thread was already awake, the tick is hidden in the thread's activity.

/// An activity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beat {
    /// When the activity began, in nanoseconds.
    pub at_ns: u64,
    /// When the activity ended, in nanoseconds.
    pub until_ns: u64,
    /// The amount of work: nanoseconds on a CPU, or bytes.
    pub weight: f64,
}

/// A period, and a time near a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// The period, in nanoseconds.
    pub period_ns: f64,
    /// The time near a tick, in nanoseconds.
    pub at_ns: f64,
}

/// How far from its due time a tick may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// The allowed deviation to both sides, in nanoseconds.
    pub ns: f64,
}

impl Gate {
    /// The widest useful gate.
    pub fn widest(period_ns: f64) -> Gate {
        Gate { ns: 0.15 * period_ns }
    }

    /// The gate for ticks with this spread (median absolute deviation).
    pub fn new(period_ns: f64, spread_ns: f64) -> Gate {
        let widest = Gate::widest(period_ns).ns;
        Gate { ns: (6.0 * spread_ns + 30_000.0).clamp(0.01 * period_ns, widest) }
    }
}

/// How far a tick's deviation shifts the expected times of later ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// The expected times of later ticks move by 3 % of the deviation, because the period is known.
    Little,
    /// The expected times of later ticks move by 10 % of the deviation, because the period is almost known.
    Some,
    /// The expected times of later ticks move by 30 % of the deviation, because the period is roughly known.
    Much,
    /// The expected times of later ticks move by the whole deviation, because each tick is due one period after the previous tick.
    Whole,
}

impl Pull {
    fn share(self) -> f64 {
        match self {
            Pull::Little => 0.03,
            Pull::Some => 0.1,
            Pull::Much => 0.3,
            Pull::Whole => 1.0,
        }
    }
}

/// The result at a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The beat with this index, near its time.
    InTime(usize),
    /// A beat later than its time.
    Late(usize),
    /// The thread was already awake, in this beat.
    Hidden(usize),
    /// No beat at or after the due time.
    Missed,
}

/// A due time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// The slot's number, from 0.
    pub number: u64,
    /// When the tick was expected, in nanoseconds.
    pub expected_ns: f64,
    /// The deviation from `expected_ns`. Valid if a tick was found in time.
    off_ns: f64,
    /// What was found at the due time.
    pub found: Found,
}

impl Slot {
    /// The beat that came in time. None if no beat did.
    pub fn at_its_time(&self) -> Option<usize> {
        if let Found::InTime(beat) = self.found { Some(beat) } else { None }
    }

    /// The tick's beat, in time or late. None without a beat.
    pub fn beat(&self) -> Option<usize> {
        match self.found {
            Found::InTime(beat) | Found::Late(beat) => Some(beat),
            Found::Hidden(_) | Found::Missed => None,
        }
    }

    /// The deviation of a tick in time, in nanoseconds.
    pub fn off_ns(&self) -> Option<f64> {
        self.at_its_time().map(|_| self.off_ns)
    }
}

/// All slots from the first beat to the last.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// How far a tick's deviation shifted the expected times of later ticks.
    pub pull: Pull,
    /// The slots, in order of time.
    pub slots: Vec<Slot>,
}

impl Followed {
    /// If no tick was found in time, takes a beat very near the due time even if the beat did little work. Some ticks have nothing to do.
    pub fn take_light(&mut self, beats: &[Beat], gate: Gate) {
        let mut taken: Option<usize> = None;
        for slot in &mut self.slots {
            if matches!(slot.found, Found::Late(_) | Found::Missed) {
                let near = beats.partition_point(|beat| (beat.at_ns as f64) < slot.expected_ns - gate.ns / 2.0);
                let off_ns = beats.get(near).map(|beat| beat.at_ns as f64 - slot.expected_ns);
                if let Some(off_ns) =
                    off_ns.filter(|off_ns| *off_ns <= gate.ns / 2.0 && taken.is_none_or(|taken| taken < near))
                {
                    (slot.found, slot.off_ns) = (Found::InTime(near), off_ns);
                }
            }
            taken = slot.beat().or(taken);
        }
    }

    /// The number of ticks in time.
    pub fn at_their_time(&self) -> usize {
        self.slots.iter().filter(|slot| slot.at_its_time().is_some()).count()
    }
}

/// The maximum number of slots to follow: twenty minutes at 500 per second.
const SLOTS_MAX: u64 = 600_000;

/// In a chain of ticks, a beat that follows a tick by less than this share of the period is not a tick.
const EARLIEST_SHARE: f64 = 0.5;

/// Follows a period through `beats`, which are in order of time. Beats lighter than `light` are not ticks.
pub fn follow(beats: &[Beat], light: f64, start: Start, gate: Gate, pull: Pull) -> Followed {
    let mut followed = Followed { pull, slots: Vec::new() };
    let (Some(first), Some(last)) = (beats.first(), beats.last()) else { return followed };
    let period_ns = start.period_ns;
    if !(period_ns.is_finite() && period_ns >= 1.0 && start.at_ns.is_finite()) {
        return followed;
    }
    // The first due time within the beats.
    let mut expected_ns = start.at_ns + ((first.at_ns as f64 - gate.ns - start.at_ns) / period_ns).ceil() * period_ns;
    let (mut number, mut near) = (0, 0);
    let mut last_ns = f64::NEG_INFINITY;
    while expected_ns - gate.ns <= last.at_ns as f64 && number < SLOTS_MAX {
        while near < beats.len() && (beats[near].at_ns as f64) < expected_ns - gate.ns {
            near += 1;
        }
        let mut found = look(beats, light, near, expected_ns, period_ns, gate);
        // In a chain, an early tick moves all later ticks, as a late tick does.
        if pull == Pull::Whole && matches!(found, Found::Hidden(_) | Found::Missed | Found::Late(_)) {
            let early = beats[..near].iter().rposition(|beat| beat.weight >= light);
            let is_next = |beat: &usize| beats[*beat].at_ns as f64 >= last_ns + EARLIEST_SHARE * period_ns;
            found = early.filter(is_next).map_or(found, Found::Late);
        }
        let mut off_ns = 0.0;
        if let Found::InTime(beat) = found {
            off_ns = beats[beat].at_ns as f64 - expected_ns;
        }
        followed.slots.push(Slot { number, expected_ns, off_ns, found });
        let moved_ns = match (found, pull) {
            // A server that counts from its last tick continues from a late tick.
            (Found::Late(beat), Pull::Whole) => beats[beat].at_ns as f64 - expected_ns,
            _ => off_ns * pull.share(),
        };
        if let Found::InTime(beat) | Found::Late(beat) = found {
            last_ns = beats[beat].at_ns as f64;
        }
        expected_ns += period_ns + moved_ns;
        number += 1;
    }
    followed
}

/// The result at `expected_ns`. `near` is the index of the first possible beat.
fn look(beats: &[Beat], light: f64, near: usize, expected_ns: f64, period_ns: f64, gate: Gate) -> Found {
    let within = |until_ns: f64| {
        let rest = beats.iter().enumerate().skip(near);
        rest.take_while(move |(_, beat)| beat.at_ns as f64 <= until_ns).filter(move |(_, beat)| beat.weight >= light)
    };
    let fits = |beat: &Beat| beat.weight * (1.0 - 0.5 * (beat.at_ns as f64 - expected_ns).abs() / gate.ns);
    let best = within(expected_ns + gate.ns).max_by(|(_, one), (_, other)| fits(one).total_cmp(&fits(other)));
    if let Some((at, _)) = best {
        return Found::InTime(at);
    }
    // The thread has been awake since before the tick was due.
    if let Some(before) = near.checked_sub(1).filter(|before| beats[*before].until_ns as f64 >= expected_ns) {
        return Found::Hidden(before);
    }
    let heavy =
        within(expected_ns + period_ns - gate.ns).max_by(|(_, one), (_, other)| one.weight.total_cmp(&other.weight));
    // Take the first beat that is nearly as heavy as the heaviest beat. Packets that waited for a late tick follow that beat.
    let Some((_, heaviest)) = heavy else { return Found::Missed };
    let late = within(expected_ns + period_ns - gate.ns).find(|(_, beat)| beat.weight >= heaviest.weight * 0.5);
    late.map_or(Found::Missed, |(at, _)| Found::Late(at))
}
