"""An analyst's tools; no service needs them."""
