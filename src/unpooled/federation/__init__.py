"""The federation that estimators are fitted on: its verbs, its views, its channels."""
