"""The memory over HTTP: REST in Mem0's shape and in our own, for programs in any language (extra `server`)."""
