"""Behaviour rules: what a line of text means, and which container it concerns."""

import pytest

from nodewright.simulator.rules import Kind, Outcome, Rule, RuleSet, Step, parse_rule


def step(**changes: object) -> Step:
    values: dict[str, object] = {
        "node": "node-007", "pod": "p", "job": "j", "cr": "cr", "package": "drivers", "version": "1.0", "stage": "apply",
        "container": "drivers-apply", "first": False, "work": True,
    }  # fmt: skip
    return Step(**(values | changes))  # type: ignore[arg-type]


def test_a_rule_reads_as_it_is_written() -> None:
    rule = parse_rule("package=drivers,stage=apply,node=node-007,attempt=1:fail=3,seconds=2,times=4,p=0.5,seed=9")
    assert rule == Rule(
        outcome=Outcome(kind=Kind.FAIL, exit_code=3, seconds=2.0),
        package="drivers", stage="apply", node="node-007", attempts=(1, 1), times=4, probability=0.5, seed=9,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (":succeed=5", Outcome(seconds=5.0)),
        (":hang,stubborn=true", Outcome(kind=Kind.HANG, stubborn=True)),
        (":refuse_admission", Outcome(kind=Kind.REFUSE_ADMISSION, reason="OutOfcpu")),
        (
            ":refuse_admission=UnexpectedAdmissionError",
            Outcome(kind=Kind.REFUSE_ADMISSION, reason="UnexpectedAdmissionError"),
        ),
        (":pull_failure", Outcome(kind=Kind.PULL_FAILURE)),
        (":pull_failure=30", Outcome(kind=Kind.PULL_FAILURE, seconds=30.0)),
        (":fail", Outcome(kind=Kind.FAIL, exit_code=1)),
    ],
)
def test_outcomes_read_their_value(text: str, outcome: Outcome) -> None:
    assert parse_rule(text).outcome == outcome


@pytest.mark.parametrize(
    "text",
    [
        "fail",
        "nonsense=1:fail",
        "stage=apply:explode",
        ":fail=0",
        ":fail,speed=1",
        "attempt=x:fail",
        "node=~(:fail",
        ":succeed=-1",
        ":succeed=nan",
        ":fail=x",
        ":fail,times=0",
        ":fail,p=7",
        ":fail,seed=x",
        "attempt=0:fail",
        "attempt=3-1:fail",
    ],
)
def test_a_wrong_rule_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="rule "):
        parse_rule(text)


def test_patterns_are_exact_unless_they_begin_with_a_tilde() -> None:
    exact, pattern = parse_rule("node=node-00:fail"), parse_rule("node=~node-0[0-4].,stage=~apply|config:fail")
    assert not exact.matches(step())
    assert pattern.matches(step())
    assert not pattern.matches(step(node="node-057"))


def test_a_rule_without_container_speaks_of_the_work_container() -> None:
    fail, pull, slow = parse_rule(":fail"), parse_rule(":pull_failure"), parse_rule(":succeed=9")
    first = step(container="drivers-init", first=True, work=False)
    assert fail.matches(step())
    assert not fail.matches(first)
    assert pull.matches(first)
    assert not pull.matches(step())
    assert slow.matches(first)
    assert slow.matches(step())


def test_admission_rules_match_pods_and_no_containers() -> None:
    refuse, fail = parse_rule(":refuse_admission"), parse_rule(":fail")
    assert refuse.matches(step(container=""))
    assert not refuse.matches(step())
    assert not fail.matches(step(container=""))


def test_the_first_rule_that_is_not_used_up_wins() -> None:
    rules = RuleSet([parse_rule(":fail,times=1"), parse_rule("attempt=1-2:hang"), parse_rule("attempt=3+:oom")])
    kinds = [outcome.kind for attempt in (1, 1, 2, 3) if (outcome := rules.decide(step(attempt=attempt)))]
    assert kinds == [Kind.FAIL, Kind.HANG, Kind.HANG, Kind.OOM]
    rules.replace([parse_rule("node=other:fail")])
    assert rules.decide(step()) is None


def test_probability_depends_on_seed_job_and_attempt_and_not_on_order() -> None:
    rule = parse_rule(":fail,p=0.3,seed=5")
    steps = [step(job=f"job-{number}") for number in range(1000)]
    drawn = [rule.matches(one) for one in steps]
    assert drawn[::-1] == [rule.matches(one) for one in reversed(steps)]
    assert 240 < sum(drawn) < 360
    assert drawn != [parse_rule(":fail,p=0.3,seed=6").matches(one) for one in steps]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stage=apply:explode", "'explode' is not one of the outcomes succeed, fail, hang"),
        (":fail=x", "the exit code must be a whole number from 1 to 255, not 'x'"),
        (":fail,times=0", "times must be a whole number of 1 or more, not '0'"),
        (":hang=inf", "seconds must be a number from 0 to 1e+09, not 'inf'"),
    ],
)
def test_a_wrong_rule_says_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="rule ") as caught:
        parse_rule(text)
    assert said in str(caught.value)


def test_rules_that_concerned_nothing_are_known() -> None:
    rules = RuleSet([parse_rule("stage=apply:fail"), parse_rule("stage=aply:fail")])
    rules.decide(step())
    assert rules.never_applied() == [parse_rule("stage=aply:fail")]
