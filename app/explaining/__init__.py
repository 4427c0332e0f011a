"""This capability tells why a decision was taken, in fields and in sentences."""
