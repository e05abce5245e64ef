"""The report as an HTML page: its charts, its words and its template."""

from importlib.resources import files


def filled(template: str, **values: object) -> str:
    """Return a page: the template with its values."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = files("phased_lab.report.html").joinpath("templates", template).read_text(encoding="utf-8")
    return environment.from_string(text).render(values)
