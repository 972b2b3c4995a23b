"""Routes and streams under the names, fields and words of the systems that this one replaces."""
