"""The report as an HTML page: its charts, its words and its template."""
