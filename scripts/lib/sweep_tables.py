# SPDX-License-Identifier: Apache-2.0
"""One table of all runs of a sweep, as text and CSV, and means over seeds."""

import csv
import re
import statistics

FIGURES = ["test_accuracy", "node_test_accuracy_mean", "gb_per_node", "paper_gb_per_node",
           "compression_ratio", "bits_per_value", "images_per_second"]
MEANS = FIGURES[:4]  # columns of the table of means over seeds
ROOMS = ["data", "compute", "encode", "transfer", "decode", "update", "total"]
COLUMNS = (["config", "sets", "seed"] + FIGURES + [f"{room}_seconds" for room in ROOMS]
           + ["wall_seconds", "ranks", "link", "state"])
NUMBER = r"[+-]?[0-9.]+(e[+-]?[0-9]+)?"
# Fractions in the CSV, percent in the text table.
PERCENT = {"test_accuracy", "node_test_accuracy_mean", "test_accuracy_deviation"}
HEADS = {"gb_per_node": "GB sent per rank", "paper_gb_per_node": "GB as papers count"}
# Digits after the decimal point in the text table [3]; the CSV has all digits.
DIGITS = {"test_accuracy": 2, "node_test_accuracy_mean": 2, "test_accuracy_deviation": 2,
          "gb_per_node": 4, "paper_gb_per_node": 4, "seeds": 0, "ranks": 0, "compression_ratio": 2,
          "bits_per_value": 2, "images_per_second": 1, "wall_seconds": 1}


def text_cell(column, value):
    if value is None or value == "":
        return "-"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = 100 * value if column in PERCENT else value
        digits = 1 if column.startswith("plan_") else DIGITS.get(column, 3)
        return f"{value:.{digits}f}"
    return str(value)


def csv_cell(value):
    """A spreadsheet would compute a text that begins with =, +, - or @ and is no number."""
    formula = isinstance(value, str) and re.match(r"[=+@\t\r-].", value) and not re.fullmatch(NUMBER, value)
    return f"'{value}" if formula else value


def text_table(rows, columns=COLUMNS):
    """Aligned columns: words to the left, numbers to the right; empty columns are left out."""
    heads = {name: HEADS.get(name, name.replace("_seconds", " s").replace("_", " ")) for name in columns}
    heads.update((name, heads[name] + " %") for name in columns if name in PERCENT)
    cells = {name: [text_cell(name, row.get(name)) for row in rows] for name in columns}
    shown = [name for name in columns
             if name in ("config", "state") or any(cell != "-" for cell in cells[name])]
    lines = []
    for i in range(-1, len(rows)):
        line = []
        for name in shown:
            width = max(len(heads[name]), *(len(cell) for cell in cells[name]))
            cell = heads[name] if i < 0 else cells[name][i]
            line.append(cell.ljust(width) if name in ("config", "sets", "state")
                        else cell.rjust(width))
        lines.append("  ".join(line).rstrip())
    return "\n".join(lines) + "\n"


def means_over_seeds(rows, planned):
    """A row for each combination that finished with several seeds; `planned` are columns of plans."""
    groups = {}
    for row in rows:
        if row["state"] == "ok":
            key = (row["config"], row["sets"], row["ranks"], row["link"])
            groups.setdefault(key, []).append(row)
    means = []
    for (config, sets, ranks, link), group in groups.items():
        if len(group) < 2:
            continue
        mean = {"config": config, "sets": sets, "ranks": ranks, "link": link, "seeds": len(group)}
        for name in [*MEANS, *planned]:
            known = [row[name] for row in group if row.get(name) is not None]
            mean[name] = statistics.fmean(known) if len(known) == len(group) else None
        accuracies = [row["test_accuracy"] for row in group]
        mean["test_accuracy_deviation"] = (None if None in accuracies
                                           else statistics.stdev(accuracies))
        means.append(mean)
    return means


def write_tables(out, runs, planned=()):
    rows = [run.row() for run in runs]
    place = COLUMNS.index("ranks")
    all_columns = [*COLUMNS[:place], *planned, *COLUMNS[place:]]
    (out / "table.txt").write_text(text_table(rows, all_columns), encoding="utf-8")
    means = means_over_seeds(rows, planned)
    if means:
        columns = ["config", "sets", "seeds", "test_accuracy", "test_accuracy_deviation", *MEANS[1:],
                   *planned, "ranks", "link"]
        (out / "means.txt").write_text(text_table(means, columns), encoding="utf-8")
    with (out / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, all_columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
