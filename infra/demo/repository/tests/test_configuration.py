"""The configuration file as it is shipped."""

from pathlib import Path

import pytest

from payments.config import ConfigError, load, public, without_comments

SHIPPED = Path(__file__).parents[1] / "config.json"


def test_the_shipped_file_can_be_read_and_its_password_is_not_shown() -> None:
    config = load(SHIPPED)
    assert config.database.pool_size == 10 and config.database.password not in str(public(config))


def test_a_mistake_names_its_field(tmp_path: Path) -> None:
    wrong = tmp_path / "config.json"
    wrong.write_text(SHIPPED.read_text().replace('"pool_size": 10', '"pool_size": 0'))
    with pytest.raises(ConfigError, match="database.pool_size: must be from 1 to 200, is 0"):
        load(wrong)


def test_comments_are_blanked_out_and_texts_are_not() -> None:
    assert without_comments('{"a": "//b" /* c */} // d') == '{"a": "//b"        }     '
