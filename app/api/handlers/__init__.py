"""What each URL does: read the request, call one service, answer."""
