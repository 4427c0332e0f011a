"""Pure rules of venues: prices, survival under a bid, minimum bids, costs. No clock, no input or output."""
