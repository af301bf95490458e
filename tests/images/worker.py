"""Works on an image as the toolkit does, in a process that is there to be killed.

    python -m tests.images.worker MEDIUM PATH OUT STEP

STEP is the number of the step before which it kills itself; 0 for never. With a minus before it,
it sends itself what Ctrl-C sends. A step is whatever
reaches the world: a process begun, a lock taken, a folder made, something renamed or removed.
The last line that it prints is the number of steps it took.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from toolkit.errors import ExitCode, ToolkitError
from toolkit.features.image.io import inside, tree
from toolkit.features.image.io.media import ImageSource, Medium, stage

STEPS = frozenset(
    {"subprocess.Popen", "os.rename", "shutil.rmtree", "tempfile.mkdtemp", "fcntl.flock"}
    | {"os.remove", "gdr.exchange"}
)
STAGED = "STAGED"
SCRIPT = f"""
echo new >/etc/new && rm /etc/pipe && echo other >/etc/one
echo {STAGED}
[ ! -e /etc/slow ] || sleep 600
"""


def main() -> None:
    medium, path, out, last = sys.argv[1:]
    count, last_event = 0, ""

    def step(event: str, _: object) -> None:
        nonlocal count, last_event
        again, last_event = last_event == event == "os.remove", event
        if event in STEPS and not again:  # the files of one folder are one step
            count += 1
            if count == abs(int(last)):
                os.kill(os.getpid(), signal.SIGINT if last.startswith("-") else signal.SIGKILL)

    real = inside.exchange

    def exchange(one: Path, other: Path) -> None:
        sys.audit("gdr.exchange")
        real(one, other)
        sys.audit("gdr.exchange")

    setattr(tree, "exchange", exchange)  # noqa: B010 # it is imported there by name
    sys.addaudithook(step)
    source = ImageSource(Medium(medium), Path(path), Path(out) if out else None)
    try:
        with stage(source) as staged:
            staged.run(SCRIPT, sink=lambda line: print(line, flush=True))
            staged.commit()
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    except ToolkitError as why:
        sys.exit(f"{why}\n{why.hint}")
    print(count, flush=True)


if __name__ == "__main__":
    main()
