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
    `The result files cannot be written at the moment. The results are stored; the next attempt is at ` +
      `${new Date(nextMs).toISOString()}.`,
  );

export const outputNotWritten = ofOutput(
  "output_not_written",
  "The result files could not be written for 7 days. Send the batch id to your operator: its results are stored.",
);
