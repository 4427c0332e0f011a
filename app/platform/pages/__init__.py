"""The frame of the operator's pages: access, templates, words."""
