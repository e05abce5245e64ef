"""From a user's table to flat arrays: files and frames, columns, times, values, statics, labels."""

try:
    import polars
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"reading a table needs {error.name}, which is not installed. Install it with: pip install 'phased[estimator]'",
        name=error.name,
    ) from error

__all__ = ["polars"]
