"""The event stream. Start at `stream`; `ring` has the recent events, `open_stream` a connection.

`latest_frames` has what is told beside objects: samples, alerts and places in the queue.
"""
