"""Which of scikit-learn's test cases are not run against ours, each with its reason.

Keys are names of cases as pytest prints them, with ``*`` for any text. Everything else
that uses the three classes runs.
"""

import re

# Names of tests change between scikit-learn's versions: with this one, every key must
# match a case; with another, a key may be left over.
WRITTEN_FOR = "1.9"

BOX_COX = "only Yeo-Johnson is offered, which takes rows of any sign"
ARRAY_API = "arrays of other libraries: rows in silos are NumPy's"
DTYPE = "results are float64, whatever comes in"
EMPTY = "a column that nobody has a value for is refused by name, not dropped"
INDICATOR = "add_indicator, and the inverse that needs it, are not offered"
INPLACE = "nothing is transformed in place"
PARTIAL = "partial_fit is not offered: a federation is fitted as a whole"
SOLVERS = '"arpack" and "randomized" are other algorithms, with options of their own'
SPARSE = "sparse rows: ours transforms dense ones"
STRATEGIES = "modes and functions are not sums over silos"
TEXT = "text and categories are refused when a silo's table is opened, in other words"
TWENTY_FITS = 'twenty more fits of what "covariance_eigh" stands for already'
WORDING = "inverse_transform says what transform gives, in other words"
WEIGHTS = "sample weights are not offered"

LEFT_OUT: dict[str, str] = {
    # sklearn.decomposition.tests.test_pca
    "test_pca_sparse*": SPARSE,
    "test_sparse_pca_*": SPARSE,
    "test_pca*array_api*": ARRAY_API,
    "test_array_api_error_and_warnings_on_unsupported_params": ARRAY_API,
    "test_pca_validation[auto*": "the message names a solver that ours lacks",
    "test_n_components_mle_error*": SOLVERS,
    "test_fit_mle_too_few_samples": "the message is about all rules, in other words",
    "test_pca_score3": "n_components=0, which explains nothing, is refused",
    "test_pca_svd_solver_auto*": 'what "auto" stands for is a private attribute',
    "test_pca_deterministic_output[full]": TWENTY_FITS,
    "test_pca_deterministic_output[auto]": TWENTY_FITS,
    "test_pca_dtype_preservation*": DTYPE,
    "test_pca_randomized_svd_n_oversamples": SOLVERS,
    "test_pca*arpack*": SOLVERS,
    "test_pca*randomized*": SOLVERS,
    "test_whitening*arpack*": SOLVERS,
    "test_whitening*randomized*": SOLVERS,
    "test_n_components_none*arpack*": SOLVERS,
    "test_n_components_none*randomized*": SOLVERS,
    # sklearn.preprocessing.tests.test_data and test_common
    "test_*_scaler_sample_weight*": WEIGHTS,
    "test_raises_value_error_if_sample_weights_greater_than_1d": WEIGHTS,
    "test_standard_scaler_dtype*": DTYPE,
    "test_standard_scaler_constant_features*-True-*": WEIGHTS,
    "test_standard_scaler_constant_features*_matrix*": SPARSE,
    "test_standard_scaler_constant_features*_array*": SPARSE,
    "test_standard_scaler_near_constant_features[cs*": SPARSE,
    "test_standard_scaler_near_constant_features[None-float64-1e-10-10000]": (
        "asks for a variance of exactly 0, where the mean's rounding leaves ours 1e-29 "
        "of its square; the scale is 1 in both"
    ),
    "test_standard_scaler_array_api_compliance*": ARRAY_API,
    "test_standard_scaler_callback_support*": "callbacks are not offered",
    "test_standard_scaler_partial_fit*": PARTIAL,
    "test_standard_scaler_transform_with_partial_fit*": PARTIAL,
    "test_standard_scaler_sparse_partial_fit_finite_variance*": PARTIAL,
    "test_partial_fit_sparse_input*": PARTIAL,
    "test_scaler_2d_arrays": INPLACE,
    "test_scaler_int*": SPARSE,
    "test_scaler_n_samples_seen_with_nan[cs*": SPARSE,
    "test_scaler_return_identity*": SPARSE,
    "test_scaler_without_c*": SPARSE,
    "test_scale_sparse_with_mean_raise_exception*": SPARSE,
    "test_missing_value_handling[*-True-False-*": SPARSE,
    "test_*power_transformer*box-cox*": BOX_COX,
    "test_power_transformer_1d": BOX_COX,
    "test_power_transformer_2d": BOX_COX,
    "test_power_transformer_boxcox_strictly_positive_exception": BOX_COX,
    "test_power_transformer_box_cox_raise_all_nans_col": BOX_COX,
    "test_invserse_box_cox": BOX_COX,
    "test_power_transformer_lambda_one": "sets an attribute in place of fitting",
    "test_power_transformer_copy_False*": INPLACE,
    "test_power_transformer_lambda_zero": BOX_COX,
    "test_missing_value_*est5-power_transform*": BOX_COX,
    "test_missing_value_handling[est4-power_transform*": (
        "compares scikit-learn's exponents with ours to 1e-7, and Brent's method stops "
        "at about the root of that; test_power.py compares ours with 60 digits"
    ),
    "test_power_transformer_constant_feature*": "constant columns are warned of",
    "test_yeo_johnson_inverse_transform_warning": (
        "what no row is transformed to comes back as NaN, without a warning"
    ),
    "test_power_transformer_shape_exception*": WORDING,
    "test_transformer_inverse_transform_shape_error*": WORDING,
    # sklearn.impute.tests.test_impute and test_common
    "test_imputation_constant_float*-cs*": SPARSE,
    "test_imputation_copy": INPLACE,
    "test_imputation_custom*": STRATEGIES,
    "test_imputation_error_sparse_0*": SPARSE,
    "test_imputation_mean_median[*": SPARSE,
    "test_imputation_median_special_cases*": SPARSE,
    "test_imputation_most_frequent*": STRATEGIES,
    "test_imputation_shape*": SPARSE,
    "test_simple_imputation_add_indicator_sparse_matrix*": INDICATOR,
    "test_simple_imputer_keep_empty_features*most_frequent*": STRATEGIES,
    "test_simple_imputer_keep_empty_features*-sparse]": SPARSE,
    "test_simple_imputer_keep_empty_features[False*": EMPTY,
    "test_keep_empty_features*False]": EMPTY,
    "test_imputation_constant_integer[False]": EMPTY,
    "test_imputation_constant_float[False-asarray]": EMPTY,
    "test_imputation_deletion_warning*": EMPTY,
    "test_imputers_pandas_na_integer_array_support[False-*": EMPTY,
    "test_imputers_feature_names_out_pandas[False-*": EMPTY,
    "test_imputers_pandas_na_integer_array_support[True-*": INDICATOR,
    "test_imputers_feature_names_out_pandas[True-*": INDICATOR,
    "test_imputers_add_indicator*": INDICATOR,
    "test_imputation_adds_missing_indicator_if_add_indicator_is_true*": INDICATOR,
    "test_imputation_missing_value_in_test_array*": INDICATOR,
    "test_imputer_without_indicator*": INDICATOR,
    "test_missing_indicator_with_imputer*": INDICATOR,
    "test_simple_imputation_inverse_transform*": INDICATOR,
    "test_imputation_mean_median_error_invalid_type*": TEXT,
    "test_imputation_const_mostf_error_invalid_types*": TEXT,
    "test_imputation_constant_object*": TEXT,
    "test_imputation_constant_pandas*": TEXT,
    "test_simple_imputation_string_list*": TEXT,
    "test_simple_impute_pd_na": TEXT,
    "test_imputer_lists_fit_transform": TEXT,
    "test_inconsistent_dtype_X_missing_values*": TEXT,
    "test_imputation_pipeline_grid_search": (
        "a search over strategies, of which ours has one, with a sparse target"
    ),
    "test_imputer_transform_preserves_numeric_dtype[float32]": DTYPE,
    "test_simple_imputer_constant_fill_value_casting": DTYPE,
    "test_iterative_imputer_missing_at_transform*": (
        "about IterativeImputer, and SimpleImputer is only what it is compared with"
    ),
}


def pattern_for(name: str) -> str | None:
    """Return the first key that a case's name matches, or None where it runs."""
    for pattern in LEFT_OUT:
        if re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name):
            return pattern
    return None
