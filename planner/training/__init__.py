"""Training studies: from columns of decisions to columns of metrics."""
