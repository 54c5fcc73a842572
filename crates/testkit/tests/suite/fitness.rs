//! Which failures of a live check count.

use evenkeel_testkit::fitness;

/// A try counts if the machine was fit, even if it was unfit at other times.
/// So a check that never holds must fail on such a machine.
#[test]
fn only_a_machine_that_was_unfit_each_time_is_an_excuse() {
    // For each try: whether it holds, and whether the machine was fit.
    let result = |tries: &[(bool, bool)]| {
        let (mut at, mut runs) = (0, 0);
        let at = std::cell::Cell::from_mut(&mut at);
        let run = || {
            let holds = tries[at.get()].0;
            runs += 1;
            if holds { Ok(()) } else { Err("it does not hold".to_owned()) }
        };
        let unmet = || {
            let is_fit = tries[at.replace(at.get() + 1)].1;
            (!is_fit).then(|| "busy".to_owned())
        };
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fitness::one_of_by(3, run, unmet)));
        (shown.ok(), runs)
    };
    let (held, fit, unfit) = ((true, true), (false, true), (false, false));
    assert_eq!(result(&[fit, fit, held]), (Some(true), 3));
    assert_eq!(result(&[fit, fit, fit]), (None, 3));
    assert_eq!(result(&[unfit, fit, unfit, fit, unfit, fit]), (None, 6), "three failed on a fit machine");
    assert_eq!(result(&[unfit, unfit, unfit, held]), (Some(true), 4));
    assert_eq!(result(&[unfit, fit, unfit, unfit, fit, unfit]), (Some(false), 6), "not judged");
}
