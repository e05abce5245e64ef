"""Pictures drawn with matplotlib, which is imported when the first of them is drawn."""

from phased.lazy import exports

__getattr__, __dir__ = exports(
    __name__,
    {
        "annotate": ("caption", "distance", "drop_line", "end_labels", "panel", "plain_logarithm"),
        "style": ("FAINT", "INK", "QUIET", "UNITS", "figure"),
    },
)
