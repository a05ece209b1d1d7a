#!/usr/bin/env python3
"""Sums the durations in a table that `xctrace export --xpath` wrote, by name.

A row has an element per column, in the order of the schema; `<sentinel/>` stands for no value. An element that came up
before is only `<duration ref="7"/>`, and its `id` is where it was. Text is the raw value (durations in nanoseconds),
the attribute `fmt` the readable one.
"""

import argparse
import sys
import xml.etree.ElementTree as ElementTree

# Columns that name what ran, the most telling first.
NAMES = ["shader-name", "shader", "function-name", "name", "label", "event-label"]


def rows(document):
    """Rows as dictionaries from mnemonic to element."""
    for node in document.iter("node"):
        schema = node.find("schema")
        if schema is None:
            continue
        columns = [column.findtext("mnemonic") for column in schema.findall("col")]
        yield from table(node, columns)


def table(node, columns):
    known = {element.get("id"): element for element in node.iter() if element.get("id")}
    for row in node.findall("row"):
        values = {}
        for column, element in zip(columns, row):
            if element.tag == "sentinel":
                continue
            reference = element.get("ref")
            if reference is not None and reference not in known:
                raise ValueError(f"column {column} refers to id {reference}, which is nowhere")
            values[column] = element if reference is None else known[reference]
        yield values


def shown(element):
    return element.get("fmt") or element.text or ""


def sums(document, name, process):
    """Number, sum and maximum of durations in nanoseconds by name; columns that were seen."""
    found, seen = {}, set()
    for row in rows(document):
        seen.update(row)
        column = name or next((column for column in NAMES if column in row), None)
        if column not in row or "duration" not in row:
            continue
        if process and ("process" not in row or process not in shown(row["process"])):
            continue
        nanoseconds = int(row["duration"].text)
        count, total, most = found.get(shown(row[column]), (0, 0, 0))
        found[shown(row[column])] = (count + 1, total + nanoseconds, max(most, nanoseconds))
    return found, seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="XML of a table [default: standard input]")
    parser.add_argument("--name", help="column that names what ran")
    parser.add_argument("--process", help="only rows of processes whose name contains this")
    args = parser.parse_args()
    try:
        document = ElementTree.parse(args.file or sys.stdin.buffer)
        found, seen = sums(document, args.name, args.process)
    except (OSError, ValueError, ElementTree.ParseError) as error:
        sys.exit(f"trace_durations: {error}")
    if not found:
        sys.exit(f"trace_durations: no durations with names, columns are: {', '.join(sorted(seen)) or 'none'}")
    print(f"{'calls':>8} {'total ms':>11} {'mean us':>9} {'max us':>9}  name")
    for name, (count, total, most) in sorted(found.items(), key=lambda entry: (-entry[1][1], entry[0])):
        print(f"{count:>8} {total / 1e6:>11.3f} {total / count / 1e3:>9.1f} {most / 1e3:>9.1f}  {name}")


if __name__ == "__main__":
    main()
