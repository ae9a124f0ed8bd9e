"""Sphinx: pip install '.[docs]', then sphinx-build docs docs/_build."""

project = "Agent-R1"
extensions = ["myst_parser"]
html_theme = "furo"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
