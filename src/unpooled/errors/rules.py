"""The rules under which an error may leave a silo, each with its fixed sentences."""

from collections.abc import Mapping
from types import MappingProxyType

# Rule -> (what is wrong, what to do). Fixed texts: no value can leave with an error.
RULES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "min_parties": (
            "the study has fewer parties than this silo's policy requires",
            "Add silos to the study, or let every silo lower min_parties in its "
            "policy. With two parties, each can subtract its own value from a total.",
        ),
        "min_rows": (
            "the release, or a block of a fold or split, would cover too few of the "
            "silo's rows (of those without a missing cell, in an analysis of complete "
            "rows), or a column in which too few rows of all silos have a value",
            "Leave this silo, or columns with few values, out of the study, or let the "
            "silo lower min_rows in its policy.",
        ),
        "min_rows_per_class": (
            "a class has too few rows",
            "Merge rare classes, or let the silo lower min_rows_per_class.",
        ),
        "min_own_cells": (
            "too few of the silo's rows, such as one, have a value in a column, lack "
            "it, have it in one column of a pair alone, or are of a class or in a bin",
            "Leave the column out with select, merge rare classes, or choose fewer "
            "bins, no indicators of missing cells (add_indicator), or complete rows "
            "in place of pairs; or let the silo lower min_own_cells.",
        ),
        "max_feature_ratio": (
            "the silo has too few rows for a release over pairs of features, for one "
            "of drawn features, or for folds and splits that differ",
            "Select fewer columns, merge rare categories (min_frequency), use the same "
            "random_state as before, a larger part, or another number of folds (of "
            "fewer, each leaves out more rows; of more, each leaves more to fit), or "
            "let the silo raise max_feature_ratio.",
        ),
        "shared_blocks": (
            "too few silos have as many blocks of rows as the folds or splits name, so "
            "that a part would have the rows of one silo or of two, or of all but one",
            "Choose fewer folds, or larger parts; each block has min_rows rows, in "
            "every silo that has five blocks, and in three silos at least.",
        ),
        "rows_of_parts": (
            "among the rows by which folds or splits differ, one is nearly all of a "
            "column, or few have a derived one, so that sums with it would be these "
            "rows' cells",
            "Choose fewer folds or larger parts, fewer bins, or leave rare columns out "
            "(unpooled.RareColumns, with a min_rows of about ten for each silo and "
            "part); or let the silo raise max_leverage.",
        ),
        "max_leverage": (
            "one row carries a direction of the columns alone, so that products of "
            "pairs of columns, with those that were answered before, would be that "
            "row's record",
            "Leave rare columns out (unpooled.RareColumns, with a min_rows of about "
            "ten for each silo), or columns that differ in one row only, which the "
            "silo finds in its log; or let it raise max_leverage.",
        ),
        "weighted_rows": (
            "with the weights of this model one row is nearly all of a sum, which "
            "would be that row's record",
            "Few of the silo's rows have a category or flag, some values of a "
            "predictor are far from all others, the offset has too large a range, or "
            "the columns separate the responses: leave rare columns out "
            "(unpooled.RareColumns, with a min_rows of about ten for each silo), take "
            "logarithms, or use a stronger penalty (a smaller C, such as C=0.01, of "
            "standardised columns). Robust standard "
            'errors weigh rows by squared residuals: cov_type="nonrobust" does not. Or '
            "let the silo raise max_leverage.",
        ),
        "max_released_share": (
            "the numbers opened so far, over all studies, are too many for the cells "
            "of the columns that they are about",
            "Ask for fewer totals (fewer folds, fits, columns or classes; of a "
            'logistic regression, solver="bfgs"; in folds of many classes a '
            "LinearDiscriminantAnalysis), or let the silo raise max_released_share.",
        ),
        "categories": (
            "a column holds categories, and the step computes with numbers",
            "Encode the columns of categories first (unpooled.OneHotEncoder), or leave "
            "them out with select.",
        ),
        "derived_cells": (
            "a derived column has no value in some row: a cell that it reads is "
            "missing, 0 below a fraction line, or not positive under a logarithm",
            "Impute the columns first (unpooled.SimpleImputer), or leave such rows out "
            "(where).",
        ),
        "derived_rows": (
            "in a derived column few of the silo's rows have another value than all "
            "its other rows, or one row is nearly all of the variance, or of products "
            "with another column or by class, or its quantiles are those of another "
            "column in more units than two",
            "Leave such a column out of the study: the derived one, or, beside "
            "products, ratios and logarithms, any other in which few rows differ, such "
            "as a rare flag.",
        ),
        "derived_order": (
            "columns are derived of others that a transform made",
            "Derive all columns of the table's own ones, behind an imputer at most.",
        ),
        "allow_disclosed": (
            "the step would disclose this silo's own value, not only a total",
            "Use a method that needs totals only, or let the silo set allow_disclosed.",
        ),
        "within_silos": (
            "columns have each silo's own mean or intercept taken off or added, and "
            "the step is no sum of their values and products, so that it would tell "
            "this mean or intercept",
            "Fit on the columns as they are (with site_effects=True where the model "
            "has it), or let the silo set allow_disclosed.",
        ),
        "factor_columns": (
            "the silo's matrix has a higher rank than its factors may have columns",
            "Allow the factors as many columns as the largest silo has rows, or add "
            "the p × p matrices instead (factors=False).",
        ),
        "allow_row_level": (
            "the release has one entry per row, that is, per person, or shares of such "
            "entries, or is a sum over silos with different columns, of which two tell "
            "one silo's own part",
            'Let the silo set allow_row_level: to "parties" where only the parties '
            'open the release (scores="parties", or solver="spans" of CCA), to true '
            "otherwise.",
        ),
        "allow_order_statistics": (
            "the search for a quantile would go on to fewer values than the silo's "
            "policy requires, such as one person's",
            "Choose min_rows as large as that of every silo's policy, or let the silo "
            "set allow_order_statistics.",
        ),
        "allow_roster_change": (
            "the silo's table was released before with another set of parties, and the "
            "difference of the two totals would be one party's own value",
            "Keep the parties of the earlier study, or let the silo set "
            "allow_roster_change or roster_period_days.",
        ),
        "min_changed_rows": (
            "the rows, or those with a value in a column, differ in too few from "
            "others that the silo answered about",
            "Wait until more rows have changed, do not ask both about complete rows "
            "and about all rows, or let the silo lower min_changed_rows.",
        ),
        "changed_rows": (
            "rows came to the silo's table since it answered, and it would not answer "
            "about them by themselves: they are too few for the columns, or of some "
            "class or column, or one of them carries a direction of the columns",
            "Wait until more rows have come, or ask about fewer columns or without the "
            "label. Limits are those of the silo's policy: max_feature_ratio, "
            "min_rows_per_class, min_rows, max_leverage.",
        ),
        "another_filling": (
            "few cells of a column are missing, or few rows lack the same ones, and "
            "they were imputed or left out differently before: the difference of the "
            "two totals would describe these rows",
            "Impute the column as before, or leave it out.",
        ),
        "imputed_parts": (
            "an imputation of cells from other cells is fitted on all rows: in a part "
            "of them few may lack the same cells",
            "Impute all rows first, and cross-validate what follows: fit the "
            "IterativeImputer before folds and splits, not within them.",
        ),
        "one_setting": (
            "the silo answered this step about these columns with another setting, or "
            "with another column of clusters, and totals for several would give the "
            "silo's own part of them, or a few rows",
            "Keep the setting and the transforms of the first study, use a solver that "
            'adds over rows (solver="exact"), or let the silo set allow_disclosed.',
        ),
        "people_and_columns": (
            "the silo answered about the same columns by sums with an entry for each "
            "person, or by correlations between silos' columns, and both together "
            "would give every cell",
            "Ask for one of the two: Correlation of these columns, or models that open "
            "sums about people.",
        ),
        "one_description": (
            "the silo's own rows were described as a whole, or by another label, and "
            "small counts would follow from both tables together",
            "Describe the silos as the first time (per_silo), or all silos together.",
        ),
        "own_cells": (
            "the columns were changed by medians, quantiles or frequent values of the "
            "silo, which are cells of its people and would follow from what it shows",
            "Ask for nothing to be disclosed behind such a step; it is in the silo's "
            "own results. Or let the silo set allow_order_statistics.",
        ),
        "require_privacy": (
            "the silo requires differential privacy and the release has none",
            "Ask for a private release, or let the silo drop require_privacy.",
        ),
        "privacy_budget": (
            "the release costs more than is left of the silo's privacy budget",
            "Choose a smaller epsilon, or let the silo raise privacy_budget: all "
            "studies spend from it, and it is never refilled.",
        ),
        "private_inputs": (
            "a private release depends on a fitted transform, a fold or a split, which "
            "carries information about the rows without noise",
            "Scale the columns by a StandardScaler with privacy, or by public "
            "constants in the silos' sources, and fit on all rows.",
        ),
        "allowed_steps": (
            "the step is not installed in the silo, or not on its list",
            "Let the silo add the step to allowed_steps in its policy.",
        ),
        "allowed_columns": (
            "the study uses a column that the silo does not allow",
            "Select allowed columns only, or let the silo extend allowed_columns.",
        ),
        "transform_not_fitted": (
            "the view applies a transform that was not fitted before this silo's eyes",
            "Fit the transform with this silo, or let the silo list its step in "
            "allowed_steps.",
        ),
        "not_followed": (
            "the study's program does not make this request now",
            "Run the announced text with the same version of the library at all ends.",
        ),
        "not_announced": (
            "the silo answers only what the text of an announced study asks for",
            "Run a study file: unpooled run STUDY.",
        ),
        "model_not_followed": (
            "the request reads a fitted model whose numbers this silo never followed, "
            "or reads it behind other transforms than those of its fit",
            "Fit the model with this silo first, and judge it on columns that were "
            "transformed as for its fit.",
        ),
        "unknown_columns": (
            "the silo's table lacks a column that the study names",
            "Compare the study's columns with those of the silo.",
        ),
        "no_ids": (
            "the silo's table has no column of ids to match rows by",
            "Let the silo name its id column (`ids` in its file), or declare that the "
            "tables of all silos are aligned already.",
        ),
        "missing_ids": (
            "a row of the silo has no id, or an id that may have lost digits",
            "Let the silo complete its ids, as text or whole numbers.",
        ),
        "duplicate_ids": (
            "several rows of the silo have the same id",
            "Let the silo keep one row per id. Case, white space and the form of "
            "numbers do not distinguish ids.",
        ),
        "no_common_rows": (
            "no id is common to all silos",
            "Compare how the silos write their ids: only whole ids match.",
        ),
        "no_variance": (
            "the silo's columns are constant, or deflation left nothing of them",
            "Leave constant columns out, or ask for fewer components.",
        ),
        "missing_values": (
            "Input X contains NaN, and the step does not accept missing values",
            "Impute first: a SimpleImputer before it, as in "
            "make_pipeline(SimpleImputer(), ...) or as an earlier step of a study.",
        ),
        "empty_column": (
            "a column of this silo has no value at all",
            "Leave the column out with select, or keep empty features "
            "(keep_empty_features=True fills them with 0).",
        ),
        "constant_columns": (
            "a column has the same value in all rows of the silo",
            "Leave the column out (`exclude` in a study file, select in Python). Where "
            "silos have the same columns, one that differs between silos may stay, "
            "unless site_effects or CentreBySite take each silo's own mean.",
        ),
        "missing_labels": (
            "some rows have no label",
            'Let the silo leave them out (unlabelled = "drop" in its file), or label '
            "them.",
        ),
        "label_values": (
            "the label has too many distinct values, or too long ones, for class names",
            "Choose another label, or recode it in the silo's source.",
        ),
        "labels_differ": (
            "silos that have the label name different classes for the same people",
            "Leave the label to one silo, or make the silos' labels equal.",
        ),
        "response_values": (
            "the response has values that the model's family does not allow",
            "Choose another family, leave the response out of steps before that change "
            "it (StandardScaler), or recode the column in the silo's source.",
        ),
        "own_intercept": (
            "the silo's responses have no finite intercept of their own: a class has "
            "no row there, or all responses are equal",
            "Leave the silo out, merge rare classes, or fit without site_effects.",
        ),
        "few_clusters": (
            "the silo has fewer than five clusters in the column that numbers them, or "
            "fewer than ten rows that share a cluster or are outside the largest, so "
            "that the total could show the sums of one",
            "Name a column with more clusters in each silo, or take each silo for one; "
            'where next to no rows share a cluster, choose "HC1".',
        ),
        "later_fit": (
            "the silo keeps the intercept of a later fit on the same view",
            "Fit the model again, and predict before another one is fitted.",
        ),
        "singular": (
            "a matrix that the step inverts is singular",
            "Choose a ridge or fewer columns.",
        ),
        "infinite_values": (
            "Input X contains infinity, or a value too large",
            "Replace infinite values in the silo's source before the study.",
        ),
        "fixed_point_range": (
            "a value is not finite, or too large for the secure sum",
            "Look for infinite values in the silo; rescale columns beyond 1e15.",
        ),
        "public_bound": (
            "a value exceeds the bound that follows from earlier totals",
            "Rows may have changed between two rounds: run the study again.",
        ),
        "declaration": (
            "the step's result differs from its declaration",
            "The step has a bug: compare its result with its decorator.",
        ),
        "arguments": (
            "the public arguments are not those that the step declares",
            "Run the same version of the step at both ends.",
        ),
        "malformed_message": (
            "a message is not in the form that the protocol defines",
            "Run the same version at all ends, and check that messages arrive as sent.",
        ),
        "wrong_signature": (
            "a message is not signed by the identity that the roster pins",
            "Compare the silos' roster files: keys may have been altered on the way.",
        ),
        "sealed_message": (
            "a message that a neighbour encrypted for this silo was altered, repeated "
            "or truncated, or belongs to another round",
            "Start the fit again. If it recurs, messages are altered on the way.",
        ),
        "averages": (
            "the averages that neighbours computed are inconsistent",
            "Start the fit again, and check that all silos run the same version.",
        ),
        "version": (
            "another build of the library runs at the other end, and the study does "
            "not list it",
            "Install the same version of unpooled at all ends (`unpooled silo check` "
            "shows the silo's), or list the other build under `versions` in [study].",
        ),
        "wrong_roster": (
            "the study's parties are not the ones on this silo's roster",
            "Exchange public keys again, so that all silos pin the same roster.",
        ),
        "wrong_total": (
            "a total is not the sum of what the parties sent",
            "Nothing further leaves the silo. Ask who runs the coordinator; silos that "
            "run different versions show this too.",
        ),
        "hint": (
            "a decomposition that the coordinator sent does not fit the totals",
            "Run the same version of the library, NumPy and SciPy at all ends.",
        ),
        "out_of_order": (
            "a message does not belong to the current round",
            "Start the fit again: every fit agrees on new keys.",
        ),
        "replayed": (
            "the silo answered this round before, for another request",
            "Start the fit again: a mask is used only once.",
        ),
        "audit_log": (
            "the silo cannot write its audit log, and sends nothing without an entry",
            "Let the silo make room for the log, or restore it from a backup.",
        ),
        "audit_log_rolled_back": (
            "the silo's audit log lacks what another silo saw of it, so it is an older "
            "copy, and the silo no longer knows what it answered",
            "Put the latest log back. If it is lost, the silo makes a new identity "
            "(`unpooled silo init`), which the others pin by hand.",
        ),
        "partition": (
            "the silo did not declare that it takes part in studies of this partition",
            'Let the silo write partition = "columns" (other columns about the same '
            'people) or "rows" into its silo.toml, as the study has it.',
        ),
        "refusals": (
            "the silo has given as many refusals that depend on its rows as it may "
            "in a period, over all studies",
            "Wait until the period ends, or let the silo forget them: unpooled silo "
            "log --reset-refusals. Look at the plan first: the same refusal of the "
            "same question counts once.",
        ),
        "foreign_job": (
            "the job is not a study's: it brings files or names other classes",
            "Submit studies with `unpooled run`, in the version that the silos have.",
        ),
        "approval": (
            "nobody at the silo has approved the study as it is now, or the step in it",
            "Let somebody there review the plan: `unpooled silo approve STUDY`.",
        ),
        "denied": (
            "a person at the silo has denied the study",
            "Talk to the silo; it can still approve: `unpooled silo approve STUDY`.",
        ),
        "delivery": (
            "the silo does not accept the file: it was not in the study, keeps no "
            "models, or the file is too large",
            "Deliver the model by other means.",
        ),
        "absent": (
            "a silo or the server is not connected, or did not answer in time",
            "When all are connected again, continue with resume; with `--wait 8h` a "
            "run waits for them.",
        ),
        "source_changed": (
            "the silo's rows were changed while the study was running",
            "Run the study again, and let the silo change its rows between studies.",
        ),
        "source_unavailable": (
            "the silo's rows cannot be reached now: their database or drive is away",
            "When it is back, continue with resume; with `--wait 8h` a run waits for "
            "it.",
        ),
        "source_damaged": (
            "the file with the silo's rows is damaged and cannot be read to its end",
            "Let the silo put an intact file in its place, then run the study again.",
        ),
        "two_parties": (
            "secure comparisons need three parties: of two, each would see all values",
            "Add a silo, let the coordinator compute as a declared third "
            '(allow_coordinator_party=True), or use comparison="summed" or '
            'open="covariance".',
        ),
        "committee": (
            "with more than five silos, a committee named in every roster must compute "
            "the secure comparisons",
            "Put the same line at the top of every silo's and the server's roster "
            'file: committee = ["...", "...", "..."], with three to five silos.',
        ),
        "mpc": (
            "MPyC, which secure comparisons need, is not installed in the silo",
            'Install it there with pip install "unpooled[mpc]", or use '
            'comparison="summed" or open="covariance".',
        ),
        "psi": (
            "rbcl, which matching rows by ids needs, is not installed in the silo",
            'Install it there with pip install "unpooled[psi]", or declare that the '
            "tables of all silos are aligned already.",
        ),
        "comparison": (
            "the secure comparison stopped: a party's process ended, could not start, "
            "or did not answer in time",
            "Check that all silos are connected, then continue with resume.",
        ),
        "indefinite_kernel": (
            "the kernel matrix has negative eigenvalues beyond rounding",
            "Ask for fewer components, or choose another kernel, gamma or coef0.",
        ),
        "nothing_kept": (
            "the silo keeps no array under the name that the step reads",
            "Run the steps of the fit in their order.",
        ),
        "failed_in_silo": (
            "the step failed in the silo",
            "The reason is in the silo's own log, which does not leave it.",
        ),
    }
)

# For each rule whose verdict depends on the silo's rows: what else it depends on. This
# is the question that a refusal answers.
#     "selection"  the columns, their number, and the rows that are selected
#     "view"       these, and all transforms
#     "request"    these, the step and its arguments
DATA_RULES: Mapping[str, str] = MappingProxyType(
    {
        "min_rows": "selection",
        "min_rows_per_class": "selection",
        "min_own_cells": "selection",
        "max_feature_ratio": "selection",
        "shared_blocks": "selection",
        "min_changed_rows": "selection",
        "changed_rows": "view",
        "missing_labels": "selection",
        "constant_columns": "view",
        "label_values": "selection",
        "labels_differ": "request",
        "response_values": "request",
        "own_intercept": "request",
        "few_clusters": "request",
        "later_fit": "request",
        "missing_ids": "selection",
        "duplicate_ids": "selection",
        "no_common_rows": "selection",
        "max_released_share": "selection",
        "rows_of_parts": "view",
        "max_leverage": "view",
        "weighted_rows": "request",
        "another_filling": "view",
        "derived_cells": "view",
        "derived_rows": "view",
        "missing_values": "view",
        "empty_column": "view",
        "no_variance": "request",
        "infinite_values": "request",
        "factor_columns": "request",
        "singular": "request",
        "indefinite_kernel": "request",
        "fixed_point_range": "request",
        "public_bound": "request",
        "averages": "request",
        "failed_in_silo": "request",
    }
)
