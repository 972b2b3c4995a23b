"""The seam for runs of the product itself in virtual time (part 2); empty until then."""
