"""Why a decision was taken, in fields and in sentences."""
