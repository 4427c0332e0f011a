"""Handlers of requests that change or read a cloud."""
