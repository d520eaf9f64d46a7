"""The sentences that cross the silo boundary, by rule: no value can ride along."""

from collections.abc import Mapping
from types import MappingProxyType

# rule -> (what it says, what to do).
RULES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "min_parties": (
            "the study has fewer parties than this silo's policy asks for",
            "Add silos to the study, or let every silo lower min_parties in its "
            "policy: with two parties a total tells each the other's value.",
        ),
        "min_rows": (
            "too few rows would stand behind, or be left out of, the release",
            "Leave this silo out of the study, or let it lower min_rows in its policy.",
        ),
        "min_rows_per_class": (
            "a class has too few rows in this silo",
            "Merge rare classes, or let the silo lower min_rows_per_class.",
        ),
        "max_feature_ratio": (
            "too many features for the silo's rows in a release over pairs of "
            "features, or too many mixtures of them, over all requests",
            "Select fewer columns, keep the random_state of before, or let the silo "
            "raise max_feature_ratio.",
        ),
        "max_row_share": (
            "one row dominates a derived column",
            "Derive the column otherwise, or let the silo raise max_row_share.",
        ),
        "allow_disclosed": (
            "the step would show this silo's own value, not a total",
            "Use a method that needs totals only, or let the silo set allow_disclosed.",
        ),
        "factor_columns": (
            "the silo's matrix has a higher rank than its factors may have columns",
            "Allow the factors as many columns as the largest silo has rows, or let "
            "the silos add squares (factors=False).",
        ),
        "allow_row_level": (
            "the release has an axis over people",
            'Let the silo set allow_row_level, to "parties" where the parties alone '
            'open the release (scores="parties"), else to true.',
        ),
        "allow_roster_change": (
            "a column was answered about for another set of parties before, and the "
            "difference of the totals would be one party's own value",
            "Keep the parties of the earlier study, or let the silo set "
            "allow_roster_change or roster_period_days.",
        ),
        "min_changed_rows": (
            "too few rows changed since the step was answered before",
            "Wait until more rows have changed, or let the silo lower "
            "min_changed_rows.",
        ),
        "another_filling": (
            "few cells of a column are missing, and they were filled otherwise before: "
            "the two subtract to the rows that they stand in",
            "Fill the column as before, or leave it out.",
        ),
        "require_privacy": (
            "the silo demands differential privacy and the release has none",
            "Ask for a private release, or let the silo drop require_privacy.",
        ),
        "privacy_budget": (
            "the silo's privacy budget has no room for what the release costs",
            "Ask for a smaller epsilon, or let the silo raise privacy_budget: it is "
            "spent over all studies and does not come back.",
        ),
        "private_inputs": (
            "a private release reads a fitted transform, a fold or a split, which tell "
            "of the rows without noise",
            "Scale the columns by public constants in the silos' sources, and fit on "
            "all rows.",
        ),
        "allowed_steps": (
            "the step is not installed in the silo, or not on its list",
            "Let the silo add the step to allowed_steps in its policy.",
        ),
        "allowed_columns": (
            "the study reads a column that the silo does not allow",
            "Select allowed columns only, or let the silo add to allowed_columns.",
        ),
        "transform_not_fitted": (
            "the view applies a transform that this study did not fit in this silo",
            "Fit the transform in the same study, or let the silo list its step in "
            "allowed_steps.",
        ),
        "unknown_columns": (
            "the silo's table lacks a column that the study names",
            "Compare the study's columns with what the silo declares.",
        ),
        "no_ids": (
            "the silo's table has no column of ids to match rows by",
            "Let the silo name its ids (`ids` in its file), or declare that the tables "
            "of all silos are aligned already.",
        ),
        "missing_ids": (
            "a row of the silo has no id, or one that may have lost digits",
            "Let the silo fill in its ids, as text or whole numbers.",
        ),
        "duplicate_ids": (
            "an id stands in several rows of the silo",
            "Let the silo keep one row for each id: case, white space and the form of "
            "numbers make no difference.",
        ),
        "no_common_rows": (
            "no id is common to all silos",
            "Compare how the silos write their ids: the match is on the whole id.",
        ),
        "no_variance": (
            "the silo's columns do not vary, or nothing is left of them",
            "Leave constant columns out; ask for fewer components.",
        ),
        "missing_values": (
            "Input X contains NaN: there are missing values and the step takes none",
            "Impute first, for instance make_pipeline(SimpleImputer(), ...).",
        ),
        "empty_column": (
            "a column of this silo has no value at all",
            "Leave the column out with select, or keep empty features "
            "(keep_empty_features=True fills them with 0).",
        ),
        "missing_labels": (
            "rows without a label",
            "Leave them out of the silo's source, or label them.",
        ),
        "label_values": (
            "the label has values too long or too many to be class names",
            "Choose another label, or recode it in the silo's source.",
        ),
        "classes": (
            "the label has values that are not among the study's classes",
            "Name every class, or let the silos tell them (classes=None).",
        ),
        "singular": (
            "a matrix that the step inverts has no inverse",
            "Choose a ridge or fewer columns.",
        ),
        "infinite_values": (
            "Input X contains infinity, or a value too large",
            "Replace infinite values in the silo's source before the study.",
        ),
        "fixed_point_range": (
            "a value is not finite or too large for the secure sum's code",
            "Look in the silo for infinite values; rescale columns beyond 1e15.",
        ),
        "public_bound": (
            "a value exceeds the bound that earlier totals put on it",
            "The rows may have changed between two rounds: run the study again.",
        ),
        "declaration": (
            "the step's result is not what it declares",
            "This is a mistake in the step: compare its result with its decorator.",
        ),
        "arguments": (
            "the public arguments are not the ones the step declares",
            "Both ends must run the same version of the step.",
        ),
        "malformed_message": (
            "a message is not in the form that the protocol gives it",
            "Check that all ends run the same version and nothing alters messages.",
        ),
        "wrong_signature": (
            "a message is not signed by the identity that the roster pins",
            "Compare the silos' roster files; a relay may have altered keys.",
        ),
        "sealed_message": (
            "what a neighbour sealed for this silo was altered on its way, repeated, "
            "cut, or sealed for another round",
            "Start the fit again; if it comes back, the relay alters messages.",
        ),
        "averages": (
            "what neighbours averaged does not hold together",
            "Start the fit again; see that all silos run the same version.",
        ),
        "wrong_roster": (
            "the study's parties are not the ones on this silo's roster",
            "Exchange public keys again, so that all silos pin the same roster.",
        ),
        "out_of_order": (
            "a message does not belong to the round under way",
            "Start the fit again: its keys are fresh each time.",
        ),
        "replayed": (
            "the round was answered before, to another request",
            "Start the fit again: a mask is never used twice.",
        ),
        "audit_log": (
            "the silo's audit log cannot be written, and nothing leaves unwritten",
            "Let the silo make room for the log, or restore it from a backup.",
        ),
        "partition": (
            "the silo did not declare that it takes part in studies of this partition",
            'Let the silo write partition = "columns" (other columns about the same '
            'people) or "rows" into its silo.toml, as the study has it.',
        ),
        "refusals": (
            "the silo refused so often in this study that its refusals would tell",
            "Ask what the plan says, under another study's name.",
        ),
        "foreign_job": (
            "the job is not that of a study: it brings files or names other classes",
            "Submit studies with unpooled run, of the version that the silos have.",
        ),
        "approval": (
            "no person at the silo approved the study as it is, or the step in it",
            "Let somebody there look at the plan: unpooled silo approve STUDY.",
        ),
        "delivery": (
            "the silo takes no such file: it took no part in the study, keeps no "
            "models, or the file is too large",
            "Hand the model over outside the study.",
        ),
        "two_parties": (
            "fewer than three parties cannot compare in secret: each would see all",
            "Add a silo, let the coordinator compute as a declared third "
            '(allow_coordinator_party=True), or use comparison="summed".',
        ),
        "committee": (
            "more than five silos compare in secret only by a committee that all pin",
            "Let every silo and the server write the same line at the top of its "
            'roster file: committee = ["...", "...", "..."], three to five silos.',
        ),
        "mpc": (
            "the silo has not installed what secure comparisons need",
            'Install it there: pip install "unpooled[mpc]". Or use '
            'comparison="summed".',
        ),
        "comparison": (
            "the parties' secure computation stopped: a party's process ended, could "
            "not start, or did not answer in time",
            "See that all silos are there; then go on with resume.",
        ),
        "indefinite_kernel": (
            "the kernel matrix has negative eigenvalues beyond rounding",
            "Ask for fewer components, or choose another kernel, gamma or coef0.",
        ),
        "nothing_kept": (
            "the silo keeps nothing under the name that the step reads",
            "Run the steps of the fit in their order.",
        ),
        "failed_in_silo": (
            "the step failed in the silo",
            "The reason is in the silo's own log, which does not leave it.",
        ),
    }
)
