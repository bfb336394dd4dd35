// Settings of scaling: wire <-> domain.
import { type Scaling, type ScalingUpdate, scalingAfter } from "../../deployments/scaling.ts";
import type { Schedule } from "./deployment-schemas.ts";

export interface ScalingSettings {
  readonly target_ttft_ms?: number | null;
  readonly target_queue_ms?: number | null;
  readonly schedules?: readonly Schedule[] | null;
}

type Given = ScalingSettings | null | undefined;

/** The given settings of an update. */
export function readScaling(settings: Given): { readonly scaling?: ScalingUpdate } {
  const scaling = given(settings);
  return Object.keys(scaling).length > 0 ? { scaling } : {};
}

/** The same of a new deployment. */
export function newScaling(settings: Given): { readonly scaling?: Scaling } {
  const { scaling } = readScaling(settings);
  return scaling ? { scaling: scalingAfter({}, scaling) } : {};
}

function given(settings: Given): ScalingUpdate {
  const { target_ttft_ms: ttft, target_queue_ms: queue, schedules } = settings ?? {};
  return {
    ...(ttft === undefined ? {} : { targetTtftMs: ttft }),
    ...(queue === undefined ? {} : { targetQueueMs: queue }),
    ...(schedules === undefined
      ? {}
      : {
          schedules:
            schedules?.map(({ days, from, to, time_zone: timeZone, min_instances: minInstances }) => ({
              days,
              from,
              to,
              timeZone,
              minInstances,
            })) ?? null,
        }),
  };
}

export function writeScaling({ targetTtftMs, targetQueueMs, schedules }: Scaling) {
  return {
    ...(targetTtftMs === undefined ? {} : { target_ttft_ms: targetTtftMs }),
    ...(targetQueueMs === undefined ? {} : { target_queue_ms: targetQueueMs }),
    ...(schedules === undefined
      ? {}
      : {
          schedules: schedules.map(({ days, from, to, timeZone, minInstances }) => ({
            days: [...days],
            from,
            to,
            time_zone: timeZone,
            min_instances: minInstances,
          })),
        }),
  };
}
