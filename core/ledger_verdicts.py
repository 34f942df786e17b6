"""What a training made of a target: the verdicts of its ledger (docs/training.md)."""

LEDGER = "ledger"  # folder of a run, with a file of `core.schemas.USES` for each step
LEARNED_FILE = "targets.parquet"  # file in the folder of a run, with rows of `core.schemas.LEARNED`
KNOWN = 0.75  # share of the policy's own samples that are right at the first use of a known target
SOLVED = 0.5  # the same at the last use of a target that the policy contradicts
VERDICTS = {
    "taught": "its probability and the policy's own success rose between its first use and its last",
    "imitated": "its probability rose, the policy's own success did not",
    "known": f"at its first use the policy solved the problem in at least {KNOWN:.0%} of its own samples",
    "contradicted": f"its probability fell, and {SOLVED:.0%} or more of the policy's own samples are right",
    "not_learned": "its probability did not rise, and the policy does not solve the problem",
    "once": "it was used in one step, so nothing was measured after it",
    "unmeasured": "it was only used in supervised updates, before which its probability is not computed",
    "unused": "no step used it",
}
