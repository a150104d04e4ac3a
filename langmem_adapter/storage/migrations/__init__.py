"""How the tables come to be, and change: Alembic revisions inside the package, run at open in one transaction."""
