"""This capability keeps and shows the history of utilisation."""
