#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sum over all ranks, in the executors of Spark: spark-submit --master spark://HOST:7077 spark.py

Functions of this file travel with the job. Other modules must be on the executors, or be sent there by spark-submit
--py-files, as for any job of Spark's.
"""
import os

import hvdrun.spark
from pyspark.sql import SparkSession


def add(value):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor([float(value + dist.get_rank())])
    dist.all_reduce(total)
    dist.destroy_process_group()
    return os.environ["LOCAL_RANK"], total.item()


def main():
    spark = (
        SparkSession.builder.appName("hvdrun")
        # The key of the launch goes over Spark's connections.
        .config("spark.authenticate", "true")
        .config("spark.network.crypto.enabled", "true")
        .getOrCreate()
    )
    for rank, (local_rank, total) in enumerate(hvdrun.spark.run(add, args=(1,))):
        print("rank", rank, "local rank", local_rank, "total", total)
    spark.stop()


if __name__ == "__main__":
    main()
