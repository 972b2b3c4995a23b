"""What can be asked: lists, explanations, telemetry, idleness. Reading only, with one exception in `regions`."""
