"""Replacing a configuration file: fenced by its digest, atomic, and never outside its folder."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autopatch.chassis.room import RetryLater
from autopatch.contract.errors import OperatorError, StaleTarget
from autopatch.contract.model import digest
from services.executor.adapters.delivery.files import fence, read, replace, resolve
from services.executor.ports import Failed


def test_a_file_is_replaced_with_its_mode_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(b"old")
    file.chmod(0o640)
    replace(file, digest(b"old"), b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert [f.name for f in tmp_path.iterdir()] == ["c.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(b"old")
    os.chown(file, 65534, 65534)
    replace(file, digest(b"old"), b"new")
    assert (file.stat().st_uid, file.stat().st_gid) == (65534, 65534)


def test_a_file_that_somebody_changed_is_stale_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(b"theirs")
    with pytest.raises(StaleTarget, match="c.json is .*, the plan was made for"):
        replace(file, digest(b"old"), b"new")
    assert file.read_bytes() == b"theirs"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_is_gone_is_a_failure_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="c.json: cannot be written: No such file"):
        replace(tmp_path / "gone" / "c.json", "x", b"new")


def test_a_link_inside_the_folder_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_bytes(b"old")
    (tmp_path / "c.json").symlink_to("real.json")
    real = resolve(str(tmp_path / "c.json"))
    replace(real, digest(b"old"), b"new")
    assert (tmp_path / "c.json").is_symlink()
    assert (tmp_path / "c.json").read_bytes() == b"new"


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"x")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "c.json").symlink_to("../outside")
    with pytest.raises(OperatorError, match="leads out of its folder"):
        resolve(str(tmp_path / "in" / "c.json"))


def test_a_missing_or_huge_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="c.json: is not a file"):
        resolve(str(tmp_path / "c.json"))
    with (tmp_path / "big").open("wb") as big:
        big.truncate(10**8)
    with pytest.raises(OperatorError, match="larger than"):
        read(tmp_path / "big")


async def test_of_two_actions_on_a_target_one_waits(tmp_path: Path) -> None:
    async with fence(tmp_path / "locks", "payments"):
        with pytest.raises(RetryLater, match="another action on payments"):
            async with fence(tmp_path / "locks", "payments", patience_s=0.1):
                pass
    async with fence(tmp_path / "locks", "payments"):
        pass


async def test_a_dead_holder_loses_the_fence(tmp_path: Path) -> None:
    code = f"""
import asyncio, pathlib
from services.executor.adapters.delivery.files import fence
async def main():
    async with fence(pathlib.Path({str(tmp_path)!r}), "t"):
        print("in", flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        await asyncio.to_thread(holder.stdout.readline)
        with pytest.raises(RetryLater):
            async with fence(tmp_path, "t", patience_s=0.1):
                pass
        holder.kill()
        async with fence(tmp_path, "t"):
            pass
