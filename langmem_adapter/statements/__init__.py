"""Short statements, read by one table: person, attribute, value, affirmed or denied, relations."""
