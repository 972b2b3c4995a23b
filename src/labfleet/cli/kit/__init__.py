"""What all commands share. Start at `call`, the frame of every command.

`options` has the flags of all commands, `client` the API, `output` the formats, `exits` the codes.
"""
