"""The forms of all answers: the service writes them, clients read them.

Fields and units are those of the HTTP interface. What a newer service adds does no harm: unknown fields are passed
over, and words (statuses, reasons, markets, roles) are plain strings.
"""
