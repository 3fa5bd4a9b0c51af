"""docs/configuration.md has every key with its rule and default, and no other."""

import re
from pathlib import Path

import pytest

from nas.config import SearchConfig
from nas.config_sections import Section

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def keys():
    for table, field in SearchConfig.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from ((table, inner.alias or key, inner) for key, inner in kind.model_fields.items())


def rows():
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## `\[(\w+)\]`", line):
            table = heading[1]
        if row := re.match(r"\| `(\w+)` \| (.*?) \| (.*?) \| .* \|$", line):
            found[table, row[1]] = (row[2], row[3])
    return found


def test_every_key_is_there_and_no_other():
    declared = {(table, key) for table, key, _ in keys()}
    fixed = {(table, key) for table, key in rows() if table in {name for name, _ in declared}}
    assert fixed == declared
    for table in SearchConfig.model_fields:
        assert f"## `[{table}]`" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("table", "key", "field"), [pytest.param(*entry, id=f"{entry[0]}.{entry[1]}") for entry in keys()]
)
def test_rule_and_default_are_those_of_the_code(table, key, field):
    rule, default = rows()[table, key]
    assert rule.replace("\\", "") == field.description
    said = {None: "none", 600.0: '`"10m"`'}.get(field.default, f'`"{field.default}"`')
    if field.is_required():
        said = "required"
    elif isinstance(field.default, int) and not isinstance(field.default, bool):
        said = f"`{field.default}`"
    assert default == said
