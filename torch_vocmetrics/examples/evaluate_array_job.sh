#!/bin/sh
# An array job evaluates a data set in shards, and a job that waits for it merges them. With Slurm:
#
#   job=$(sbatch --parsable --array=0-9 evaluate_array_job.sh shard FOLDER)
#   sbatch --dependency=afterok:"$job" evaluate_array_job.sh merge FOLDER
#
# FOLDER is shared by all machines and holds gt_0.json, dt_0.json, gt_1.json, ... in COCO's formats.
# A task that is run again replaces its state file at once and whole.
set -eu
action=$1 folder=$2
case $action in
shard)
    task=${SLURM_ARRAY_TASK_ID:-${PBS_ARRAY_INDEX:-${AWS_BATCH_JOB_ARRAY_INDEX:-}}}
    : "${task:?no number of an array task in the environment}"
    vocmetrics evaluate coco2017 \
        --ground-truth "$folder/gt_$task.json" --detections "$folder/dt_$task.json" \
        --save-state "$folder/shard_$task.npz"
    ;;
merge)
    vocmetrics merge "$folder"/shard_*.npz --json "$folder/result.json"
    ;;
*)
    echo "usage: $0 shard|merge FOLDER" >&2
    exit 2
    ;;
esac
