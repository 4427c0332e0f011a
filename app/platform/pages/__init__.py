"""The frame of the operator's pages: who may see them, templates, words."""
