import { sql } from "kysely";
import { interval } from "../core/time.ts";

/** Figures of the last report of each host, as the table `sample`. */
export const hostSamples = (freshMs: number) => sql`
  with sample as (
      select h.host_id, g.*, i.running, i.waiting, i.gpus_held, i.tokens_per_second,
        host_figure(h.live->'load'->'cpuRatio') as cpu_use, host_figure(h.live->'load'->'memoryUsedBytes') as memory_used
      from host h, lateral (
        select count(*) as gpus, avg(host_figure(g->'utilizationRatio')) as gpu_use,
          sum(host_figure(g->'memoryUsedBytes')) as gpu_memory_used, sum(host_figure(g->'memoryTotalBytes')) as gpu_memory_total,
          sum(host_figure(g->'powerWatts')) as gpu_power_watts, max(host_figure(g->'temperatureCelsius')) as gpu_temperature,
          coalesce(jsonb_agg(jsonb_build_array(g->'uuid', g->'utilizationRatio', g->'memoryUsedBytes', g->'powerWatts',
            g->'temperatureCelsius')), '[]') as gpu_samples
        from jsonb_array_elements(h.live->'gpus') g
      ) g, lateral (
        select coalesce(sum(host_figure(i->'inFlight')), 0) as running, coalesce(sum(host_figure(i->'waiting')), 0) as waiting,
        coalesce(sum(host_figure(i->'tokensPerSecond')), 0) as tokens_per_second,
          (select count(distinct u) from jsonb_array_elements(h.live->'instances') j,
            jsonb_array_elements_text(j->'gpuUuids') u) as gpus_held
        from jsonb_array_elements(h.live->'instances') i
      ) i where h.live is not null and h.reported_at > now() - ${interval(freshMs)}
    )`;
