"""Pictures of results: charts and scatter plots by matplotlib, and their SVG."""
