"""The public names and where each is, for type checkers and for `unpooled` itself."""

from . import errors as errors
from . import metrics as metrics
from .data.partition import partition_columns as partition_columns
from .data.partition import partition_rows as partition_rows
from .data.sources.open_source import open_source as open_source
from .displays.biplot import BiplotDisplay as BiplotDisplay
from .displays.confusion_matrix import (
    ConfusionMatrixDisplay as ConfusionMatrixDisplay,
)
from .displays.correlation_circle import (
    CorrelationCircleDisplay as CorrelationCircleDisplay,
)
from .displays.forest import ForestDisplay as ForestDisplay
from .displays.heatmap import HeatmapDisplay as HeatmapDisplay
from .displays.histogram import HistogramDisplay as HistogramDisplay
from .displays.loadings import LoadingsDisplay as LoadingsDisplay
from .displays.scree import ScreeDisplay as ScreeDisplay
from .federation.federation import Federation as Federation
from .federation.local import simulate as simulate
from .federation.planning.dry_run import plan as plan
from .federation.planning.plan import Plan as Plan
from .ledger import Ledger as Ledger
from .models.correlation.correlation import Correlation as Correlation
from .models.correspondence.famd import FAMD as FAMD
from .models.correspondence.mca import MCA as MCA
from .models.description.describe import Describe as Describe
from .models.description.describe import describe as describe
from .models.description.histogram import Histogram as Histogram
from .models.description.quantiles import Quantiles as Quantiles
from .models.description.quantiles import quantiles as quantiles
from .models.discriminant.discriminant import (
    LinearDiscriminantAnalysis as LinearDiscriminantAnalysis,
)
from .models.factor_analysis.factor_analysis import FactorAnalysis as FactorAnalysis
from .models.files.model_file import load as load
from .models.files.model_file import save as save
from .models.generalized_eigen.generalized_eigen import (
    GeneralizedEigen as GeneralizedEigen,
)
from .models.heterogeneity.heterogeneity import Heterogeneity as Heterogeneity
from .models.heterogeneity.heterogeneity import heterogeneity as heterogeneity
from .models.kernel_pca.kernel_pca import KernelPCA as KernelPCA
from .models.mmvfl.mmvfl import MMVFL as MMVFL
from .models.model_selection.cross_validation import cross_validate as cross_validate
from .models.model_selection.cross_validation import jackknife as jackknife
from .models.model_selection.grid_search import GridSearchCV as GridSearchCV
from .models.model_selection.permutation_test import (
    permutation_test as permutation_test,
)
from .models.pca.pca import PCA as PCA
from .models.pca.personalized import PersonalizedPCA as PersonalizedPCA
from .models.preprocessing.centre_by_site import CentreBySite as CentreBySite
from .models.preprocessing.column_transformer import (
    ColumnTransformer as ColumnTransformer,
)
from .models.preprocessing.column_transformer import (
    make_column_selector as make_column_selector,
)
from .models.preprocessing.column_transformer import (
    make_column_transformer as make_column_transformer,
)
from .models.preprocessing.derived_columns import DerivedColumns as DerivedColumns
from .models.preprocessing.imputer import SimpleImputer as SimpleImputer
from .models.preprocessing.iterative_imputer import (
    IterativeImputer as IterativeImputer,
)
from .models.preprocessing.k_bins_discretizer import (
    KBinsDiscretizer as KBinsDiscretizer,
)
from .models.preprocessing.one_hot_encoder import OneHotEncoder as OneHotEncoder
from .models.preprocessing.ordinal_encoder import OrdinalEncoder as OrdinalEncoder
from .models.preprocessing.power import PowerTransformer as PowerTransformer
from .models.preprocessing.quantile_transformer import (
    QuantileTransformer as QuantileTransformer,
)
from .models.preprocessing.rare_columns import RareColumns as RareColumns
from .models.preprocessing.robust_scaler import RobustScaler as RobustScaler
from .models.preprocessing.scaler import StandardScaler as StandardScaler
from .models.regression.glm import GLM as GLM
from .models.regression.linear import LinearRegression as LinearRegression
from .models.regression.linear import Ridge as Ridge
from .models.regression.logistic import LogisticRegression as LogisticRegression
from .models.regression.meta_analysis import MetaAnalysis as MetaAnalysis
from .models.regression.meta_analysis import (
    compare_with_meta_analysis as compare_with_meta_analysis,
)
from .models.two_views.cca import CCA as CCA
from .models.two_views.pls import PLSSVD as PLSSVD
from .models.two_views.pls import PLSCanonical as PLSCanonical
from .models.two_views.pls_regression import PLSRegression as PLSRegression
from .models.vertical_pca.vfedakpca import VFedAKPCA as VFedAKPCA
from .models.vertical_pca.vfedpca import VFedPCA as VFedPCA
from .party.rules.policy import Policy as Policy
from .report.html import report as report
from .secure.noise import GaussianPrivacy as GaussianPrivacy
from .study import Study as Study

__version__: str
__all__: list[str]
