"""Pure rules between Nova and Tenure: names, sizes, and what is to be done about each server."""
