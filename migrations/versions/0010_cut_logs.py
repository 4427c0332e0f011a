"""Followers of a log lose their places with the events that are cut off its end."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_STATEMENTS = (
    """
    CREATE OR REPLACE FUNCTION event_cut() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        cut record;
        why text;
    BEGIN
        FOR cut IN
            SELECT found.cloud_id, coalesce((SELECT max(seq) FROM event WHERE cloud_id = found.cloud_id), 0) AS last_seq
            FROM (SELECT DISTINCT cloud_id FROM gone) AS found
        LOOP
            why := format('preemptible.log.put_back: the log was cut off after event %s, and events after it had been '
                'settled', cut.last_seq);
            UPDATE webhook SET paused_because = why,
                urgent_seq = least(urgent_seq, cut.last_seq), ordinary_seq = least(ordinary_seq, cut.last_seq)
            WHERE cloud_id = cut.cloud_id AND greatest(urgent_seq, ordinary_seq) > cut.last_seq;
            DELETE FROM webhook_dead USING webhook WHERE webhook.id = webhook_dead.webhook_id
                AND webhook.cloud_id = cut.cloud_id AND webhook_dead.seq > cut.last_seq;
            -- Whoever is adding to the history now has read the events that go.
            PERFORM FROM utilisation_progress WHERE cloud_id = cut.cloud_id FOR UPDATE;
            UPDATE utilisation_progress SET seq = 0, at_us = 0, begin_us = 0
            WHERE cloud_id = cut.cloud_id AND seq > cut.last_seq;
            IF FOUND THEN
                DELETE FROM utilisation WHERE cloud_id = cut.cloud_id;
                DELETE FROM utilisation_level WHERE cloud_id = cut.cloud_id;
            END IF;
        END LOOP;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER event_cut AFTER DELETE ON event REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION event_cut()
    """,
)


def upgrade() -> None:
    """Add the trigger. The service deletes events of unfinished imports alone, so it costs nobody anything."""
    for statement in _STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    """Remove the trigger."""
    op.execute("DROP TRIGGER event_cut ON event")
    op.execute("DROP FUNCTION event_cut()")
