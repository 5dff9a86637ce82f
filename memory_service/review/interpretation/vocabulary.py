"""Names by which libraries read, learn, divide, order and reduce rows."""

from __future__ import annotations

import re

from memory_service.review.source.nodes import words

LEARNS = re.compile(
    r"^(Standard|MinMax|MaxAbs|Robust)Scaler$|^(Power|Quantile)Transformer$|^(Incremental|Sparse|Kernel)?PCA$|"
    r"^TruncatedSVD$|^(Simple|KNN|Iterative)Imputer$|^(Tfidf|Count)Vectorizer$|"
    r"^Select(KBest|Percentile|FromModel|Fpr|Fdr|Fwe)$|^RFE(CV)?$|^KBinsDiscretizer$|^FastICA$|^NMF$|"
    r"^LatentDirichletAllocation$|^LinearDiscriminantAnalysis$|^UMAP$|^(MiniBatch)?KMeans$|"
    r"^VarianceThreshold$|^BorutaPy$|^FeatureAgglomeration$|^Nystroem$|^SplineTransformer$|^PLSRegression$|"
    r"^Normalization$|^(Winsorizer|MeanMedianImputer)$"
)
RESAMPLES = re.compile(r"SMOTE|ADASYN|OverSampler|UnderSampler|TomekLinks|EditedNearest")
BY_TARGET = re.compile(r"^(Target|LeaveOneOut|JamesStein|CatBoost|MEstimate|WOE|GLMM|Helmert)Encoder$")
SAME_COLUMNS = words(
    "StandardScaler MinMaxScaler MaxAbsScaler RobustScaler PowerTransformer QuantileTransformer "
    "SimpleImputer KNNImputer IterativeImputer"
)
ROW_BY_ROW = words(
    "log log1p log2 log10 sqrt exp expm1 abs round floor ceil clip square maximum minimum where "
    "select astype nan_to_num fillna to_numpy add sub mul div truediv floordiv pow ravel reshape to_list "
    "tolist copy reset_index gt lt ge le eq ne isin between float int long to_frame squeeze "
    "flatten unsqueeze over droplevel"
)
CONVERTS = words(
    "tensor from_numpy as_tensor FloatTensor LongTensor asarray array ascontiguousarray csr_matrix "
    "DataFrame Series from_pandas from_dataframe float32 atleast_2d constant convert_to_tensor"
)
SCALING = words("scale minmax_scale maxabs_scale robust_scale quantile_transform power_transform zscore")
CODES = words("LabelEncoder OrdinalEncoder OneHotEncoder LabelBinarizer MultiLabelBinarizer")
JOINS = words("Pipeline make_pipeline ColumnTransformer make_column_transformer FeatureUnion make_union")
PREDICTS = re.compile(r"(Classifier|Regressor|Regression|SVC|SVR|Ridge|Lasso|NB|ElasticNet|SVM)$")
SEARCHES = re.compile(r"SearchCV$|^RFECV$|^(LassoCV|RidgeCV|ElasticNetCV|LogisticRegressionCV)$")
SPLITTERS = re.compile(r"(Fold|Split|GroupOut|LeaveOneOut)$")
SPLITTER_NAMES = re.compile(r"^(s|g|sg|ts|rs)?kf|fold|^cv$|split|^ss+$", re.IGNORECASE)
SCORING = words(
    "cross_val_score cross_validate cross_val_predict learning_curve validation_curve permutation_test_score"
)
FITS = words("fit fit_transform fit_resample fit_sample adapt partial_fit")
LOW = words(
    "mean median min nanmean nanmedian nanmin percentile nanpercentile quantile nanquantile mode average amin"
)
HIGH = words("std var max ptp nanstd nanvar nanmax amax sem mad")
RUNNING = words(
    "cumsum cummax cummin cumprod cum_sum cum_max cum_min rolling_mean rolling_sum rolling_std rolling_min "
    "rolling_max rolling_median ewm_mean"
)
"""Of all rows up to each and of the row itself."""

OF_THE_PAST = words("shift rolling ewm expanding pct_change diff lag")
EMPTY = words(
    "len range print isinstance type id hash str int float bool open format hasattr round seed "
    "manual_seed Path glob listdir makedirs mkdir exists join time perf_counter monotonic getenv "
    "get_device_name is_available"
)
KEEPS_ROWS = words("merge join fillna where mask clip replace combine_first fill_null update hstack")
READS = re.compile(
    r"^(read_|load|fetch_|open_|scan_|from_csv|imread|get_data|make_(class|regress|blobs|moons))"
)
ONE_SAMPLE = re.compile(
    r"(^|\.)(imread|imdecode|dcmread|read_image|decode_(image|jpeg|png|wav)|load_img)$|"
    r"^(librosa|torchaudio|nibabel|soundfile|scipy\.io\.wavfile)\.(load|read)$"
)
"""Readers of one picture or one recording; a file named in the text may be all there is."""

TABLES = re.compile(r"^(read|scan)_")
RANDOM = words("rand random uniform random_sample binomial randint choice")
ORDERS = words("permutation randperm arange shuffle argsort")
VIEWS = words("cat loc iloc at iat values data T array str dt obs flat index")
FOLD_COLUMN = re.compile(r"^(k?_?fold|fold_?(id|no|nr)?|kfold|split|subset|part|partition)s?$", re.IGNORECASE)
ROLES = (
    ("train", re.compile(r"train|(^|_)tr(n|$|_)|(^|_)fit(_|$)|learn", re.IGNORECASE)),
    ("valid", re.compile(r"val|test|(^|_)va($|_)|dev|hold_?out|eval", re.IGNORECASE)),
)
TARGET = re.compile(r"^(y|ys|y_\w+|targets?|labels?|y\d?|Y|train_y|y_train|train_labels?|train_targets?)$")
"""Names of values that are to be predicted."""

TARGET_COLUMN = re.compile(r"^(target|label|y|dependent)(_?(col|column|name|var))?s?$", re.IGNORECASE)
"""Names of constants that name a column to be predicted."""
