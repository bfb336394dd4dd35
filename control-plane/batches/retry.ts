// Retry schedule of batches whose run failed. Pure.
import type { Batch, BatchError } from "./batch.ts";

const maxPauseMs = 15 * 60_000;
/** Maximum wait for the file store, because the results were billed. */
const maxWaitMs = 7 * 24 * 3_600_000;

/** `barren`: consecutive runs without a result, from 1. */
export const pauseMs = (barren: number, firstMs: number): number =>
  Math.min(maxPauseMs, firstMs * 2 ** Math.min(barren - 1, 20));

export function waitsTooLong({ finalizing, cancelling }: Batch["times"], nowMs: number): boolean {
  const sinceMs = finalizing ?? cancelling;
  return sinceMs !== null && nowMs - sinceMs > maxWaitMs;
}

/** The `output_` prefix marks errors that an output clears. */
const ofOutput = (code: `output_${string}`, message: string): BatchError => ({
  code,
  line: null,
  message,
  param: null,
});

export const outputWaits = (nextMs: number): BatchError =>
  ofOutput(
    "output_waits",
    `The files with the results cannot be written at the moment. The results are kept; it is tried again at ` +
      `${new Date(nextMs).toISOString()}.`,
  );

export const outputNotWritten = ofOutput(
  "output_not_written",
  "The files with the results could not be written for 7 days. Tell your operator the batch's id: its results are kept.",
);
