"""What tools a version contains: how they are named, guarded, compared over time and served."""
