"""Resources and prompts of the servers behind a gateway: lists, contents, completion and subscriptions."""
