//! Which knob it was, when an arm with many of them on did so badly that the guard stopped it.

use super::answer::Fate;
use super::desk::{Desk, Got, Halt};
use crate::arm::{Arm, Level};

/// Halves the suspects until one is left, and takes that one out of the search; nothing, if it was the machine, or several
/// knobs together: then the arm alone stays forbidden.
pub(super) fn find_culprit(desk: &mut Desk<'_>, arm: &Arm) -> Result<(), Halt> {
    let baseline = desk.design.baseline();
    if let Got::Value(value) = desk.window(&baseline)?
        && desk.is_harm(value)
    {
        desk.pardon(arm);
        return Ok(());
    }
    let mut suspects: Vec<usize> =
        (0..arm.0.len()).filter(|knob| *arm.level(*knob) != Level::AsItWas && desk.is_in(*knob)).collect();
    let mut is_sure = false;
    while suspects.len() > 1 {
        let other = suspects.split_off(suspects.len() / 2);
        is_sure = hurts(desk, arm, &suspects)?;
        if !is_sure {
            suspects = other;
        }
    }
    let [one] = suspects[..] else { return Ok(()) };
    if is_sure || hurts(desk, arm, &[one])? {
        desk.take_out(one, Fate::Stopped);
    }
    Ok(())
}

/// Whether the arm with only these of its knobs on is stopped too.
fn hurts(desk: &mut Desk<'_>, arm: &Arm, knobs: &[usize]) -> Result<bool, Halt> {
    let mut fewer = desk.design.baseline();
    for knob in knobs {
        fewer.0[*knob] = arm.level(*knob).clone();
    }
    Ok(desk.window(&fewer)? == Got::Hurt)
}
