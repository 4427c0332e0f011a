"""This capability keeps access tokens and signs people in."""
