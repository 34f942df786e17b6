"""The registry and the retention beside each other: whatever happens in which order, nothing in use is lost."""

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from manifests import manifest, targets

from assets.registry.removal_plan import find_uses, plan_removals, remove
from assets.shared.settings import RetentionSettings
from core.errors import InputError
from core.files import write_json
from core.model.lineage_file import read_manifest, write_manifest
from evaluation.promotion.champions import Registry
from evaluation.promotion.promotion_rules import reason_without_comparison
from evaluation.promotion.records import Checkpoint, Decision, PolicyRecord, PromotionLimits, ScoreFile

OLD = time.time() - 90 * 86_400
MEANWHILE_SECONDS = 0.02  # what another process gets done if nothing holds it back


def age(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (OLD, OLD))


class Storage:
    """A storage with old outputs, and the policies in it by number."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.registry = Registry(root)
        self.policies: list[Checkpoint] = []

    def train(self) -> Checkpoint:
        """One more policy with targets of its own and a score; the references name the last ones."""
        number = len(self.policies)
        run, read, graded = (
            self.root / f"{name}{number}" for name in ("training/policy/run", "targets/train/t", "graded/sums/g")
        )
        for folder in (run / "policy", read, graded):
            folder.mkdir(parents=True)
        (run / "policy" / "model.safetensors").write_text(f"weights {number}")
        (read / "train.parquet").write_text("targets")
        (graded / "graded.parquet").write_text("scores")
        path = Path(os.path.relpath(read / "train.parquet", run / "policy"))
        write_manifest(run / "policy", manifest(targets=targets(path=path)))
        digest = read_manifest(run / "policy").checkpoint_digest
        score = ScoreFile(file=str(graded / "graded.parquet"), problems="p")
        policy = Checkpoint(path=str(run / "policy"), digest=digest, scores={"sums": score})
        self.policies.append(policy)
        write_json({"path": policy.path, "digest": digest}, self.root / "references" / "training" / "policy.json")
        write_json({"path": score.file, "digest": "d"}, self.root / "references" / "evals" / "sums.json")
        for folder in (run, read, graded):
            age(folder)
        return policy

    def decide(self, policy: Checkpoint, *, better: bool, meanwhile: Callable[[], None] = lambda: None) -> PolicyRecord:
        """What the asset does, with the comparison of scores settled by ``better``."""

        def compare(champion: PolicyRecord | None) -> Decision:
            reason = reason_without_comparison(policy.digest, champion) if champion else None
            meanwhile()
            if read_manifest(Path(policy.path)).checkpoint_digest != policy.digest:
                raise InputError("not the policy that was scored")
            return Decision(promoted=better and not reason, reasons=[])

        record, _, _ = self.registry.record_decision(
            policy, compare, base="b", scorecard="", limits=PromotionLimits(), dagster_run="r"
        )
        return record


@contextlib.contextmanager
def beside() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Yield a function that starts what another process does; at the end of the block all of it has ended."""
    threads: list[threading.Thread] = []

    def start(action: Callable[[], object]) -> None:
        def attempt() -> None:
            with contextlib.suppress(InputError):
                action()

        threads.append(threading.Thread(target=attempt))
        threads[-1].start()
        time.sleep(MEANWHILE_SECONDS)

    yield start
    for thread in threads:
        thread.join()


class Interleavings(RuleBasedStateMachine):
    """Any order of trainings, scores, decisions, moves by hand, retentions, runs and kills."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.storage = Storage(self.folder)
        self.in_use: set[str] = set()  # by runs
        self.rejected: set[str] = set()

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def pick(self, number: int) -> Checkpoint:
        return self.storage.policies[number % len(self.storage.policies)]

    def roll_back(self) -> None:
        record = self.storage.registry.rollback(reason="")
        assert record.replaced is not None
        self.rejected.add(record.replaced)

    def promote(self, policy: Checkpoint) -> None:
        self.storage.registry.promote(policy.path, reason="")
        self.rejected.discard(policy.digest)

    @rule()
    def train_and_score(self) -> None:
        self.storage.train()

    @precondition(lambda self: self.storage.policies)
    @rule(number=st.integers(0, 9), better=st.booleans(), rolled_back=st.booleans())
    def decide(self, number: int, better: bool, rolled_back: bool) -> None:
        with beside() as start, contextlib.suppress(InputError):
            meanwhile = (lambda: start(self.roll_back)) if rolled_back else (lambda: None)
            self.storage.decide(self.pick(number), better=better, meanwhile=meanwhile)

    @precondition(lambda self: self.storage.policies)
    @rule(number=st.integers(0, 9))
    def promote_by_hand(self, number: int) -> None:
        with contextlib.suppress(InputError):
            self.promote(self.pick(number))

    @rule()
    def roll_back_by_hand(self) -> None:
        with contextlib.suppress(InputError):
            self.roll_back()

    @precondition(lambda self: self.storage.policies)
    @rule(number=st.integers(0, 9))
    def start_a_run(self, number: int) -> None:
        policy = self.pick(number)
        if Path(policy.path).exists():
            self.in_use.add(policy.path)

    @rule()
    def end_the_runs(self) -> None:
        self.in_use.clear()

    @rule()
    def leave_what_a_kill_leaves(self) -> None:
        for folder in (self.storage.registry.folder, self.storage.registry.folder / "decisions"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ".00000000-1-1-1.tmp").write_text('{"policy":')

    @precondition(lambda self: self.storage.policies)
    @rule(keep=st.integers(1, 3), number=st.integers(0, 9), look=st.integers(0, 4), by_hand=st.booleans())
    def retain(self, keep: int, number: int, look: int, by_hand: bool) -> None:
        """A retention; at one of its looks a run begins to use a policy, or somebody promotes it."""
        policy, rules, looks = self.pick(number), RetentionSettings(keep_champions=keep), []
        with beside() as start:

            def named() -> list[str]:
                looks.append(1)
                seen = list(self.in_use)
                if len(looks) == look and Path(policy.path).exists():
                    if by_hand:
                        start(lambda: self.promote(policy))
                    else:
                        self.in_use.add(policy.path)
                return seen

            plan = plan_removals(self.folder, rules, named=named(), now=time.time())
            for _ in remove(self.folder, plan.removals, rules, named=named):
                pass

    @invariant()
    def the_champion_is_complete_with_its_targets_and_scores(self) -> None:
        if (champion := self.storage.registry.champion()) is None:
            return
        whole = read_manifest(Path(champion.policy))
        assert whole.checkpoint_digest == champion.checkpoint
        assert (Path(champion.policy) / whole.targets.path).is_file()
        assert all(Path(score.file).is_file() for score in champion.scores.values())
        assert champion.checkpoint not in self.rejected

    @invariant()
    def nothing_in_use_is_gone(self) -> None:
        assert all(Path(path).is_dir() for path in self.in_use)
        for path in self.in_use:
            assert (Path(path) / read_manifest(Path(path)).targets.path).is_file()
        for output in find_uses(self.folder, 1, ()).kept:
            assert output.is_dir(), output

    @invariant()
    def every_decision_can_be_read(self) -> None:
        assert len(self.storage.registry.decisions()) >= (self.storage.registry.champion() is not None)


Interleavings.TestCase.settings = settings(
    max_examples=200, stateful_step_count=12, phases=[Phase.generate]
)  # a failure is told at once, with the steps that led to it
test_any_order_of_moves_and_removals = pytest.mark.slow(Interleavings.TestCase)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


def test_a_rollback_while_the_asset_decides_is_not_undone(storage: Storage) -> None:
    first, second, third = (storage.train() for _ in range(3))
    storage.decide(first, better=True)
    storage.decide(second, better=True)
    with beside() as start:
        record = storage.decide(
            third, better=True, meanwhile=lambda: start(lambda: storage.registry.rollback(reason="bad"))
        )
    assert record.previous == second.digest
    champion = storage.registry.champion()
    assert champion is not None and champion.checkpoint == second.digest and champion.rejected == [third.digest]


def test_a_rollback_passes_over_what_was_rolled_back(storage: Storage) -> None:
    first, second, third = (storage.train() for _ in range(3))
    for policy in (first, second, third):
        storage.decide(policy, better=True)
    storage.registry.promote(first.path, reason="by hand")
    assert storage.registry.rollback(reason="").checkpoint == third.digest
    assert storage.registry.rollback(reason="").checkpoint == second.digest
    with pytest.raises(InputError, match="those before it were rolled back"):
        storage.registry.rollback(reason="")


def test_a_champion_whose_file_is_missing_is_the_last_promotion(storage: Storage) -> None:
    first, second, worse = (storage.train() for _ in range(3))
    for policy in (first, second):
        storage.decide(policy, better=True)
    kept = storage.registry.pointer.read_text()
    storage.registry.pointer.unlink()
    champion = storage.registry.champion()
    assert champion is not None and champion.checkpoint == second.digest
    assert storage.decide(worse, better=False).previous == second.digest
    assert storage.registry.pointer.read_text() == kept
    storage.registry.pointer.unlink()
    assert storage.registry.rollback(reason="").checkpoint == first.digest
    storage.registry.pointer.unlink()
    assert storage.registry.promote(second.path, reason="").previous == first.digest


def test_a_storage_that_was_moved_keeps_its_champions(
    storage: Storage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    champions = [storage.train() for _ in range(2)]
    for policy in champions:
        storage.decide(policy, better=True)
    storage.train()
    moved = tmp_path_factory.mktemp("elsewhere") / "storage"
    shutil.copytree(storage.root, moved)
    shutil.rmtree(storage.root)
    champion = Registry(moved).champion()
    assert champion is not None
    assert Path(champion.policy) == moved / "training/policy/run1/policy"
    assert Path(champion.scores["sums"].file) == moved / "graded/sums/g1/graded.parquet"
    plan = plan_removals(moved, RetentionSettings(keep_champions=2), named=[], now=time.time())
    assert not plan.removals, "the references name what the last training made"
    shutil.rmtree(moved / "references")
    plan = plan_removals(moved, RetentionSettings(keep_champions=2), named=[], now=time.time())
    assert [removal.path.relative_to(moved).as_posix() for removal in plan.removals] == ["graded/sums/g2"]
    assert Registry(moved).rollback(reason="").policy == str(moved / "training/policy/run0/policy")


def test_the_records_of_a_storage_behind_a_link_stay_as_they_are(storage: Storage, tmp_path: Path) -> None:
    storage.decide(storage.train(), better=True)
    (link := tmp_path / "link").symlink_to(storage.root)
    assert Registry(link).champion() == storage.registry.champion()


def test_a_registry_that_somebody_holds_is_told(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.promotion.champions.LOCK_SECONDS", 0.2)
    policy = storage.train()
    with storage.registry.locked(), pytest.raises(InputError, match="holds it for more than"):
        Registry(storage.root).promote(policy.path, reason="")
