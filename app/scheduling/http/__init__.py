"""Requests that change or read a cloud."""
