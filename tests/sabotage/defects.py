"""Deliberate defects: what somebody could break by one line, and where that is to be noticed."""

from __future__ import annotations

from dataclasses import dataclass

_STEPS, _LOCK = "tests/scripts/test_apply_steps.py", "tests/scripts/test_apply_lock.py"
_CUT, _BACK = "tests/scripts/test_cut_off.py", "tests/scripts/test_apply_rollback.py"
_TROUBLE, _PRUNE = "tests/scripts/test_apply_trouble.py", "tests/scripts/test_apply_prune.py"
_IMAGE, _AGAIN = "tests/scripts/test_apply_initramfs.py", "tests/scripts/test_apply_again.py"
_RESTART, _PROVE = "tests/scripts/test_restart.py", "tests/scripts/test_apply_prove.py"
_REAL = "tests/scripts/test_real_faults.py"
_BUDGET, _DRY = "tests/rollout/test_budget.py", "tests/unit/test_dry.py"


@dataclass(frozen=True, slots=True)
class Defect:
    """One row."""

    file: str  # below toolkit/
    before: str  # there exactly once
    after: str
    why: str  # what it would cost
    tests: str  # the nearest file
    only: str = ""  # those of its tests, as pytest's -k has it

    def __str__(self) -> str:
        return f"{self.file}: {self.why}"


# fmt: off
DEFECTS = (
    # --- the lock, and signals
    Defect("node/scripts/apply.sh", 'if take_lock "$patience"; then\n', "if arrive; then\n",
           "two runs on one node at once", _LOCK, "second_run"),
    Defect("node/scripts/apply.sh", "    trap '' HUP PIPE # the controller may vanish: what was begun goes on to its end\n", "",
           "a lost connection ends a run amid its trigger", _LOCK, "controller_is_gone"),
    Defect("node/scripts/apply.sh", "    trap 'stop=1' TERM INT\n", "",
           "a signal ends a run amid a step", _LOCK, "signal_ends"),
    Defect("node/scripts/apply.sh", "(trap - PIPE && umask 022 &&", "(umask 022 &&",
           "commands do not see broken pipes", _STEPS, "broken_pipes"),
    Defect("node/scripts/lock.sh", '[ "$boot" = "$boot_id" ] && [ "$(started "$pid")" = "$began" ]', '[ "$(started "$pid")" = "$began" ]',
           "a lock of another boot holds", _LOCK, "dead_holders"),
    Defect("node/scripts/lock.sh", '[ "$boot" = "$boot_id" ] && [ "$(started "$pid")" = "$began" ]', '[ "$boot" = "$boot_id" ] && [ -n "$(started "$pid")" ]',
           "any process of that number holds the lock", _LOCK, "dead_holders"),
    Defect("node/scripts/lock.sh", '    if [ -z "$2" ] || { alive "$2" && ! forgotten "$2"; }; then return 1; fi\n', "",
           "a living holder's lock is broken", _LOCK, "living_holders"),
    Defect("node/scripts/lock.sh", '    if [ "$boot_id" != "$1" ]; then\n', "    if false; then\n",
           "a node is rebooted twice", _RESTART),
    # --- what is checked before anything is touched
    Defect("node/scripts/apply.sh", '[ "$now" = "$3" ] || refuse 65 "$2 is not as', '[ -n "$now" ] || refuse 65 "$2 is not as',
           "a file that changed since the plan is replaced", _STEPS, "another_state"),
    Defect("node/scripts/apply.sh", 'elif [ "$(hash "$stage/files$1" 2>&1)" != "$3" ]; then', "elif false; then",
           "a damaged file of the bundle is placed", _TROUBLE, "damaged_copy"),
    Defect("node/scripts/apply.sh", '[ "$now" = "$2" ] || refuse 65 "the plan was made for kernel', '[ -n "$now" ] || refuse 65 "the plan was made for kernel',
           "a plan for another kernel is carried out", _STEPS, "another_state"),
    Defect("node/scripts/apply.sh", '    if [ "$whole" != "$number" ]; then echo', "    if false; then echo",
           "half a list of steps is carried out", _TROUBLE, "list_of_steps"),
    Defect("node/scripts/apply.sh", '    if [ -L "$root$1" ] || { [ -e "$root$1" ] && [ ! -f "$root$1" ]; }; then\n', "    if false; then\n",
           "a link or a folder of others is replaced", _STEPS, "ordinary or link or folder"),
    Defect("node/scripts/apply.sh", "    umask 077\n", "", "what was kept is readable for all", _STEPS, "for_root_alone"),
    # --- what a rollback needs
    Defect("node/scripts/undo.sh", '        flush "$run/kept/$number"\n', "",
           "a rollback after a crash finds an empty copy", _STEPS, "on_the_disk_before_it_is"),
    Defect("node/scripts/undo.sh", ' >>"$run/undo" && flush "$run/undo"\n', ' >>"$run/undo"\n',
           "a rollback after a crash knows of no replaced file", _STEPS, "on_the_disk_before_it_is"),
    Defect("node/scripts/undo.sh", 'chmod "$3" "$temp" && flush "$temp" &&', 'chmod "$3" "$temp" &&',
           "a placed file may be empty after a crash", _STEPS, "on_the_disk"),
    Defect("node/scripts/undo.sh", '    if [ "$now" != "$new" ] && [ "$now" != "$old" ]; then\n', "    if false; then\n",
           "a file that others changed since is overwritten", _BACK, "other_hands"),
    Defect("node/scripts/undo.sh", '    if [ "$mine" != yes ]; then drop "$state/owned" "$1"; fi\n', "",
           "what could not be placed is called ours", _TROUBLE, "full_disk"),
    Defect("node/scripts/undo.sh", '    runs=$(backwards "$state/journal" |', '    runs=$(cat "$state/journal" |',
           "runs are taken back oldest first", _BACK, "newest_first"),
    Defect("node/scripts/undo.sh", "    rm -f \"$state\"/*.new \"$state\"/try.*\n", "",
           "half a list stays behind after a kill", _CUT, "half_written"),
    Defect("node/scripts/undo.sh", '        if [ -e "$run/going" ]; then cut_amid 2>/dev/null || continue; fi\n', "",
           "half a module is never given up", _CUT, "after_the_next_call"),
    Defect("node/scripts/undo.sh", '        cut_amid || return\n    elif', '        rm -f "$run/going"\n    elif',
           "where there was no room to note a cut, its files are others'", _CUT, "full_disk"),
    Defect("node/scripts/undo.sh", '        set_aside_now || return\n', '        :\n',
           "what was about to be kept is deleted", _CUT, "again_amid"),
    Defect("node/scripts/undo.sh", '{ [ ! -e "$run/after" ] || spoilt cut "($1|rollback)"; }', "false",
           "a command takes out twice what a cut rollback took out", _CUT, "again_amid or of_a_rollback"),
    Defect("node/scripts/apply.sh", '    flush_folder "$run/kept" "$run" "$state/runs" "$state" "${state%/*}"\n', "",
           "the journal is on the disk, and the folder that it speaks of is not", _REAL),
    Defect("node/scripts/undo.sh", 'chmod "$3" "$temp" && flush "$temp" &&', 'chmod "$3" "$temp" && true &&',
           "an empty file is neither as wanted nor as before", _REAL),
    # --- kept files
    Defect("node/scripts/apply.sh", '    if ! words=$(going "$(rewrites "${1%% *}")" 2>&1); then\n', "    if false; then\n",
           "what a cut trigger half wrote is taken for others'", _CUT, "half_a_module"),
    Defect("node/scripts/kept.sh", '    if [ -d "$run/kept/tree" ]; then flush_tree "$run/kept"; fi\n', "",
           "copies of modules may be empty after a crash", _CUT, "on_the_disk"),
    Defect("node/scripts/kept.sh", '{ [ -L "$3" ] || flush "$3"; }; then', "true; then",
           "a restored module may be empty after a crash", _CUT, "on_the_disk"),
    Defect("node/scripts/kept.sh", "each_kept flush_tree && rewrite", "rewrite",
           "a module is called ours by a hash that is not on the disk", _CUT, "on_the_disk"),
    Defect("node/scripts/kept.sh", "case $1 in BUILD_DKMS) echo 'BUILD_DKMS DEPMOD REBUILD_INITRAMFS' ;; *) echo \"$1\" ;; esac", 'echo "$1"',
           "an index that DKMS was rewriting is taken for others'", _CUT, "depmod_of_the_build"),
    Defect("node/scripts/kept.sh", '! has "$run/there" "$path"; then rm -rf', "true; then rm -rf",
           "a foreign folder is removed", _CUT, "was_beside"),
    Defect("node/scripts/kept.sh", '        *) written_by "$amid" "$1" ;;\n', "        *) true ;;\n",
           "a menu that others changed is overwritten", _CUT, "not_cut_leaves"),
    Defect("node/scripts/kept.sh", 'elif listed_in foreign "$path"; then echo', "elif false; then echo",
           "a foreign file below a kept folder is removed", _BACK, "changed_since"),
    Defect("node/scripts/kept.sh", '    sweep "$amid"\n', "", "half a build fills the disk", _CUT, "after_the_next_call"),
    Defect("node/scripts/initramfs.sh", 'cp -a "$before" "$(temp_of "$root$image")" &&', "false &&",
           "mode and time of the old image are lost", _IMAGE, "should_not_be_booted"),
    Defect("node/scripts/kept.sh", "    rewrite \"$run/after\" listing\n    return 1\n", "    return 0\n",
           "a menu that names no kernel counts as made", _PROVE),
    Defect("node/scripts/prune.sh", 'case $left.$what in -*.done', "case $left.$what in *.done",
           "the newest runs let go of their copies", _PRUNE),
    Defect("node/scripts/again.sh", '        if [ "$(hash "$root$path" 2>&1)" != "$new" ]; then return 1; fi\n', "",
           "a bundle counts as carried out though its files are gone", _AGAIN),
    Defect("node/scripts/lock.sh", 'chmod 644 "$1.new" && flush "$1.new" &&', 'chmod 644 "$1.new" &&',
           "the journal may be empty after a crash", _STEPS, "state_is_on_the_disk"),
    # --- the controller
    Defect("verbs/provision.py", " | (unknown - were_unknown)", "",
           "what became unknown counts as no harm", "tests/verbs/test_provision_worse.py"),
    Defect("verbs/provision.py", "(failed - _ids(then, FAIL) - were_unknown)", "set()",
           "what fails since counts as no harm", "tests/verbs/test_provision_worse.py"),
    Defect("verbs/provision.py", "{GONE} if then.gpus and not now.gpus else set()", "set()",
           "lost GPUs count as no harm", "tests/verbs/test_provision_lost_gpus.py"),
    Defect("rollout/plan/budget.py", "        if left >= cost:\n", "        if left >= cost - 1:\n",
           "one node more than allowed is begun", _BUDGET),
    Defect("rollout/plan/budget.py", "min(self.limits.values(), default=None)", "max(self.limits.values(), default=None)",
           "the laxest limit is obeyed", _BUDGET),
    Defect("rollout/plan/budget.py", "    left = limit - len(known) - books.aside\n", "    left = limit - len(known)\n",
           "nodes of other engines do not count", _BUDGET),
    Defect("verbs/cli/provision.py", "        if said.looks:", '        if said.flag("check"):',
           "--dry changes nodes", _DRY),
    Defect("features/reload/cli.py", "if said.looks or", 'if said.flag("check") or',
           "--dry reloads modules", _DRY),
    Defect("features/builds/cli.py", 'if said.flag("plan") or said.dry:', 'if said.flag("plan"):',
           "--dry builds", _DRY),
    Defect("safe_file.py", "            if _same(file, descriptor):\n", "            if True:\n",
           "a lock on a removed file counts", "tests/built/test_store_locks.py"),
)
# fmt: on
