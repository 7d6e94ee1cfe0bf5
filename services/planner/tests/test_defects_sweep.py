"""Where the model sees no fault: the next function is asked for, and single edits go on where they had stopped."""

from autopatch.chassis.llm.scripted import ScriptedLlm
from autopatch.contract.code import Place
from services.planner.tests.jobs import escalated, plan
from services.planner.tests.repair_fakes import Repository, Rooms, fenced, opened, patched

TWO = """
def words(text):
    return text.split()


def initials(text):
    found = []
    for word in words(text):
        found.append(word[0].upper())
    return "".join(found)
""".lstrip()
DOTTED = '    return "".join(f"{letter}." for letter in found)\n'
TESTS = {"t::test_one": "initials('ada') == 'A.'", "t::test_two": "initials('ada king') == 'A.K.'"}
WORDS, INITIALS = TWO.split("\n\n\n")
NAMES = {"words": (1, 2), "initials": (5, 9)}


def suspected(*names: str) -> list[Place]:
    """The functions of TWO, the first one most."""
    found = []
    for n, name in enumerate(names):
        start, end = NAMES[name]
        lines = dict.fromkeys(range(start, end + 1), 0.9)
        found.append(Place(path="names.py", name=name, start=start, end=end, score=0.9 - n / 10, lines=lines))
    return found


async def test_a_function_that_comes_back_as_it_was_is_not_asked_for_again_but_the_next_is() -> None:
    rooms = Rooms(Repository({"names.py": TWO.encode()}, TESTS))
    right = INITIALS.replace('    return "".join(found)\n', DOTTED)
    llm = ScriptedLlm(fenced(WORDS + "\n"), fenced(right))
    planned = await plan(rooms, opened(rooms, *suspected("words", "initials")), llm=llm, templates_s=1)
    assert planned.plan.basis.kind == "model" and llm.calls == 2
    assert patched(rooms, planned)["names.py"].decode() == TWO.replace('    return "".join(found)\n', DOTTED)
    first, second = llm.backend.heard
    alike = first.rindex("The faulty function is ")
    assert first[:alike] == second[:alike], "what the prompts share is read once"
    assert "function is words in names.py" in first[alike:] and "function is initials in names.py" in second[alike:]
    assert WORDS in first and INITIALS.rstrip() in first


async def test_a_model_that_changes_nothing_found_no_fix_and_made_no_mistake_of_form() -> None:
    rooms = Rooms(Repository({"names.py": TWO.encode()}, TESTS))
    llm = ScriptedLlm(*[fenced(WORDS + "\n"), fenced(INITIALS)] + [fenced(WORDS + "\n")] * 2)
    event = await escalated(rooms, opened(rooms, *suspected("words", "initials")), llm=llm, templates_s=1, templates_alone_s=3)
    assert (event.kind, llm.calls) == ("no_fix_found", 4) and "4 repeated what was tried" in event.reason


RARE = """
def total(net, tax, fee, tip):
    rows = [net, tax, fee]
    if net < 0 and tax < 0 or fee < 0 and tip < 0:
        rows = [0, 0, 0]
    for row in rows[1:2]:
        if row == 100 and net > 7:
            rows = rows[0:2]
    return sum(rows)
""".lstrip()


async def test_edits_that_the_time_before_the_model_did_not_reach_are_tried_when_it_healed_nothing() -> None:
    tests = {"t::test_one": "total(1, 2, 3, 4) == 10", "t::test_two": "total(2, 2, 2, 9) == 15"}
    for llm in (None, ScriptedLlm(*["No idea."] * 3)):
        rooms = Rooms(Repository({"bill.py": RARE.encode()}, tests))
        place = Place(path="bill.py", name="total", start=1, end=8, score=0.9, lines=dict.fromkeys(range(2, 9), 0.9))
        planned = await plan(rooms, opened(rooms, place), llm=llm, templates_s=0.01)
        assert (planned.plan.basis.kind, planned.plan.basis.ref) == ("template", "term missing")
        seen = [run["bill.py"] for run in rooms.seen if "bill.py" in run]
        screened = [one for one in seen if one != patched(rooms, planned)["bill.py"]]
        assert len(screened) == len(set(screened)), "an edit was tried twice"
    assert llm is not None and llm.calls == 3
