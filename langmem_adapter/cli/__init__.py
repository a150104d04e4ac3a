"""The command `langmem-adapter`: one module per group of commands; `app` puts them together."""
