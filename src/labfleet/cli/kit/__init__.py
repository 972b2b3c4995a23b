"""What commands are made of: options, the API client, output, targets, exit codes."""
