"""The pages for people, rendered on the server, following the event stream.

Start at `application`; `overview` and `details` make a page's data, `doors` has the sign-in rules.
"""
