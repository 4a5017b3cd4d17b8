"""What a fit prints, read back."""


def facts(summary):
    """The rows of names and values in a summary's tables."""
    return {row[0]: row[1] for table in summary.tables for row in table.rows if len(row) == 2}


def columns(summary):
    return {column for table in summary.tables for column in table.columns}


def information_criteria(fit):
    """Log likelihood, AIC and BIC of the regression table, to two decimals: three are printed."""
    found = facts(fit.regression_table())
    return tuple(round(float(found[name].replace("−", "-")), 2) for name in ("log likelihood", "AIC", "BIC"))
