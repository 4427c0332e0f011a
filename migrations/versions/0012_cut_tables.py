"""Tables and the snapshot go with the events that they were computed from, when these are cut off a log's end."""

from __future__ import annotations

from importlib import import_module

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_FUNCTION = """
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
            DELETE FROM quantile_table WHERE cloud_id = cut.cloud_id AND seq > cut.last_seq;
            DELETE FROM snapshot WHERE cloud_id = cut.cloud_id AND seq > cut.last_seq;
        END LOOP;
        RETURN NULL;
    END $$
"""


def upgrade() -> None:
    """Replace the function of the trigger of revision 0010. Programs of before see tables go as after a put back."""
    op.execute(_FUNCTION)


def downgrade() -> None:
    """Restore the former function."""
    op.execute(str(vars(import_module("migrations.versions.0010_cut_logs"))["_STATEMENTS"][0]))
