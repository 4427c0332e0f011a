"""Runs the migrations on the connection passed by app/platform/database/migrating.py, each in its own transaction."""

from __future__ import annotations

from alembic import context

from app.platform.database.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_server_default=True,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
