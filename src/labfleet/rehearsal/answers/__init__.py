"""A what-if's answer: figures by variant, the best one; as text, JSON, CSV. Start at `report`."""
