//! `follow`: from tick to tick through everything that a thread did, by where the next one is due. What is near that is the tick; a late one
//! is looked for behind it; where the thread was awake already, the tick is hidden in what it did.

/// Something that was done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beat {
    /// When it began, in nanoseconds.
    pub at_ns: u64,
    /// When it ended.
    pub until_ns: u64,
    /// How much was done: nanoseconds on a CPU, or bytes.
    pub weight: f64,
}

/// A period, and a time that a tick was about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// The period, in nanoseconds.
    pub period_ns: f64,
    /// The time.
    pub at_ns: f64,
}

/// How close to its time a tick is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// In nanoseconds, to both sides.
    pub ns: f64,
}

impl Gate {
    /// As far as makes sense.
    pub fn widest(period_ns: f64) -> Gate {
        Gate { ns: 0.15 * period_ns }
    }

    /// For ticks that are so far off (their median absolute deviation).
    pub fn of(period_ns: f64, spread_ns: f64) -> Gate {
        let widest = Gate::widest(period_ns).ns;
        Gate { ns: (6.0 * spread_ns + 30_000.0).clamp(0.01 * period_ns, widest) }
    }
}

/// How much a tick moves those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// They are where they are.
    Little,
    /// They move a little: the period is nearly known.
    Some,
    /// The period is known roughly.
    Much,
    /// Each is a period behind the one before.
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

/// What was found where a tick was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The beat of this place in the list, near its time.
    InTime(usize),
    /// One that came later.
    Late(usize),
    /// The thread was awake already, in this beat.
    Hidden(usize),
    /// None.
    Missed,
}

/// A time at which a tick was due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// Its number, from 0.
    pub number: u64,
    /// When it was expected, in nanoseconds.
    pub expected_ns: f64,
    /// How far off it was, where it was found near that.
    off_ns: f64,
    /// What was found.
    pub found: Found,
}

impl Slot {
    /// The beat that came in time.
    pub fn at_its_time(&self) -> Option<usize> {
        if let Found::InTime(beat) = self.found { Some(beat) } else { None }
    }

    /// The tick's beat, in time or late.
    pub fn beat(&self) -> Option<usize> {
        match self.found {
            Found::InTime(beat) | Found::Late(beat) => Some(beat),
            Found::Hidden(_) | Found::Missed => None,
        }
    }

    /// How far off one in time was, in nanoseconds.
    pub fn off_ns(&self) -> Option<f64> {
        self.at_its_time().map(|_| self.off_ns)
    }
}

/// All slots from the first beat to the last.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// How much a tick moved those behind it.
    pub pull: Pull,
    /// In the order of time.
    pub slots: Vec<Slot>,
}

impl Followed {
    /// Where no tick was found in time, takes what is very near its time however little was done in it: some ticks have nothing to do.
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

    /// How many ticks came in time.
    pub fn at_their_time(&self) -> usize {
        self.slots.iter().filter(|slot| slot.at_its_time().is_some()).count()
    }
}

/// More slots than these are not followed: twenty minutes of 500 a second.
const SLOTS_MAX: u64 = 600_000;

/// In a chain what comes sooner than this share of the period after a tick is none.
const EARLIEST_SHARE: f64 = 0.5;

/// Follows a period through `beats`, which are in the order of time; those lighter than `light` are no ticks.
pub fn follow(beats: &[Beat], light: f64, start: Start, gate: Gate, pull: Pull) -> Followed {
    let mut followed = Followed { pull, slots: Vec::new() };
    let (Some(first), Some(last)) = (beats.first(), beats.last()) else { return followed };
    let period_ns = start.period_ns;
    if !(period_ns.is_finite() && period_ns >= 1.0 && start.at_ns.is_finite()) {
        return followed;
    }
    // The first slot that lies in it.
    let mut expected_ns = start.at_ns + ((first.at_ns as f64 - gate.ns - start.at_ns) / period_ns).ceil() * period_ns;
    let (mut number, mut near) = (0, 0);
    let mut last_ns = f64::NEG_INFINITY;
    while expected_ns - gate.ns <= last.at_ns as f64 && number < SLOTS_MAX {
        while near < beats.len() && (beats[near].at_ns as f64) < expected_ns - gate.ns {
            near += 1;
        }
        let mut found = look(beats, light, near, expected_ns, period_ns, gate);
        // In a chain one that comes too early moves all after it as a late one does.
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
            // A server that counts from its last tick goes on from a late one.
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

/// What is at `expected_ns`; `near` is the first beat that may be.
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
    // Awake since before it was due.
    if let Some(before) = near.checked_sub(1).filter(|before| beats[*before].until_ns as f64 >= expected_ns) {
        return Found::Hidden(before);
    }
    let heavy =
        within(expected_ns + period_ns - gate.ns).max_by(|(_, one), (_, other)| one.weight.total_cmp(&other.weight));
    // The first that is as heavy as the heaviest, or nearly: a late tick is followed by the packets that waited for it.
    let Some((_, heaviest)) = heavy else { return Found::Missed };
    let late = within(expected_ns + period_ns - gate.ns).find(|(_, beat)| beat.weight >= heaviest.weight * 0.5);
    late.map_or(Found::Missed, |(at, _)| Found::Late(at))
}
