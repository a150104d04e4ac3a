"""Work on a whole database: changing its embedding model, tidying its memories."""
