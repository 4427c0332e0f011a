"""An analyst's tools. No service needs them."""
