"""What can be asked, without changing anything. Start at `explain` or `listing`."""
