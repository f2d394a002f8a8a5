"""How Sphinx builds the documentation: `make docs`. Nothing is fetched, neither by the build nor by the pages."""

project = "BlockHolE"
author = "the BlockHolE contributors"
root_doc = "index"
language = "en"
nitpicky = True  # with -W, a link that leads nowhere ends the build

extensions = ["myst_parser"]
myst_heading_anchors = 3  # as on GitHub: `page.md#heading`

html_theme = "furo"
html_title = "BlockHolE"
html_show_copyright = False
html_copy_source = False
