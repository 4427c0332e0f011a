"""Composition: what each kind of process is made of."""
