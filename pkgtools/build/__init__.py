"""Building: a plan with another writer than a user's tree at its end."""
