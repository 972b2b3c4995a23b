"""What people do on pages: one table of acts, each shown with its consequence before it is done.

`table` lists them all; `act` says what one is, `fields` what its form asks, `seals` makes forms that
only we can have sent, `page` answers for one object, `many` for several.
"""
