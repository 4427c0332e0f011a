"""One module a page: read the services, put together what the template shows."""
