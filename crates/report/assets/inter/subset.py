"""Cuts the embedded fonts out of the npm package inter-ui (see README.md): subset.py PACKAGE_DIR OUT_DIR"""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

PUNCTUATION = [0x131, 0x152, 0x153, 0x2009, 0x2013, 0x2014, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2026, 0x2032]
SYMBOLS = [0x20AC, 0x2122, 0x2191, 0x2193, 0x2212, 0x2265]
CHARACTERS = [*range(0x20, 0x7F), *range(0xA0, 0x100), *PUNCTUATION, *SYMBOLS]
LAYOUT = ["GSUB", "GPOS", "GDEF", "kern", "STAT", "DSIG", "gasp"]


def tabular(font):
    """Glyph substitutions of the feature `tnum`: figures of equal width."""
    table, found = font["GSUB"].table, {}
    for record in table.FeatureList.FeatureRecord:
        for index in record.Feature.LookupListIndex if record.FeatureTag == "tnum" else []:
            for part in table.LookupList.Lookup[index].SubTable:
                found.update(getattr(part, "ExtSubTable", part).mapping)
    return found


def main(package, out):
    for name in ("Regular", "SemiBold"):
        font = TTFont(package / "web" / f"Inter-{name}.woff2")
        font.flavor = None
        figures = tabular(font)
        for table in font["cmap"].tables:
            digits = {c: figures[g] for c, g in table.cmap.items() if 0x30 <= c <= 0x39 and g in figures}
            table.cmap.update(digits)
        options = subset.Options(layout_features=[], hinting=False, notdef_outline=True, name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14])
        options.drop_tables += LAYOUT
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=CHARACTERS)
        subsetter.subset(font)
        font.save(out / f"Inter-{name}.subset.ttf")


main(Path(sys.argv[1]), Path(sys.argv[2]))
