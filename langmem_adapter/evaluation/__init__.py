"""What a memory finds, measured: data sets, metrics, a run, its report, another one beside it."""
