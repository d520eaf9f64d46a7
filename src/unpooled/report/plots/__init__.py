"""Pictures of results, drawn with matplotlib and set into the page as SVG."""
