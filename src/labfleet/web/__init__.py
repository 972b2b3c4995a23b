"""The pages for people, rendered on the server, following the event stream.

Start at `application`; `overview` and `details` say what is on a page, `doors` who gets in.
"""
