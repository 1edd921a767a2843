"""Which family of operators defines what, and the sizes of the files then. Made by docs/build.py."""

# fmt: off
# ruff: noqa: E501
SIZES = """
__init__:210 _blocked:18b1 _checked:83b _conv_kernels:2b5f _data:427 _eager:8b3 _gamma_slope:9dd
_index_kernels:2335 _index_parse:19dc _inplace_forms:12ba _names:397 _native:3221 _native_norm:378d
_native_reduce:a4e _nn:544 _pool_kernels:3c8a _rare_kernels:28bb _results:343 _samples:3a9 _selection:ece
_shapes:275d activation:3f1e activation_elu:d6a activation_flat:226a casts:1d98 checks:419 compare:3697
create:4cc2 create_data:2bd8 create_ranges:2c6f cumulative:4a49 decompositions:26e6 determinants:1e2f
einsum:3191 histogram:1c8b index:4dc4 index_syntax:283b index_write:30f2 linalg:40ec linalg_more:3afc
linear_maps:1b80 lowrank:1048 lu:1deb masked:bb9 matmul:4db4 moves:c2c nn_attention:2baa nn_class_loss:56bc
nn_conv:4340 nn_dropout:1ab0 nn_embed:2bb1 nn_grid:236b nn_loss:3afb nn_margin:2aeb nn_norm:5e90
nn_norm_eager:28bf nn_pool:550a nn_pool_adaptive:14ee nn_sequence:2a03 nn_softmax:1876 nn_vision:58a5
norms:6147 other_names:348f pad:23d9 pointwise:4522 pointwise_divide:1de7 pointwise_math:2655
pointwise_misc:4719 pointwise_select:41f4 products:2df7 random_ops:60a8 reduce:575c resample:1312
rounding:106e samplers:12c2 scatter:3c0d shape:5bef sort:5a1b special:1430 special_kernels:3d6f
special_rare:2ae8 split:3f25 storage:de7 triangles:947 view:47bb view_expand:d97 view_grads:395a
view_slice:2cc2 windows:9fe
"""
FAMILIES = {
'activation': (
'gelu leaky_relu leaky_relu_backward logsigmoid mish normal_cdf prelu_backward prelu_elementwise relu relu_backward silu softplus softsign tanhshrink',
'nn.functional.gelu nn.functional.leaky_relu nn.functional.leaky_relu_ nn.functional.logsigmoid nn.functional.mish nn.functional.prelu nn.functional.relu nn.functional.relu_ nn.functional.silu nn.functional.softplus nn.functional.softsign nn.functional.tanhshrink',
'leaky_relu_ mish_ relu relu_ silu_',
'leaky_relu_ mish_ nn.functional.gelu nn.functional.leaky_relu nn.functional.leaky_relu_ nn.functional.logsigmoid nn.functional.mish nn.functional.prelu nn.functional.relu nn.functional.relu_ nn.functional.silu nn.functional.softplus nn.functional.softsign nn.functional.swish nn.functional.tanhshrink prelu relu relu_ silu_',
),
'activation_elu': (
'elu',
'nn.functional.celu nn.functional.celu_ nn.functional.elu nn.functional.elu_ nn.functional.selu nn.functional.selu_',
'elu_',
'celu celu_ elu_ nn.functional.celu nn.functional.celu_ nn.functional.elu nn.functional.elu_ nn.functional.selu nn.functional.selu_ selu selu_',
),
'activation_flat': (
'hardshrink hardsigmoid hardswish hardtanh softshrink threshold zero_between',
'nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh nn.functional.hardtanh_ nn.functional.relu6 nn.functional.softshrink nn.functional.threshold nn.functional.threshold_',
'hardshrink hardsigmoid_ hardswish_ hardtanh_ threshold_',
'hardshrink hardsigmoid_ hardswish_ hardtanh_ nn.functional.hardshrink nn.functional.hardsigmoid nn.functional.hardswish nn.functional.hardtanh nn.functional.hardtanh_ nn.functional.relu6 nn.functional.softshrink nn.functional.threshold nn.functional.threshold_ threshold threshold_',
),
'casts': (
'cast clone',
'bool byte char contiguous cpu cuda detach double float half int is_complex is_floating_point is_nonzero long numel short to type type_as',
'bool byte char clone contiguous cpu cuda double float half int is_nonzero long short to type type_as',
'clone contiguous detach is_complex is_floating_point is_nonzero numel to',
),
'checks': (
'require',
'',
'',
'',
),
'compare': (
'bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor eq gcd ge gt isclose isfinite isinf isnan isneginf isposinf lcm le logical_and logical_not logical_or logical_xor lt ne signbit',
'__invert__ allclose equal isreal',
'__and__ __eq__ __ge__ __gt__ __iand__ __ilshift__ __invert__ __ior__ __irshift__ __ixor__ __le__ __lshift__ __lt__ __ne__ __or__ __rand__ __rlshift__ __ror__ __rrshift__ __rshift__ __rxor__ __xor__ allclose bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_ eq eq_ equal gcd gcd_ ge ge_ greater greater_ greater_equal greater_equal_ gt gt_ isclose isfinite isinf isnan isneginf isposinf isreal lcm lcm_ le le_ less less_ less_equal less_equal_ logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor logical_xor_ lt lt_ ne ne_ not_equal not_equal_ signbit',
'allclose bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_ eq eq_ equal gcd gcd_ ge ge_ greater greater_ greater_equal greater_equal_ gt gt_ isclose isfinite isinf isnan isneginf isposinf isreal lcm lcm_ le le_ less less_ less_equal less_equal_ logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor logical_xor_ lt lt_ ne ne_ not_equal not_equal_ signbit',
),
'create': (
'empty fill_number fill_tensor full full_like zeros',
'empty empty_like empty_permuted empty_strided fill fill_ fill_diagonal_ full full_like new_empty new_empty_strided new_full new_ones new_zeros ones ones_like scalar_tensor zero_ zeros zeros_like',
'fill fill_ fill_diagonal_ fill_number_ fill_tensor_ new_empty new_empty_strided new_full new_ones new_zeros zero_',
'empty empty_like empty_permuted empty_strided fill fill_ fill_number_ fill_tensor_ full full_like ones ones_like scalar_tensor zero_ zeros zeros_like',
),
'create_data': (
'',
'__dlpack__ __dlpack_device__ apply_ as_tensor from_dlpack from_numpy new_tensor result_type tensor',
'__dlpack__ __dlpack_device__ apply_ new_tensor',
'as_tensor asarray from_dlpack from_numpy result_type tensor',
),
'create_ranges': (
'arange eye linspace tri_indices',
b:='arange eye linspace logspace tril_indices triu_indices',
'',
b,
),
'cumulative': (
'cummax_dim cummin_dim cumprod cumsum cumsum_back linear_scan linear_scan_back logcumsumexp shares shares_back',
'cummax cummin cumulative_trapezoid diff gradient trapezoid',
'cummax cummin cumprod cumprod_ cumsum cumsum_ diff logcumsumexp',
'cummax cummin cumprod cumprod_ cumsum cumsum_ cumulative_trapezoid diff gradient logcumsumexp trapezoid trapz',
),
'decompositions': (
'eigh_pair qr_pair svd_triple',
b:='linalg.eigh linalg.eigvalsh linalg.qr linalg.svd linalg.svdvals qr svd',
'qr svd',
b,
),
'determinants': (
'cofactors cofactors_of inv_inf linalg.det slogdet_pair',
'linalg.slogdet logdet',
'det logdet slogdet',
'det linalg.det linalg.slogdet logdet slogdet',
),
'einsum': (
'',
b:='einsum',
'',
b,
),
'histogram': (
'_histc',
b:='bincount histc histogram',
b,
b,
),
'index': (
'gather index index_backward index_put index_select',
b:='argwhere gather index_select masked_select nonzero nonzero_static take take_along_dim unravel_index',
'argwhere gather index_select masked_select nonzero nonzero_static take take_along_dim',
b,
),
'index_syntax': (
'',
b:='__getitem__ __setitem__ index_put index_put_',
b,
'index_put index_put_',
),
'index_write': (
'index_add index_copy index_fill',
b:='index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_reduce index_reduce_',
b,
'index_add index_copy index_fill index_reduce',
),
'linalg': (
'cholesky_inverse_lower cholesky_lower cholesky_solve_lower linalg.inv solve_matrix triangular_solve_matrix',
'cholesky cholesky_inverse cholesky_solve inverse linalg.cholesky linalg.solve linalg.solve_triangular triangular_solve',
'cholesky cholesky_inverse cholesky_solve inverse triangular_solve',
'cholesky cholesky_inverse cholesky_solve inverse linalg.cholesky linalg.inv linalg.solve linalg.solve_triangular triangular_solve',
),
'linalg_more': (
'_order_failed matrix_exp pinv_matrix',
'linalg.cholesky_ex linalg.cond linalg.diagonal linalg.inv_ex linalg.lstsq linalg.matrix_power linalg.matrix_rank linalg.pinv linalg.solve_ex linalg.tensorinv linalg.tensorsolve linalg.vander pinverse vander',
'matrix_exp matrix_power pinverse',
'linalg.cholesky_ex linalg.cond linalg.diagonal linalg.inv_ex linalg.lstsq linalg.matrix_exp linalg.matrix_power linalg.matrix_rank linalg.pinv linalg.solve_ex linalg.tensorinv linalg.tensorsolve linalg.vander matrix_exp matrix_power pinverse vander',
),
'linear_maps': (
'_linear_map _mean_map',
'',
'',
'',
),
'lowrank': (
'',
b:='lu lu_solve lu_unpack pca_lowrank svd_lowrank',
'lu lu_solve',
b,
),
'lu': (
'_permutation lu_parts',
b:='linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve',
'',
b,
),
'masked': (
'',
b:='masked_scatter masked_scatter_ put put_',
b,
'masked_scatter put',
),
'matmul': (
'matmul nn.functional.linear',
'__rmatmul__ addbmm addbmm_ addmm addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_ bmm dot mm mv outer',
'__matmul__ __rmatmul__ addbmm addbmm_ addmm addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_ bmm dot ger matmul mm mv outer vdot',
'addbmm addmm addmv addr baddbmm bmm dot ger linalg.matmul matmul mm mv nn.functional.linear outer vdot',
),
'moves': (
'flat_put flat_take',
'',
'',
'',
),
'nn_attention': (
'',
b:='nn.functional.gumbel_softmax nn.functional.multi_head_attention_forward nn.functional.scaled_dot_product_attention',
'',
b,
),
'nn_class_loss': (
'_at_class _cross_entropy _cross_entropy_grad _nll_loss _pick_class',
'nn.functional.cross_entropy nn.functional.nll_loss',
'',
'_at_class _cross_entropy _cross_entropy_grad _nll_loss _pick_class nn.functional.cross_entropy nn.functional.nll_loss',
),
'nn_conv': (
'_conv _conv_input _conv_weight _conv_with_bias',
'nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d',
'',
'_conv _conv_input _conv_weight conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d nn.functional.conv_transpose3d',
),
'nn_dropout': (
'dropout',
b:='dropout dropout_ nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout1d nn.functional.dropout2d nn.functional.dropout3d nn.functional.feature_alpha_dropout',
'dropout_',
b,
),
'nn_embed': (
'_embedding _embedding_grad',
'embedding nn.functional.embedding nn.functional.embedding_bag',
'',
'_embedding _embedding_grad embedding nn.functional.embedding nn.functional.embedding_bag',
),
'nn_grid': (
'',
b:='nn.functional.affine_grid nn.functional.grid_sample',
'',
b,
),
'nn_loss': (
'_bce _bce_logits _bent_abs',
'nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.gaussian_nll_loss nn.functional.huber_loss nn.functional.kl_div nn.functional.l1_loss nn.functional.mse_loss nn.functional.poisson_nll_loss nn.functional.smooth_l1_loss',
'',
'_bce _bce_logits nn.functional.binary_cross_entropy nn.functional.binary_cross_entropy_with_logits nn.functional.gaussian_nll_loss nn.functional.huber_loss nn.functional.kl_div nn.functional.l1_loss nn.functional.mse_loss nn.functional.poisson_nll_loss nn.functional.smooth_l1_loss',
),
'nn_margin': (
'',
'nn.functional.cosine_embedding_loss nn.functional.cosine_similarity nn.functional.glu nn.functional.hinge_embedding_loss nn.functional.margin_ranking_loss nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss nn.functional.pairwise_distance nn.functional.soft_margin_loss nn.functional.triplet_margin_loss nn.functional.triplet_margin_with_distance_loss',
'',
'cosine_embedding_loss cosine_similarity nn.functional.cosine_embedding_loss nn.functional.cosine_similarity nn.functional.glu nn.functional.hinge_embedding_loss nn.functional.margin_ranking_loss nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss nn.functional.pairwise_distance nn.functional.soft_margin_loss nn.functional.triplet_margin_loss nn.functional.triplet_margin_with_distance_loss pairwise_distance triplet_margin_loss',
),
'nn_norm': (
'_moment_norm _rms_norm',
'batch_norm layer_norm nn.functional.batch_norm nn.functional.group_norm nn.functional.instance_norm nn.functional.layer_norm nn.functional.local_response_norm nn.functional.normalize nn.functional.rms_norm',
'',
'_moment_norm _rms_norm batch_norm group_norm layer_norm nn.functional.batch_norm nn.functional.group_norm nn.functional.instance_norm nn.functional.layer_norm nn.functional.local_response_norm nn.functional.normalize nn.functional.rms_norm rms_norm',
),
'nn_norm_eager': (
'_channel_norm _group_norm _running_norm',
'',
'',
'',
),
'nn_pool': (
'_adaptive_max _max_grad _max_pool _max_take _max_values _put_back _spread_sum _take_flat _unpool_set _window_sum',
'max_pool1d max_pool2d max_pool3d nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.lp_pool1d nn.functional.lp_pool2d nn.functional.lp_pool3d nn.functional.max_pool1d nn.functional.max_pool1d_with_indices nn.functional.max_pool2d nn.functional.max_pool2d_with_indices nn.functional.max_pool3d nn.functional.max_pool3d_with_indices nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d',
'',
'_adaptive_max _max_grad _max_pool _max_take _max_values _put_back _spread_sum _take_flat _unpool_set _window_sum avg_pool1d max_pool1d max_pool1d_with_indices max_pool2d max_pool3d nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.lp_pool1d nn.functional.lp_pool2d nn.functional.lp_pool3d nn.functional.max_pool1d nn.functional.max_pool1d_with_indices nn.functional.max_pool2d nn.functional.max_pool2d_with_indices nn.functional.max_pool3d nn.functional.max_pool3d_with_indices nn.functional.max_unpool1d nn.functional.max_unpool2d nn.functional.max_unpool3d',
),
'nn_pool_adaptive': (
'',
'nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool1d_with_indices nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool2d_with_indices nn.functional.adaptive_max_pool3d nn.functional.adaptive_max_pool3d_with_indices',
'',
'adaptive_avg_pool1d adaptive_max_pool1d nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool1d_with_indices nn.functional.adaptive_max_pool2d nn.functional.adaptive_max_pool2d_with_indices nn.functional.adaptive_max_pool3d nn.functional.adaptive_max_pool3d_with_indices',
),
'nn_sequence': (
'_ctc _ctc_grad',
'nn.functional.ctc_loss nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d',
'',
'_ctc _ctc_grad ctc_loss nn.functional.ctc_loss nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d',
),
'nn_softmax': (
'_log_softmax _softmax',
'log_softmax nn.functional.log_softmax nn.functional.softmax nn.functional.softmin softmax',
'log_softmax softmax',
'_log_softmax _softmax log_softmax nn.functional.log_softmax nn.functional.softmax nn.functional.softmin softmax special.log_softmax special.softmax',
),
'nn_vision': (
'_fold _unfold',
'nn.functional.channel_shuffle nn.functional.fold nn.functional.interpolate nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.unfold nn.functional.upsample nn.functional.upsample_bilinear nn.functional.upsample_nearest',
'',
'_fold _unfold channel_shuffle nn.functional.channel_shuffle nn.functional.fold nn.functional.interpolate nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.unfold nn.functional.upsample nn.functional.upsample_bilinear nn.functional.upsample_nearest pixel_shuffle pixel_unshuffle',
),
'norms': (
'logsumexp std var vector_norm',
'corrcoef cov dist linalg.matrix_norm linalg.norm linalg.vector_norm nanquantile norm quantile renorm renorm_ std std_mean var var_mean',
'corrcoef cov dist logsumexp nanquantile norm quantile renorm renorm_ std var',
'corrcoef cov dist linalg.matrix_norm linalg.norm linalg.vector_norm logsumexp nanquantile norm quantile renorm special.logsumexp std std_mean var var_mean',
),
'other_names': (
'',
'_prelu alias_copy alpha_dropout as_strided_copy bartlett_window binary_cross_entropy_with_logits constant_pad_nd detach_copy diagonal_copy dim_order expand_copy feature_dropout frobenius_norm frombuffer get_device hinge_embedding_loss instance_norm is_conj is_pinned is_same_size is_set_to is_signed kaiser_window kl_div map2_ map_ margin_ranking_loss narrow_copy new norm_except_dim nuclear_norm permute_copy pin_memory poisson_nll_loss range resize select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy to_dense transpose_copy unbind_copy unfold_copy unsafe_chunk unsafe_split unsqueeze_copy view_copy',
'_prelu dim_order get_device is_conj is_distributed is_neg is_pinned is_same_size is_set_to map2_ map_ narrow_copy new pin_memory prelu resize to_dense unsafe_chunk unsafe_split unsafe_split_with_sizes',
'alias_copy alpha_dropout as_strided_copy bartlett_window binary_cross_entropy_with_logits constant_pad_nd detach_copy diagonal_copy expand_copy feature_alpha_dropout feature_dropout frobenius_norm frombuffer get_device hinge_embedding_loss instance_norm is_conj is_distributed is_neg is_same_size is_signed kaiser_window kl_div margin_ranking_loss narrow_copy norm_except_dim nuclear_norm permute_copy poisson_nll_loss range select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze_copy view_copy',
),
'pad': (
'constant_pad one_hot',
b:='nn.functional.one_hot nn.functional.pad',
'',
b,
),
'pointwise': (
'abs add mul neg pow reciprocal rsqrt sign sqrt square sub',
'__pow__ __rsub__ add add_ float_power positive pow rsub square sub sub_',
'__abs__ __add__ __iadd__ __imul__ __ipow__ __isub__ __mul__ __neg__ __pos__ __pow__ __radd__ __rmul__ __rpow__ __rsub__ __sub__ abs abs_ absolute absolute_ add add_ float_power mul mul_ multiply multiply_ neg neg_ negative negative_ positive pow pow_ reciprocal reciprocal_ rsqrt rsqrt_ rsub sgn sgn_ sign sign_ sqrt sqrt_ square square_ sub sub_ subtract subtract_',
'abs abs_ absolute absolute_ add add_ float_power mul mul_ multiply multiply_ neg neg_ negative negative_ positive pow pow_ reciprocal reciprocal_ rsqrt rsqrt_ rsub sgn sgn_ sign sign_ sqrt sqrt_ square square_ sub sub_ subtract',
),
'pointwise_divide': (
'floor_divide floor_quotient fmod remainder true_divide trunc_divide',
'__rtruediv__ div div_',
'__floordiv__ __ifloordiv__ __imod__ __itruediv__ __mod__ __rdiv__ __rfloordiv__ __rmod__ __rtruediv__ __truediv__ div div_ divide divide_ floor_divide floor_divide_ floor_quotient_ fmod fmod_ remainder remainder_ true_divide true_divide_ trunc_divide_',
'div divide floor_divide floor_divide_ floor_quotient_ fmod fmod_ remainder remainder_ true_divide true_divide_ trunc_divide_',
),
'pointwise_math': (
'acos acosh asin asinh atan atan2 atanh cos cosh exp exp2 expm1 log log10 log1p log2 logit sigmoid sin sinh tan tanh',
'',
'acos acos_ acosh acosh_ arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ asin asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ cos cos_ cosh cosh_ exp exp2 exp2_ exp_ expm1 expm1_ log log10 log10_ log1p log1p_ log2 log2_ log_ logit logit_ sigmoid sigmoid_ sin sin_ sinh sinh_ tan tan_ tanh tanh_',
'acos acos_ acosh acosh_ arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ asin asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh atanh_ cos cos_ cosh cosh_ exp exp2 exp2_ exp_ expm1 expm1_ log log10 log10_ log1p log1p_ log2 log2_ log_ logit logit_ nn.functional.sigmoid nn.functional.sigmoid_ nn.functional.tanh nn.functional.tanh_ sigmoid sigmoid_ sin sin_ sinh sinh_ special.exp2 special.exp2_ special.expit special.expit_ special.expm1 special.expm1_ special.log1p special.log1p_ special.logit special.logit_ tan tan_ tanh tanh_',
),
'pointwise_misc': (
'addcdiv addcmul copysign fmax fmin heaviside hypot ldexp lerp lerp_tensor logaddexp logaddexp2 maximum minimum nan_to_num xlog1py xlogy',
'lerp lerp_ special.xlog1py',
'addcdiv addcdiv_ addcmul addcmul_ copysign copysign_ fmax fmin heaviside heaviside_ hypot hypot_ ldexp ldexp_ lerp lerp_ lerp_tensor_ logaddexp logaddexp2 maximum minimum nan_to_num nan_to_num_ xlogy xlogy_',
'addcdiv addcdiv_ addcmul addcmul_ copysign copysign_ fmax fmin heaviside heaviside_ hypot hypot_ ldexp ldexp_ lerp lerp_ lerp_tensor_ logaddexp logaddexp2 maximum minimum nan_to_num nan_to_num_ special.xlog1py special.xlogy special.xlogy_ xlogy xlogy_',
),
'pointwise_select': (
'clamp clamp_tensor mask_fill mask_fill_tensor where',
'_where clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ masked_fill masked_fill_ where',
'_where clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clamp_tensor_ clip clip_ mask_fill_ mask_fill_tensor_ masked_fill masked_fill_ where',
'clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clamp_tensor_ clip clip_ mask_fill_ mask_fill_tensor_ masked_fill where',
),
'products': (
'euclidean_distances',
'cdist chain_matmul cross inner kron linalg.cross linalg.multi_dot linalg.vecdot nn.functional.bilinear nn.functional.pdist tensordot',
'cross inner kron',
'bilinear cdist chain_matmul cross inner kron linalg.cross linalg.multi_dot linalg.vecdot nn.functional.bilinear nn.functional.pdist pdist tensordot',
),
'random_ops': (
'bernoulli multinomial rand randint randn randperm',
'bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal normal_ rand rand_like randint randint_like randn randn_like random_ randperm uniform_',
'bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random_ uniform_',
'bernoulli multinomial normal rand rand_like randint randint_like randn randn_like randperm',
),
'reduce': (
'all amax amin any argmax argmin max_all max_dim mean min_all min_dim prod sum',
'aminmax count_nonzero max min nanmean nansum trace',
c:='all amax amin aminmax any argmax argmin count_nonzero max max_dim mean min min_dim nanmean nansum prod sum trace',
c,
),
'resample': (
'weighted_slices',
'',
'',
'',
),
'rounding': (
'ceil deg2rad floor frac rad2deg round trunc',
'',
'ceil ceil_ deg2rad deg2rad_ fix fix_ floor floor_ frac frac_ rad2deg rad2deg_ round round_ trunc trunc_',
'ceil ceil_ deg2rad deg2rad_ fix fix_ floor floor_ frac frac_ rad2deg rad2deg_ round round_ special.round special.round_ trunc trunc_',
),
'samplers': (
'_standard_gamma_grad binomial poisson standard_gamma',
'_standard_gamma binomial poisson',
'_standard_gamma _standard_gamma_grad',
'_standard_gamma _standard_gamma_grad binomial poisson',
),
'scatter': (
'scatter scatter_add scatter_reduce scatter_value',
b:='scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_',
b,
'scatter scatter_add scatter_reduce',
),
'shape': (
'cat flip stack',
'block_diag broadcast_shapes broadcast_tensors cartesian_prod cat column_stack combinations diag diag_embed diagflat dstack flip fliplr flipud hstack meshgrid repeat repeat_interleave roll rot90 stack sum_to_size tile vstack',
'combinations diag diag_embed diagflat flip fliplr flipud repeat repeat_interleave roll rot90 sum_to_size tile',
'block_diag broadcast_shapes broadcast_tensors cartesian_prod cat column_stack combinations concat concatenate diag diag_embed diagflat dstack flip fliplr flipud hstack meshgrid repeat_interleave roll rot90 row_stack stack tile vstack',
),
'sort': (
'isin kthvalue median_all median_dim mode searchsorted sort topk',
b:='argsort bucketize isin kthvalue median mode msort nanmedian searchsorted sort topk unique unique_consecutive',
'argsort kthvalue median mode msort nanmedian sort topk unique unique_consecutive',
b,
),
'special': (
'digamma entr erf erfc erfinv lgamma polygamma_of sinc sinc_of',
'polygamma special.entr',
'digamma digamma_ erf erf_ erfc erfc_ erfinv erfinv_ lgamma lgamma_ polygamma_of_ sinc sinc_',
'digamma digamma_ erf erf_ erfc erfc_ erfinv erfinv_ lgamma lgamma_ polygamma polygamma_of_ sinc sinc_ special.digamma special.digamma_ special.entr special.erf special.erf_ special.erfc special.erfc_ special.erfinv special.erfinv_ special.gammaln special.gammaln_ special.polygamma special.psi special.psi_ special.sinc special.sinc_',
),
'special_kernels': (
'',
'',
'',
'',
),
'special_rare': (
'angle erfcx frexp i0 i0e i1 i1e igamma igammac iv_over log_ndtr ndtr ndtri nextafter rrelu_op',
'_polygamma conj_physical conj_physical_ float_power_ frexp mvlgamma mvlgamma_ nn.functional.rrelu nn.functional.rrelu_ polygamma_ real special.erfcx special.i0e special.i1 special.i1e special.log_ndtr special.ndtr special.ndtri',
'_polygamma angle conj conj_physical conj_physical_ float_power_ frexp i0 i0_ igamma igamma_ igammac igammac_ mvlgamma mvlgamma_ nextafter nextafter_ polygamma polygamma_ real resolve_conj resolve_neg',
'angle conj conj_physical conj_physical_ frexp i0 i0_ igamma igamma_ igammac igammac_ mvlgamma nextafter nextafter_ nn.functional.rrelu nn.functional.rrelu_ real resolve_conj resolve_neg rrelu rrelu_ special.erfcx special.gammainc special.gammainc_ special.gammaincc special.gammaincc_ special.i0 special.i0_ special.i0e special.i1 special.i1e special.log_ndtr special.multigammaln special.ndtr special.ndtri',
),
'split': (
'',
b:='atleast_1d atleast_2d atleast_3d chunk dsplit hsplit split split_with_sizes tensor_split unbind vsplit',
'chunk dsplit hsplit split split_with_sizes tensor_split unbind vsplit',
b,
),
'storage': (
'',
b:='storage untyped_storage',
b,
'',
),
'triangles': (
'tril triu',
'',
c:='tril tril_ triu triu_',
c,
),
'view': (
'permute squeeze_dims transpose unsqueeze view view_dtype',
'adjoint flatten movedim permute ravel reshape reshape_as squeeze squeeze_ swapaxes_ swapdims_ t t_ transpose_ unflatten unsqueeze_ view view_as',
'adjoint flatten moveaxis movedim permute ravel reshape reshape_as squeeze squeeze_ swapaxes swapaxes_ swapdims swapdims_ t t_ transpose transpose_ unflatten unsqueeze unsqueeze_ view view_as',
'adjoint flatten moveaxis movedim permute ravel reshape reshape_as squeeze swapaxes swapdims t transpose unflatten unsqueeze view_as',
),
'view_expand': (
'expand',
'broadcast_to expand_as',
c:='broadcast_to expand expand_as',
c,
),
'view_grads': (
'as_strided as_strided_backward as_strided_forward diagonal_backward diagonal_scatter select_backward select_scatter slice_backward slice_nd_backward slice_scatter unfold_backward',
'as_strided_ as_strided_scatter resize_ resize_as_',
'as_strided as_strided_ as_strided_scatter diagonal_scatter resize_ resize_as_ select_scatter slice_scatter',
'as_strided as_strided_scatter diagonal_scatter resize_as_ select_scatter slice_scatter',
),
'view_slice': (
'diagonal select slice slice_nd unfold',
'narrow',
c:='diagonal narrow select unfold',
c,
),
'windows': (
'',
b:='blackman_window hamming_window hann_window',
'',
b,
),
}
