"""Random misuse, in processes of their own: attack.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FIRST = int(os.environ.get("PTO_TEST_SEED", "1")) % 10 ** 6


@pytest.mark.parametrize("number", range(max(1, 4 * int(os.environ.get("PTO_TEST_EFFORT", "100")) // 100)))
def test_attack(number):
    done = subprocess.run([sys.executable, "-X", "faulthandler", str(Path(__file__).parent / "attack.py"), str(FIRST + number)],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and "survived" in done.stdout, f"attack.py {FIRST + number}\n{done.stdout}\n{done.stderr}"
