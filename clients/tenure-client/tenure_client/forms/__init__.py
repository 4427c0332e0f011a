"""The forms of all answers, which the service writes and clients read.

Fields and units are those of the HTTP interface. Additions of newer services do no harm: unknown fields are ignored,
and words (statuses, reasons, markets, roles) are plain strings.
"""
