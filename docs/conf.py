"""Settings of the documentation: sphinx with executed myst-nb pages, and nothing fetched."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import sphinx_autosummary_accessors
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

import xr_lstsq  # noqa: F401 - registers .lstsq, which the reference documents

# Executed pages run in a process of their own; progress has no place on a page.
os.environ["TQDM_DISABLE"] = "1"

settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))

project = settings["project"]["name"]
author = settings["project"]["authors"][0]["name"]
copyright = f"{author}. Apache-2.0"
release = settings["project"]["version"]
version = release

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_autosummary_accessors",
]
templates_path = ["_templates", sphinx_autosummary_accessors.templates_path]
exclude_patterns = ["_build", "jupyter_execute", "**/.ipynb_checkpoints"]
nitpicky = False

# Pages
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_output_stderr = "error"  # a page that warns does not build
nb_render_markdown_format = "myst"  # tables that a page makes

# API pages
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False  # types are prose ("name or names"), not names to be linked
default_role = "py:obj"  # `name` links to what is documented here, and is code otherwise

# HTML
html_theme = "sphinx_book_theme"
html_title = f"{project} {release}"
html_static_path = ["_static"]
html_css_files = ["formula.css"]
html_theme_options: dict[str, Any] = {
    "navbar_persistent": [],  # one search field, in the sidebar
    "show_toc_level": 2,
    "use_download_button": False,
}


def visit_math(translator: Any, node: nodes.Element) -> None:
    """Write an inline formula as MathML, which browsers draw without a script to fetch."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_math_block(translator: Any, node: nodes.Element) -> None:
    """Write a displayed formula as MathML."""
    translator.body.append(translator.starttag(node, "div", CLASS="formula"))
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the MathML writer."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))


html_math_renderer = "mathml"
