"""How a trial is split over devices: plans, and one file an axis."""
