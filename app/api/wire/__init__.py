"""What bodies, queries and answers look like on the wire; OpenAPI is made from these."""
