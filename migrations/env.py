"""Runs the migrations on the connection that `app.store.database.upgrade` hands over, in its transaction."""

from __future__ import annotations

from alembic import context

from app.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, compare_server_default=True
)
context.run_migrations()
