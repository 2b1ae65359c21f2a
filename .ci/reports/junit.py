"""Holds JUnit reports to the common schema, and reports whether junitparser reads the first, the golden one, as it is meant.

junit.py SCHEMA GOLDEN [REPORT...]
"""

import sys

from junitparser import Error, Failure, JUnitXml, Skipped
from lxml import etree

WANT = {
    "coredns-drained-lameduck-0s": ("builtin.DNS", None, ""),
    "spot-notice-drains-node": ("builtin.SPOT", Failure, "reproduce: spotdrill run spot-notice-drains-node --handler builtin --set fast"),
    "state-stopping-drains-node": ("builtin.STATE-CHANGE", Error, "the cluster disappeared"),
    "rebalance-recommendation-is-only-told": ("builtin.REBALANCE", Skipped, "does not claim rebalance-event"),
}

schema = etree.XMLSchema(etree.parse(sys.argv[1]))
for name in sys.argv[2:]:
    document = etree.parse(name)
    # The schema allows properties for suites only; pytest and others write them for test cases too, and readers show them.
    for properties in document.findall(".//testcase/properties"):
        properties.getparent().remove(properties)
    schema.assertValid(document)
print(f"ok   {len(sys.argv[2:])} JUnit reports are valid by the schema of Jenkins' xunit plugin, except for the properties of test cases, which it does not have")

report = JUnitXml.fromfile(sys.argv[2])
assert (report.tests, report.failures, report.errors) == (4, 1, 1), report
numbers, seen = {}, set()
for suite in report:
    for case in suite:
        # junitparser has properties of suites only; for test cases it returns the elements.
        numbers.update((case.name + "/" + p.get("name"), p.get("value")) for p in case._elem.iter("property"))
        classname, kind, text = WANT[case.name]
        seen.add(case.name)
        assert case.classname == classname, (case.name, case.classname)
        assert [type(r) for r in case.result] == ([kind] if kind else []), (case.name, case.result)
        said = "".join((r.message or "") + (r.text or "") for r in case.result)
        assert text in said, (case.name, said)
assert seen == set(WANT), seen
assert numbers["coredns-drained-lameduck-0s/dns window (fresh)/window_fresh_max_ms"] == "1300.25", numbers
print(f"ok   junitparser reads {len(seen)} test cases and {len(numbers)} properties as meant")
