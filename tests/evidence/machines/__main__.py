"""Prints what an expert says of each machine beside what we say: python -m tests.evidence.machines.

Names as arguments print those machines alone, with every disagreement.
"""

from __future__ import annotations

import sys

from tests.evidence.machines.held import cases, held


def main(names: list[str]) -> int:
    """Print the table.

    :returns: 1 where we disagree with an expert.
    """
    chosen = [held(row, path) for row, path in cases() if not names or row.machine in names]
    print(f"{'machine':<22}{'profile':<9}{'expert':<9}{'ours':<9}agree")
    for one in chosen:
        expert = one.row.state or "(plan)"
        ours = one.state if one.row.state else "(plan)"
        agree = "yes" if one.agree else "NO"
        print(f"{one.row.machine:<22}{one.profile:<9}{expert:<9}{ours:<9}{agree}")
        for why in one.disagreements:
            print(f"    {why}")
    print(f"{sum(one.agree for one in chosen)} of {len(chosen)} agree")
    return 0 if all(one.agree for one in chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
