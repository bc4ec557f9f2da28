"""Who may run which tools: rules, their readings of resource names, and the authorization of calls.

It exports nothing, because `execution.call` needs the rules, and the rules need the call.
"""
