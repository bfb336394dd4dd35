// When a batch whose run broke off is taken up again, and when what was done is not tried any more. Pure.
import type { Batch, BatchError } from "./batch.ts";

const mostPauseMs = 15 * 60_000;
/** So long an outage of the store of files is waited for: the results were billed. */
const mostWaitMs = 7 * 24 * 3_600_000;

/** `barren`: runs so far, one after the other, that added nothing; from 1. */
export const pauseMs = (barren: number, firstMs: number): number =>
  Math.min(mostPauseMs, firstMs * 2 ** Math.min(barren - 1, 20));

export function waitsTooLong({ finalizing, cancelling }: Batch["times"], nowMs: number): boolean {
  const sinceMs = finalizing ?? cancelling;
  return sinceMs !== null && nowMs - sinceMs > mostWaitMs;
}

/** By `output_` the store knows what no longer holds once there is an output. */
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
