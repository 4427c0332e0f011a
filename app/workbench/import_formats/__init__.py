"""The file formats in which a past is read."""
