"""How a step reaches the parties: the same verbs over every channel."""
