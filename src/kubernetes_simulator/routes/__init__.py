"""The API as values: requests in, replies or watches out. No sockets. Start at `dispatch`."""
