"""The capstone: all of a student's passed pieces together in one engine.

    pieces    which exercises are passed, and what of their files an engine runs
    merge     one source for each engine module, with the changed definitions of several files
    finder    loads the merged sources in place of the engine's modules
    matcher   grammars on the student's regular expressions, in place of llguidance
    trial     a child process that runs the capstone's scenario on some of the pieces
    assemble  leaves out the pieces that change an event, and says what they change

A piece that passes its own exercise can still be wrong beside others. So nothing is shown before a
trial on a virtual clock gave the same events as the engine's own code.
"""
