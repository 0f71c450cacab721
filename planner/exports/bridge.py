"""A training plan as overrides of a Megatron-Bridge recipe: Megatron-Core's arguments, renamed.

The recipe has the shape of the model; the plan's degrees, batch, lengths, precision, recompute and
sharding are laid over it, what the plan does not use is switched off: recipes bring their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.exports.launch import PRECISIONS, Argument, megatron_arguments, training_job
from planner.study.read import Study

FIELDS: Mapping[str, tuple[str, ...]] = {
    "--tensor-model-parallel-size": ("model.tensor_model_parallel_size",),
    "--pipeline-model-parallel-size": ("model.pipeline_model_parallel_size",),
    "--context-parallel-size": ("model.context_parallel_size",),
    "--expert-model-parallel-size": ("model.expert_model_parallel_size",),
    "--expert-tensor-parallel-size": ("model.expert_tensor_parallel_size",),
    "--micro-batch-size": ("train.micro_batch_size",),
    "--global-batch-size": ("train.global_batch_size",),
    "--train-samples": ("train.train_samples",),
    "--seq-length": ("model.seq_length", "dataset.seq_length"),
    "--max-position-embeddings": ("model.max_position_embeddings",),
    "--recompute-granularity": ("model.recompute_granularity",),
    "--recompute-method": ("model.recompute_method",),
    "--recompute-num-layers": ("model.recompute_num_layers",),
    "--overlap-grad-reduce": ("ddp.overlap_grad_reduce",),
    "--overlap-param-gather": ("ddp.overlap_param_gather",),
    "--use-distributed-optimizer": ("ddp.use_distributed_optimizer",),
    "--num-distributed-optimizer-instances": ("ddp.num_distributed_optimizer_instances",),
    "--use-megatron-fsdp": ("dist.use_megatron_fsdp", "ddp.use_megatron_fsdp"),
    "--data-parallel-sharding-strategy": ("ddp.data_parallel_sharding_strategy",),
    "--ckpt-format": ("checkpoint.ckpt_format",),
    "--sequence-parallel": ("model.sequence_parallel",),
    "--moe-token-dispatcher-type": ("model.moe_token_dispatcher_type",),
    "--overlap-moe-expert-parallel-comm": ("comm_overlap.overlap_moe_expert_parallel_comm",),
    "--cp-comm-type": ("model.cp_comm_type",),
    "--num-virtual-stages-per-pipeline-rank": ("model.virtual_pipeline_model_parallel_size",),
    "--decoder-first-pipeline-num-layers": ("model.num_layers_in_first_pipeline_stage",),
    "--decoder-last-pipeline-num-layers": ("model.num_layers_in_last_pipeline_stage",),
}
"""Megatron-Bridge@158aa4e scripts/translate_mlm_to_bridge.py; layers of the outer stages and
sharding: fields of Megatron-Core's TransformerConfig and DistributedDataParallelConfig."""

INVERTED: Mapping[str, str] = {
    "--no-gradient-accumulation-fusion": "model.gradient_accumulation_fusion",
}
"""Arguments that switch a field off."""

OFF: Mapping[str, str] = {
    "model.sequence_parallel": "false",
    "model.recompute_granularity": "null",
    "model.recompute_method": "null",
    "model.recompute_num_layers": "null",
    "model.virtual_pipeline_model_parallel_size": "null",
    "model.num_layers_in_first_pipeline_stage": "null",
    "model.num_layers_in_last_pipeline_stage": "null",
    "model.pipeline_model_parallel_layout": "null",
    "ddp.use_distributed_optimizer": "false",
    "ddp.overlap_param_gather": "false",
    "ddp.use_megatron_fsdp": "false",
    "dist.use_megatron_fsdp": "false",
}
"""What a recipe may bring and a plan does without."""

MIXED: Mapping[str, str] = {
    "bf16": "bf16_mixed",
    "fp16": "fp16_mixed",
    "fp8": "bf16_with_fp8_current_scaling_mixed",
    "fp8_block": "bf16_with_fp8_subchannel_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed",
    "nvfp4": "bf16_with_nvfp4_mixed",
}
"""Megatron-Bridge@0509780 src/megatron/bridge/training/mixed_precision.py (nvfp4: later releases).
With per-tensor scales it keeps the first and the last layer in BF16."""

RECIPE = ': "${RECIPE:?a recipe of megatron.bridge.recipes with the shape of the model}"'
DATA = ': "${DATA_OVERRIDES:?data, tokenizer, checkpoints, as section.field=value}"'
COMMAND = "$BRIDGE_SOURCE/scripts/training/run_recipe.py --recipe $RECIPE $DATA_OVERRIDES"
SOURCE = ': "${BRIDGE_SOURCE:?a checkout of Megatron-Bridge}"'


def bridge_script(
    study: Study, plan: Mapping[str, Any], devices_per_host: int, tdp_w: float
) -> str:
    """A Slurm script that runs a training plan with Megatron-Bridge.

    Parameters
    ----------
    plan : the document of `planner explain`
    tdp_w : rated power of a device, which a cap is a share of

    Raises
    ------
    BadStudy : another kind of study, or decisions that Megatron-Bridge cannot be told
    """
    words = [f"{field}={value}" for field, value in bridge_overrides(study, plan)]
    asked = (SOURCE, RECIPE, DATA)
    return training_job(study, plan, devices_per_host, tdp_w, asked, COMMAND, words)


def bridge_overrides(study: Study, plan: Mapping[str, Any]) -> tuple[Argument, ...]:
    """Fields of a recipe's configuration and what a plan sets them to.

    Raises
    ------
    BadStudy : decisions without a field, all at once
    """
    axes, arguments = plan["axes"], megatron_arguments(study, plan)
    told = {flag for flag, _ in PRECISIONS[axes["precision"]]}
    found: list[Argument] = []
    for flag, value in arguments:
        if flag in INVERTED:
            found.append((INVERTED[flag], "false"))
        elif flag not in told:
            found += [(field, value or "true") for field in FIELDS[flag]]
    given = {field for field, _ in found}
    found += [(field, value) for field, value in OFF.items() if field not in given]
    return (*found, ("mixed_precision", MIXED[axes["precision"]]))
