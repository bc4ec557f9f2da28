"""Walls around local servers: the files, hosts and resources that each may use."""
