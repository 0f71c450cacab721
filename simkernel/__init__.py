"""Physics of training and serving on accelerator clusters; knows no price, no file and no study."""
