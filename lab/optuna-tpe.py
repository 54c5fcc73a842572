#!/usr/bin/env python3
"""Optuna's TPE on a server that the parent simulates: a line a trial, the knobs as 0 and 1, answered by the window's number.

usage: optuna-tpe.py KNOBS TRIALS SEED

Writes `ask 0110...` and reads a number, TRIALS times; then `best 0010...`, the best trial's knobs. Less is better.
"""
import sys

import optuna

knobs, trials, seed = (int(argument) for argument in sys.argv[1:4])
optuna.logging.set_verbosity(optuna.logging.WARNING)


def objective(trial):
    levels = "".join(str(trial.suggest_int(f"knob{knob}", 0, 1)) for knob in range(knobs))
    print("ask", levels, flush=True)
    return float(sys.stdin.readline())


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
study.optimize(objective, n_trials=trials)
print("best", "".join(str(study.best_params[f"knob{knob}"]) for knob in range(knobs)), flush=True)
