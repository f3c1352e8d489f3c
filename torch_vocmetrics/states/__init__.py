"""States of metrics as plain data, in bytes and in files."""
