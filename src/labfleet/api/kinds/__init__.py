"""The routes that every kind has, from create to delete. Start at `kind_routes`."""
