"""Physics of training and serving on clusters; knows no price, no file and no study."""
