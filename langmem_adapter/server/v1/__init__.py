"""Our own routes: all that `Memory` can do, page by page, as jobs, as streams; errors as problem details (RFC 9457)."""
