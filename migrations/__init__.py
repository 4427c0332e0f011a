"""Alembic's migrations; `app.store.database.upgrade` runs them."""
