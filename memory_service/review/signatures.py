"""Which parameters do the calls of training scripts have? One that is not among them is a TypeError.

Read from the libraries as of scikit-learn 1.9, torch 2.15, lightgbm 4.7, xgboost 3.2, lightning 2.6,
transformers 5.23 and accelerate 1.15, with what a release or two before still took.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["SIGNATURES"]

SIGNATURES: Mapping[str, str] = {
    "sklearn.linear_model.LogisticRegression": (
        "penalty C l1_ratio dual tol fit_intercept intercept_scaling class_weight random_state solver "
        "max_iter verbose warm_start n_jobs"
    ),
    "sklearn.linear_model.LogisticRegressionCV": (
        "Cs l1_ratios fit_intercept cv dual penalty scoring solver tol max_iter class_weight n_jobs verbose "
        "refit intercept_scaling random_state use_legacy_attributes"
    ),
    "sklearn.linear_model.LinearRegression": "fit_intercept copy_X tol n_jobs positive",
    "sklearn.linear_model.Ridge": "alpha fit_intercept copy_X max_iter tol solver positive random_state",
    "sklearn.linear_model.RidgeClassifier": (
        "alpha fit_intercept copy_X max_iter tol class_weight solver positive random_state"
    ),
    "sklearn.linear_model.RidgeCV": (
        "alphas fit_intercept scoring cv gcv_mode store_cv_results alpha_per_target"
    ),
    "sklearn.linear_model.Lasso": (
        "alpha fit_intercept precompute copy_X max_iter tol warm_start positive random_state selection"
    ),
    "sklearn.linear_model.LassoCV": (
        "eps alphas fit_intercept precompute max_iter tol copy_X cv verbose n_jobs positive random_state "
        "selection"
    ),
    "sklearn.linear_model.ElasticNet": (
        "alpha l1_ratio fit_intercept precompute max_iter copy_X tol warm_start positive random_state "
        "selection"
    ),
    "sklearn.linear_model.SGDClassifier": (
        "loss penalty alpha l1_ratio fit_intercept max_iter tol shuffle verbose epsilon n_jobs random_state "
        "learning_rate eta0 power_t early_stopping validation_fraction n_iter_no_change class_weight "
        "warm_start average"
    ),
    "sklearn.linear_model.SGDRegressor": (
        "loss penalty alpha l1_ratio fit_intercept max_iter tol shuffle verbose epsilon random_state "
        "learning_rate eta0 power_t early_stopping validation_fraction n_iter_no_change warm_start average"
    ),
    "sklearn.ensemble.RandomForestClassifier": (
        "n_estimators criterion max_depth min_samples_split min_samples_leaf min_weight_fraction_leaf "
        "max_features max_leaf_nodes min_impurity_decrease bootstrap oob_score n_jobs random_state verbose "
        "warm_start class_weight ccp_alpha max_samples monotonic_cst"
    ),
    "sklearn.ensemble.RandomForestRegressor": (
        "n_estimators criterion max_depth min_samples_split min_samples_leaf min_weight_fraction_leaf "
        "max_features max_leaf_nodes min_impurity_decrease bootstrap oob_score n_jobs random_state verbose "
        "warm_start ccp_alpha max_samples monotonic_cst"
    ),
    "sklearn.ensemble.ExtraTreesClassifier": (
        "n_estimators criterion max_depth min_samples_split min_samples_leaf min_weight_fraction_leaf "
        "max_features max_leaf_nodes min_impurity_decrease bootstrap oob_score n_jobs random_state verbose "
        "warm_start class_weight ccp_alpha max_samples monotonic_cst"
    ),
    "sklearn.ensemble.ExtraTreesRegressor": (
        "n_estimators criterion max_depth min_samples_split min_samples_leaf min_weight_fraction_leaf "
        "max_features max_leaf_nodes min_impurity_decrease bootstrap oob_score n_jobs random_state verbose "
        "warm_start ccp_alpha max_samples monotonic_cst"
    ),
    "sklearn.ensemble.GradientBoostingClassifier": (
        "loss learning_rate n_estimators subsample criterion min_samples_split min_samples_leaf "
        "min_weight_fraction_leaf max_depth min_impurity_decrease init random_state max_features verbose "
        "max_leaf_nodes warm_start validation_fraction n_iter_no_change tol ccp_alpha"
    ),
    "sklearn.ensemble.GradientBoostingRegressor": (
        "loss learning_rate n_estimators subsample criterion min_samples_split min_samples_leaf "
        "min_weight_fraction_leaf max_depth min_impurity_decrease init random_state max_features alpha "
        "verbose max_leaf_nodes warm_start validation_fraction n_iter_no_change tol ccp_alpha"
    ),
    "sklearn.ensemble.HistGradientBoostingClassifier": (
        "loss learning_rate max_iter max_leaf_nodes max_depth min_samples_leaf l2_regularization "
        "max_features max_bins categorical_features monotonic_cst interaction_cst warm_start early_stopping "
        "scoring validation_fraction n_iter_no_change tol verbose random_state class_weight"
    ),
    "sklearn.ensemble.HistGradientBoostingRegressor": (
        "loss quantile learning_rate max_iter max_leaf_nodes max_depth min_samples_leaf l2_regularization "
        "max_features max_bins categorical_features monotonic_cst interaction_cst warm_start early_stopping "
        "scoring validation_fraction n_iter_no_change tol verbose random_state"
    ),
    "sklearn.ensemble.BaggingClassifier": (
        "estimator n_estimators max_samples max_features bootstrap bootstrap_features oob_score warm_start "
        "n_jobs random_state verbose"
    ),
    "sklearn.ensemble.BaggingRegressor": (
        "estimator n_estimators max_samples max_features bootstrap bootstrap_features oob_score warm_start "
        "n_jobs random_state verbose"
    ),
    "sklearn.ensemble.AdaBoostClassifier": "estimator n_estimators learning_rate random_state",
    "sklearn.ensemble.VotingClassifier": "estimators voting weights n_jobs flatten_transform verbose",
    "sklearn.ensemble.StackingClassifier": (
        "estimators final_estimator cv stack_method n_jobs passthrough verbose"
    ),
    "sklearn.model_selection.KFold": "n_splits shuffle random_state",
    "sklearn.model_selection.StratifiedKFold": "n_splits shuffle random_state",
    "sklearn.model_selection.GroupKFold": "n_splits shuffle random_state",
    "sklearn.model_selection.StratifiedGroupKFold": "n_splits shuffle random_state",
    "sklearn.model_selection.TimeSeriesSplit": "n_splits max_train_size test_size gap",
    "sklearn.model_selection.ShuffleSplit": "n_splits test_size train_size random_state",
    "sklearn.model_selection.StratifiedShuffleSplit": "n_splits test_size train_size random_state",
    "sklearn.model_selection.GroupShuffleSplit": "n_splits test_size train_size random_state",
    "sklearn.model_selection.RepeatedKFold": "n_splits n_repeats random_state",
    "sklearn.model_selection.RepeatedStratifiedKFold": "n_splits n_repeats random_state",
    "sklearn.model_selection.train_test_split": "test_size train_size random_state shuffle stratify",
    "sklearn.model_selection.cross_val_score": (
        "estimator X y groups scoring cv n_jobs verbose params pre_dispatch error_score"
    ),
    "sklearn.model_selection.cross_validate": (
        "estimator X y groups scoring cv n_jobs verbose params pre_dispatch return_train_score "
        "return_estimator return_indices error_score"
    ),
    "sklearn.model_selection.cross_val_predict": (
        "estimator X y groups cv n_jobs verbose params pre_dispatch method"
    ),
    "sklearn.model_selection.GridSearchCV": (
        "estimator param_grid scoring n_jobs refit cv verbose pre_dispatch error_score return_train_score"
    ),
    "sklearn.model_selection.RandomizedSearchCV": (
        "estimator param_distributions n_iter scoring n_jobs refit cv verbose pre_dispatch random_state "
        "error_score return_train_score"
    ),
    "sklearn.preprocessing.StandardScaler": "copy with_mean with_std",
    "sklearn.preprocessing.MinMaxScaler": "feature_range copy clip",
    "sklearn.preprocessing.RobustScaler": "with_centering with_scaling quantile_range copy unit_variance",
    "sklearn.preprocessing.OneHotEncoder": (
        "categories drop sparse_output dtype handle_unknown min_frequency max_categories "
        "feature_name_combiner"
    ),
    "sklearn.preprocessing.OrdinalEncoder": (
        "categories dtype handle_unknown unknown_value encoded_missing_value min_frequency max_categories"
    ),
    "sklearn.preprocessing.TargetEncoder": "categories target_type smooth cv shuffle random_state",
    "sklearn.preprocessing.PowerTransformer": "method standardize copy",
    "sklearn.preprocessing.QuantileTransformer": (
        "n_quantiles output_distribution ignore_implicit_zeros subsample random_state copy"
    ),
    "sklearn.preprocessing.PolynomialFeatures": "degree interaction_only include_bias order",
    "sklearn.preprocessing.KBinsDiscretizer": (
        "n_bins encode strategy quantile_method dtype subsample random_state"
    ),
    "sklearn.feature_extraction.text.TfidfVectorizer": (
        "input encoding decode_error strip_accents lowercase preprocessor tokenizer analyzer stop_words "
        "token_pattern ngram_range max_df min_df max_features vocabulary binary dtype norm use_idf "
        "smooth_idf sublinear_tf"
    ),
    "sklearn.feature_extraction.text.CountVectorizer": (
        "input encoding decode_error strip_accents lowercase preprocessor tokenizer stop_words "
        "token_pattern ngram_range analyzer max_df min_df max_features vocabulary binary dtype"
    ),
    "sklearn.decomposition.PCA": (
        "n_components copy whiten svd_solver tol iterated_power n_oversamples power_iteration_normalizer "
        "random_state"
    ),
    "sklearn.decomposition.TruncatedSVD": (
        "n_components algorithm n_iter n_oversamples power_iteration_normalizer random_state tol"
    ),
    "sklearn.impute.SimpleImputer": (
        "missing_values strategy fill_value copy add_indicator keep_empty_features"
    ),
    "sklearn.impute.KNNImputer": (
        "missing_values n_neighbors weights metric copy add_indicator keep_empty_features"
    ),
    "sklearn.svm.SVC": (
        "C kernel degree gamma coef0 shrinking probability tol cache_size class_weight verbose max_iter "
        "decision_function_shape break_ties random_state"
    ),
    "sklearn.svm.SVR": "kernel degree gamma coef0 tol C epsilon shrinking cache_size verbose max_iter",
    "sklearn.neighbors.KNeighborsClassifier": (
        "n_neighbors weights algorithm leaf_size p metric metric_params n_jobs"
    ),
    "sklearn.neural_network.MLPClassifier": (
        "hidden_layer_sizes activation solver alpha batch_size learning_rate learning_rate_init power_t "
        "max_iter shuffle random_state tol verbose warm_start momentum nesterovs_momentum early_stopping "
        "validation_fraction beta_1 beta_2 epsilon n_iter_no_change max_fun"
    ),
    "sklearn.neural_network.MLPRegressor": (
        "loss hidden_layer_sizes activation solver alpha batch_size learning_rate learning_rate_init "
        "power_t max_iter shuffle random_state tol verbose warm_start momentum nesterovs_momentum "
        "early_stopping validation_fraction beta_1 beta_2 epsilon n_iter_no_change max_fun"
    ),
    "sklearn.calibration.CalibratedClassifierCV": "estimator method cv n_jobs ensemble",
    "sklearn.cluster.KMeans": "n_clusters init n_init max_iter tol verbose random_state copy_x algorithm",
    "sklearn.metrics.mean_squared_error": "y_true y_pred sample_weight multioutput",
    "sklearn.metrics.mean_squared_log_error": "y_true y_pred sample_weight multioutput",
    "sklearn.metrics.mean_absolute_error": "y_true y_pred sample_weight multioutput",
    "sklearn.metrics.roc_auc_score": "y_true y_score average sample_weight max_fpr multi_class labels",
    "sklearn.metrics.log_loss": "y_true y_proba normalize sample_weight labels y_pred",
    "sklearn.metrics.f1_score": "y_true y_pred labels pos_label average sample_weight zero_division",
    "torch.optim.Adam": (
        "params lr betas eps weight_decay amsgrad foreach maximize capturable differentiable fused "
        "decoupled_weight_decay"
    ),
    "torch.optim.AdamW": (
        "params lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused"
    ),
    "torch.optim.SGD": (
        "params lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
    ),
    "torch.optim.RMSprop": (
        "params lr alpha eps weight_decay momentum centered capturable foreach maximize differentiable"
    ),
    "torch.optim.NAdam": (
        "params lr betas eps weight_decay momentum_decay decoupled_weight_decay foreach maximize capturable "
        "differentiable"
    ),
    "torch.optim.RAdam": (
        "params lr betas eps weight_decay decoupled_weight_decay foreach maximize capturable differentiable"
    ),
    "torch.optim.Adagrad": (
        "params lr lr_decay weight_decay initial_accumulator_value eps foreach maximize differentiable fused"
    ),
    "torch.optim.lr_scheduler.StepLR": "optimizer step_size gamma last_epoch",
    "torch.optim.lr_scheduler.MultiStepLR": "optimizer milestones gamma last_epoch",
    "torch.optim.lr_scheduler.ExponentialLR": "optimizer gamma last_epoch",
    "torch.optim.lr_scheduler.CosineAnnealingLR": "optimizer T_max eta_min last_epoch",
    "torch.optim.lr_scheduler.CosineAnnealingWarmRestarts": "optimizer T_0 T_mult eta_min last_epoch",
    "torch.optim.lr_scheduler.LambdaLR": "optimizer lr_lambda last_epoch",
    "torch.optim.lr_scheduler.LinearLR": "optimizer start_factor end_factor total_iters last_epoch",
    "torch.optim.lr_scheduler.CyclicLR": (
        "optimizer base_lr max_lr step_size_up step_size_down mode gamma scale_fn scale_mode cycle_momentum "
        "base_momentum max_momentum last_epoch"
    ),
    "torch.optim.lr_scheduler.OneCycleLR": (
        "optimizer max_lr total_steps epochs steps_per_epoch pct_start anneal_strategy cycle_momentum "
        "base_momentum max_momentum div_factor final_div_factor three_phase last_epoch"
    ),
    "torch.optim.lr_scheduler.PolynomialLR": "optimizer total_iters power last_epoch",
    "torch.optim.lr_scheduler.ReduceLROnPlateau": (
        "optimizer mode factor patience threshold threshold_mode cooldown min_lr eps"
    ),
    "torch.nn.CrossEntropyLoss": "weight size_average ignore_index reduce reduction label_smoothing",
    "torch.nn.BCEWithLogitsLoss": "weight size_average reduce reduction pos_weight",
    "torch.nn.BCELoss": "weight size_average reduce reduction",
    "torch.nn.MSELoss": "size_average reduce reduction",
    "torch.nn.L1Loss": "size_average reduce reduction",
    "torch.nn.SmoothL1Loss": "size_average reduce reduction beta",
    "torch.nn.HuberLoss": "reduction delta",
    "torch.nn.NLLLoss": "weight size_average ignore_index reduce reduction",
    "torch.nn.KLDivLoss": "size_average reduce reduction log_target",
    "torch.nn.Dropout": "p inplace",
    "torch.utils.data.DataLoader": (
        "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last "
        "timeout worker_init_fn multiprocessing_context generator prefetch_factor persistent_workers "
        "pin_memory_device in_order"
    ),
    "torch.amp.GradScaler": "device init_scale growth_factor backoff_factor growth_interval enabled",
    "torch.amp.autocast": "device_type dtype enabled cache_enabled",
    "lightgbm.train": (
        "params train_set num_boost_round valid_sets valid_names feval init_model keep_training_booster "
        "callbacks fobj"
    ),
    "lightgbm.cv": (
        "params train_set num_boost_round folds nfold stratified shuffle metrics feval init_model fpreproc "
        "seed callbacks eval_train_metric return_cvbooster"
    ),
    "lightgbm.early_stopping": "stopping_rounds first_metric_only verbose min_delta",
    "lightgbm.Dataset": (
        "data label reference weight group init_score feature_name categorical_feature params free_raw_data "
        "position"
    ),
    "xgboost.train": (
        "params dtrain num_boost_round evals obj maximize early_stopping_rounds evals_result verbose_eval "
        "xgb_model callbacks custom_metric feval"
    ),
    "xgboost.cv": (
        "params dtrain num_boost_round nfold stratified folds metrics obj maximize early_stopping_rounds "
        "fpreproc as_pandas verbose_eval show_stdv seed callbacks shuffle custom_metric feval"
    ),
    "xgboost.DMatrix": (
        "data label weight base_margin missing silent feature_names feature_types nthread group qid "
        "label_lower_bound label_upper_bound feature_weights enable_categorical data_split_mode"
    ),
    "lightning.pytorch.Trainer": (
        "accelerator strategy devices num_nodes precision logger callbacks fast_dev_run max_epochs "
        "min_epochs max_steps min_steps max_time limit_train_batches limit_val_batches limit_test_batches "
        "limit_predict_batches overfit_batches val_check_interval check_val_every_n_epoch "
        "num_sanity_val_steps log_every_n_steps enable_checkpointing enable_progress_bar "
        "enable_model_summary accumulate_grad_batches gradient_clip_val gradient_clip_algorithm "
        "deterministic benchmark inference_mode use_distributed_sampler profiler detect_anomaly barebones "
        "plugins sync_batchnorm reload_dataloaders_every_n_epochs default_root_dir enable_autolog_hparams "
        "model_registry"
    ),
    "lightning.pytorch.callbacks.EarlyStopping": (
        "monitor min_delta patience verbose mode strict check_finite stopping_threshold "
        "divergence_threshold check_on_train_epoch_end log_rank_zero_only"
    ),
    "lightning.pytorch.callbacks.ModelCheckpoint": (
        "dirpath filename monitor verbose save_last save_top_k save_on_exception save_weights_only mode "
        "auto_insert_metric_name every_n_train_steps train_time_interval every_n_epochs "
        "save_on_train_epoch_end enable_version_counter"
    ),
    "lightning.pytorch.callbacks.LearningRateMonitor": "logging_interval log_momentum log_weight_decay",
    "accelerate.Accelerator": (
        "device_placement split_batches mixed_precision gradient_accumulation_steps cpu dataloader_config "
        "deepspeed_plugin fsdp_plugin torch_tp_plugin megatron_lm_plugin rng_types log_with project_dir "
        "project_config gradient_accumulation_plugin step_scheduler_with_optimizer kwargs_handlers "
        "dynamo_backend dynamo_plugin deepspeed_plugins parallelism_config dispatch_batches even_batches "
        "use_seedable_sampler fp8 logging_dir"
    ),
    "transformers.Trainer": (
        "model args data_collator train_dataset eval_dataset processing_class model_init compute_loss_func "
        "compute_metrics callbacks optimizers optimizer_cls_and_kwargs preprocess_logits_for_metrics"
    ),
    "transformers.EarlyStoppingCallback": "early_stopping_patience early_stopping_threshold",
    "transformers.TrainingArguments": (
        "output_dir per_device_train_batch_size num_train_epochs max_steps learning_rate lr_scheduler_type "
        "lr_scheduler_kwargs warmup_steps optim optim_args weight_decay adam_beta1 adam_beta2 adam_epsilon "
        "optim_target_modules gradient_accumulation_steps average_tokens_across_devices max_grad_norm "
        "label_smoothing_factor bf16 fp16 bf16_full_eval fp16_full_eval tf32 activation_checkpointing "
        "activation_checkpointing_kwargs gradient_checkpointing gradient_checkpointing_kwargs torch_compile "
        "torch_compile_backend torch_compile_mode use_liger_kernel liger_kernel_config use_cache "
        "neftune_noise_alpha torch_empty_cache_steps auto_find_batch_size logging_strategy logging_steps "
        "logging_first_step log_on_each_node logging_nan_inf_filter include_num_input_tokens_seen log_level "
        "log_level_replica disable_tqdm report_to run_name project trackio_space_id trackio_bucket_id "
        "trackio_static_space_id eval_strategy eval_steps eval_delay per_device_eval_batch_size "
        "prediction_loss_only eval_on_start eval_do_concat_batches eval_use_gather_object "
        "eval_accumulation_steps include_for_metrics batch_eval_metrics save_only_model save_strategy "
        "save_steps save_on_each_node save_total_limit enable_jit_checkpoint push_to_hub hub_token "
        "hub_private_repo hub_model_id hub_strategy hub_always_push hub_revision load_best_model_at_end "
        "metric_for_best_model greater_is_better ignore_data_skip restore_callback_states_from_checkpoint "
        "full_determinism seed data_seed use_cpu accelerator_config parallelism_config dataloader_drop_last "
        "dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers "
        "dataloader_prefetch_factor dataloader_multiprocessing_context dataloader_in_order "
        "remove_unused_columns label_names train_sampling_strategy length_column_name "
        "ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph ddp_backend "
        "ddp_timeout fsdp fsdp_config deepspeed debug skip_memory_metrics do_train do_eval do_predict "
        "resume_from_checkpoint local_rank logging_dir warmup_ratio overwrite_output_dir save_safetensors "
        "group_by_length fp16_opt_level half_precision_backend torchdynamo ray_scope use_mps_device "
        "include_inputs_for_metrics past_index push_to_hub_model_id push_to_hub_organization "
        "push_to_hub_token jit_mode_eval use_ipex tpu_num_cores tpu_metrics_debug adafactor "
        "dispatch_batches split_batches fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap "
        "include_tokens_per_second use_legacy_prediction_loop sortish_sampler predict_with_generate "
        "generation_max_length generation_num_beams generation_config mp_parameters"
    ),
}
"""Qualified name -> every parameter, by one space."""
