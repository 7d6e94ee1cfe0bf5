"""The configuration file of the demo service."""

from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[1]


def written(tmp_path: Path, old: str, new: str) -> Path:
    text = (DEMO / "config.json").read_text()
    assert old in text
    path = tmp_path / "config.json"
    path.write_text(text.replace(old, new, 1))
    return path


def test_the_shipped_file_is_read_with_all_its_comments() -> None:
    from payments.config import load

    config = load(DEMO / "config.json")
    assert (config.service_name, config.database.pool_size, config.database.timeout_ms) == ("payment_processor", 10, 5000)
    assert (config.api.port, config.api.max_connections) == (3000, 100)


def test_what_looks_like_a_comment_inside_a_string_stays() -> None:
    from payments.config import without_comments

    assert without_comments('{"a": "x // y /* z */ \\" //"} // gone') == '{"a": "x // y /* z */ \\" //"} ' + " " * 7


@pytest.mark.parametrize(
    ("old", "new", "field", "reason"),
    [
        ('"pool_size": 10', '"pool_size": "20"', "database.pool_size", "whole number"),
        ('"pool_size": 10', '"pool_size": true', "database.pool_size", "whole number"),
        ('"pool_size": 10', '"pool_size": 0', "database.pool_size", "from 1 to 200"),
        ('"pool_size": 10,', "", "database.pool_size", "missing"),
        ('"pool_size": 10', '"poolsize": 10', "database.poolsize", "not a field"),
        ('"port": 3000', '"port": 70000', "api.port", "from 1 to 65535"),
        ('"user": "payments"', '"user": ""', "database.user", "non-empty"),
        ('"pool_size": 10,', '"pool_size": 10', "", "line 13"),
    ],
)
def test_a_mistake_is_told_with_its_field(tmp_path: Path, old: str, new: str, field: str, reason: str) -> None:
    from payments.config import ConfigError, load

    with pytest.raises(ConfigError, match=reason) as caught:
        load(written(tmp_path, old, new))
    assert caught.value.field == field


def test_neither_the_text_of_a_configuration_nor_its_changes_show_the_password(tmp_path: Path) -> None:
    from payments.config import changes, load, public

    old = load(DEMO / "config.json")
    new = load(written(tmp_path, old.database.password, "another-one"))
    shown = f"{old!r} {public(old)} {changes(old, new)}"
    assert old.database.password not in shown and "another-one" not in shown
    assert "database.password" in changes(old, new)
