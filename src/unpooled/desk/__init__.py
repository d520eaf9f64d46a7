"""Local pages for people who decide about studies, without a terminal.

The desk of a silo (`silo_desk`) and that of the coordinator (`coordinator_desk`) are
opened in one browser by a one-time link (`door`). What they show comes from the silo's
audit log (`history`), its own plan of a study (`plan_in_words`), its policy and budgets
(`account`) and its machine (`health`); the looks are those of the report.
"""
