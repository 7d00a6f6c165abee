"""Programs at random: written as modules, run eagerly and compiled, compared, and made smaller where they differ."""
