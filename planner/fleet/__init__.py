"""What to buy, when and where, over years: a purchase plan solved exactly, with its gap."""
