#!/usr/bin/env python3
"""Sums the tests of one meson run: reads its testlog.json, prints what failed and why some were skipped, and appends
"PASSED FAILED SKIPPED" to a file of totals.

Meson counts executables; this counts the tests inside them. A test that a report announces and does not mention, a
program that crashed, ran out of time or reported nothing: each is a failure."""

import argparse
import json
import re
import sys

LINE = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:-\s*)?(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)\s*(?:#\s*skip\S*\s*(.*))?$", re.IGNORECASE)
SKIP = re.compile(r"\s*(?<!\\)#\s*skip\S*\s*(.*)$", re.IGNORECASE)
SECONDS = re.compile(r"\s*\(\d+\.\d+s\)\s*$")
TELLING = re.compile(r"ERROR:|SUMMARY:|runtime error:|Test unit written")
MESSAGE_LINES = 8


class Program:
    """What one test program reported."""

    def __init__(self, record):
        self.name = record["name"].split(" / ", 1)[-1]
        self.result = record["result"]
        self.passed = 0
        self.failures = []  # (test, message lines)
        self.skips = []  # (test, reason)
        output = record.get("stdout") or ""
        errors = [line for line in (record.get("stderr") or "").splitlines() if line.strip()]
        if self.read_tap(output):
            self.judge(record, errors)
            telling = [line for line in errors if TELLING.search(line)]
            if self.failures and telling:
                self.failures[-1][1].extend(["on stderr:"] + telling[:MESSAGE_LINES])
        elif self.result == "OK":
            self.passed = 1  # a program whose exit status is its report
        elif self.result == "SKIP" and output.strip():
            self.skips.append((self.name, output.strip().splitlines()[-1]))
        else:
            lines = output.splitlines() + errors
            telling = [line for line in lines if TELLING.search(line)]
            self.failures.append((self.name, [self.reason(record)] + (telling or lines)[-MESSAGE_LINES:]))

    def reason(self, record):
        if self.result == "TIMEOUT":
            return "ran out of time after %.0f s" % record["duration"]
        if record["returncode"] < 0:
            return "killed by signal %d" % -record["returncode"]
        if record["returncode"] > 0:
            return "exit status %d" % record["returncode"]
        return "reported no test"

    def read_tap(self, output):
        """Collects the lines of a TAP report; false when there is none."""
        self.planned = 0
        seen = 0
        message = None
        for line in output.splitlines():
            plan, test = PLAN.match(line), LINE.match(line)
            if plan:
                self.planned += int(plan[1])
                if plan[1] == "0" and plan[2]:
                    self.skips.append((self.name, plan[2]))
                    seen = -1
            elif test:
                seen = max(seen, 0) + 1
                skip = SKIP.search(test[3])
                name = SECONDS.sub("", SKIP.sub("", test[3])).strip()
                message = None
                if test[1]:
                    message = []
                    self.failures.append((name, message))
                elif skip:
                    self.skips.append((name, skip[1].strip() or "no reason given"))
                else:
                    self.passed += 1
            elif line.strip() == "..." or line.startswith("#"):
                message = None
            elif message is not None and line.strip() not in ("---", "failures:", ""):
                if len(message) < MESSAGE_LINES and not line.strip().startswith("assertions:"):
                    message.append(re.sub(r"\s*\|\+?$", "", line.strip()))
        self.missing = self.planned - max(seen, 0)
        return seen != 0 or self.planned > 0

    def judge(self, record, errors):
        """What the lines of the report do not say: tests that never reported, a program that failed as a whole."""
        if self.missing > 0:
            reason = self.reason(record) if self.result != "FAIL" else "the report ends early"
            lines = [reason] + errors[-MESSAGE_LINES:]
            self.failures += [("%s, test %d of %d without a report" % (self.name, i + 1, self.missing), lines)
                              for i in range(self.missing)]
        elif not self.failures and self.result not in ("OK", "SKIP"):
            self.failures.append((self.name, [self.reason(record)] + errors[-MESSAGE_LINES:]))


def read_log(name):
    """The records of one log; none when meson had nothing to run."""
    try:
        with open(name, encoding="utf-8") as log:
            return [json.loads(line) for line in log if line.strip()]
    except FileNotFoundError:
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hung", action="store_true", help="only name the programs that ran out of time in silence")
    parser.add_argument("label", help="how to call this run")
    parser.add_argument("totals", help="the file that collects the totals")
    parser.add_argument("logs", nargs="+", help="meson-logs/testlog.json; a later log's programs replace the earlier's")
    arguments = parser.parse_args()
    records = {}
    for name in arguments.logs:
        records.update((record["name"], record) for record in read_log(name))
    if arguments.hung:
        for record in records.values():
            if record["result"] == "TIMEOUT" and not (record.get("stdout") or "").strip():
                print(record["name"].split(" / ", 1)[-1])
        return 0
    programs = [Program(record) for record in records.values()]

    passed = sum(program.passed for program in programs)
    failures = [(program.name, *failure) for program in programs for failure in program.failures]
    skips = [skip for program in programs for skip in program.skips]
    if passed + len(failures) == 0:
        failures.append((arguments.label, "no test was executed", []))

    for program, test, lines in failures:
        print("  FAILED %s" % (test if test.startswith(program) else "%s: %s" % (program, test)))
        for line in lines:
            print("      " + line)
    reasons = {}
    for test, reason in skips:
        reasons.setdefault(reason, []).append(test)
    for reason, tests in sorted(reasons.items()):
        names = ", ".join(tests[:3]) + (" and %d more" % (len(tests) - 3) if len(tests) > 3 else "")
        print("  skipped %d: %s (%s)" % (len(tests), reason, names))
    counts = (passed, len(failures), len(skips))
    print("  %s: %d tests passed, %d failed, %d skipped" % (arguments.label, *counts))
    with open(arguments.totals, "a", encoding="utf-8") as totals:
        totals.write("%d %d %d\n" % counts)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
