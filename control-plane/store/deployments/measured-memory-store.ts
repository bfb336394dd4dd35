import { sql } from "kysely";
import type { MeasuredMemoryStore } from "../../deployments/store.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";

/** No GPU has more. A host may report any number, and the sum of its processes must stay within 64 bits. */
const maxProcessBytes = 2 ** 41;

export function createMeasuredMemoryStore(db: Db): MeasuredMemoryStore {
  return asked<MeasuredMemoryStore>({
    async measure() {
      // The hosts' last figures list the processes on each GPU with their instances. Only serving instances have reached their
      // full memory.
      const { numAffectedRows } = await sql`
        with held as (
          select host_id, process->>'instanceId' as instance_id,
            sum(least((process->>'memoryBytes')::numeric, ${maxProcessBytes}))::bigint as bytes
          from host, jsonb_array_elements(host.live->'gpus') gpu, jsonb_array_elements(gpu->'processes') process
          where host.reported_at > now() - interval '30 seconds' and process->>'instanceId' <> ''
          group by 1, 2
        ), seen as (
          select d.version, d.engine, d.gpu, ${settingsOf} as settings, max(held.bytes) as bytes,
            max(d.memory_bytes) as expected
          from held join instance i using (host_id, instance_id) join deployment d using (deploy_id)
            join deployment_spec s on s.deploy_id = d.deploy_id and s.spec = d.spec
          where i.phase = 'ready' and i.tombstoned_at is null and i.spec = d.spec and held.bytes > 0
            and not ${isLowered}
          group by 1, 2, 3, 4
        )
        insert into measured_memory (version, engine, gpu, settings, peak_bytes, expected_bytes)
        select version, engine, gpu, settings, bytes, expected from seen order by 1, 2, 3, 4
        on conflict (version, engine, gpu, settings) do update set looks = measured_memory.looks + 1,
          peak_bytes = greatest(measured_memory.peak_bytes, excluded.peak_bytes), measured_at = now()`.execute(db);
      return Number(numAffectedRows ?? 0n);
    },

    async find(run) {
      const settings = settingsText(run);
      const row = await db
        .selectFrom("measuredMemory")
        .select("peakBytes")
        .where("version", "=", run.version)
        .where("engine", "=", run.engine)
        .where("gpu", "=", run.gpu)
        .where("settings", "=", settings)
        .executeTakeFirst();
      return row && Number(row.peakBytes);
    },
  });
}

/** An instance that started after its owner lowered the batch uses less than its settings suggest. */
const isLowered = sql<boolean>`coalesce((d.standard_args->>'maxConcurrentRequests')::int, d.max_batch_size)
  < coalesce((s.standard_args->>'maxConcurrentRequests')::int, d.max_batch_size)`;

/** The same text as `settingsText`, from a deployment's row. The batch is the one that the engine was started with. */
const settingsOf = sql`concat_ws(' ', d.num_gpus,
  coalesce(s.standard_args->>'maxConcurrentRequests', d.max_batch_size::text), d.context_length, array_to_string(d.extra_args, ' '))`;
const settingsText = (run: Parameters<MeasuredMemoryStore["find"]>[0]) =>
  [run.numGpus, run.maxBatchSize, run.contextLength, run.extraArgs.join(" ")].join(" ");
