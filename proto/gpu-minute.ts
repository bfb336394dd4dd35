// Dedicated GPU time travels as usage records: one per instance and minute of control-plane time, so that a repetition is
// known by its name alone.
import type { InstanceId } from "./ids.ts";

export const minuteMs = 60_000;

/** Start of the minute that `unixMs` lies in. */
export const minuteOf = (unixMs: number): number => Math.floor(unixMs / minuteMs) * minuteMs;

/** The `request_id` of a minute. No request has one like it: theirs are letters and digits. */
export const gpuMinuteId = (instance: InstanceId, startMs: number): string => `gpu:${instance}:${startMs / minuteMs}`;

/** The same of the time in that minute that the instance slept: it has a price of its own. */
export const asleepMinuteId = (instance: InstanceId, startMs: number): string =>
  `${gpuMinuteId(instance, startMs)}:asleep`;
