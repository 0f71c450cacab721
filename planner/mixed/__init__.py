"""One cluster that serves by day and trains in the troughs, against two clusters apart."""
