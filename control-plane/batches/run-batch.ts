// One run of one batch, continuing the run before: validate, run the lines without a result, write the files. INVARIANTS: a
// line's request id is the same in every run and its attempts only increase, so it is billed once; a result is stored before
// it counts; a run that was taken over changes nothing.

import { Readable } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { FileNotFound } from "../files/errors.ts";
import type { Files } from "../files/files.ts";
import type { Batch, BatchError, BatchStatus } from "./batch.ts";
import { ResultWriter } from "./result-writer.ts";
import type { BatchRun, BatchStore, OutputFile } from "./store.ts";
import { type Validation, validate } from "./validate.ts";
import { type LineDeps, RunOver, workLines } from "./work-lines.ts";

export interface RunDeps extends LineDeps {
  readonly store: BatchStore;
  readonly files: Pick<Files, "input" | "write">;
  readonly log: Logger;
  /** A run that does not renew within this time loses its batch. */
  readonly lockMs: number;
  /** Delay after the first failed run; it doubles with each. */
  readonly firstPauseMs: number;
  /** Unix time. */
  readonly nowMs: () => number;
}

/** Time that running lines get at shutdown. */
const stopLimitMs = 4_000;
/** Maximum consecutive runs without a result, so that no batch runs forever. */
const maxBarrenRuns = 100;

/** Resolves when the batch or the run has ended. `stopping`: starts nothing more; running lines get a few seconds. */
export async function runBatch(deps: RunDeps, run: BatchRun, stopping: AbortSignal): Promise<void> {
  const { store, log, lockMs, nowMs } = deps;
  const { batch } = run;
  let status: BatchStatus = batch.status;
  /** Aborts running lines. */
  const over = new AbortController();
  /** Aborted when another run took over: later results do not count. */
  const lost = new AbortController();
  const ended = new AbortController();
  const lose = () => {
    lost.abort();
    over.abort();
  };
  const stop = () =>
    void wait(stopLimitMs, undefined, { signal: ended.signal }).then(
      () => over.abort(),
      () => {},
    );
  if (stopping.aborted) stop();
  else stopping.addEventListener("abort", stop, { once: true });

  async function hold(): Promise<void> {
    let untilMs = performance.now() + lockMs;
    while (!ended.signal.aborted && !lost.signal.aborted) {
      await wait(lockMs / 4, undefined, { signal: ended.signal }).catch(() => {});
      if (ended.signal.aborted) return;
      const sentMs = performance.now();
      try {
        const now = await store.renew(run, lockMs);
        if (now === undefined) return lose();
        status = now;
        untilMs = sentMs + lockMs;
      } catch (error) {
        if (performance.now() < untilMs) continue;
        log.warn({ err: error, batch: batch.id }, "could not renew the lock of a batch; it will be run again");
        lose();
      }
    }
  }

  const results = new ResultWriter(store, run, lose, lost.signal);
  const must = (isOurs: boolean): void => {
    if (!isOurs) throw new RunOver();
  };
  const input = () => deps.files.input(batch.account, batch.inputFile);

  async function validated(): Promise<boolean> {
    const found = await input().then(
      (body) => validate(body, batch.endpoint, (name) => deps.models.resolve(name, batch.account) !== undefined),
      (error): Validation => ({ ok: false, errors: [fileGone(error)] }),
    );
    if (!found.ok) {
      must(await store.failed(run, found.errors));
      return false;
    }
    must(await store.began(run, found));
    return true;
  }

  /** Returns why lines will never get a result; undefined: all have theirs. */
  async function work(): Promise<BatchError | undefined> {
    const body = await input().catch(fileGone);
    if ("code" in body) return body;
    const why = () => {
      if (status === "cancelling") return "batch_cancelled";
      return nowMs() >= batch.times.expires ? "batch_expired" : undefined;
    };
    try {
      await workLines(deps, { run, body, results, why, over: over.signal, stopping });
    } finally {
      body.destroy();
      await results.flush();
    }
    must(!lost.signal.aborted);
    return undefined;
  }

  async function writeAll(): Promise<void> {
    try {
      must(await store.end(run, await writeOutput(deps, batch, over.signal)));
    } catch (error) {
      if (error instanceof RunOver || over.signal.aborted) throw error;
      isUnwritten = true;
      if (!waitsTooLong(batch.times, nowMs())) throw error;
      log.error({ err: error, batch: batch.id, account: batch.account }, "gave up writing the output of a batch");
      must(await store.failed(run, [outputNotWritten]));
    }
  }

  /** The fault may persist: the delay grows with each run. */
  let brokeOff = false;
  let isUnwritten = false;
  async function pause(): Promise<void> {
    const ms = pauseMs(run.barren, deps.firstPauseMs);
    const atMs = nowMs() + ms;
    await store.pause(run, ms, isUnwritten ? outputWaits(atMs) : undefined);
    log.info({ batch: batch.id, run: run.run, nextRunAt: new Date(atMs) }, "batch waits for its next run");
  }

  const holding = hold();
  const beganMs = performance.now();
  try {
    const isStuck = run.barren > maxBarrenRuns;
    if (batch.status === "validating" && !isStuck && !(await validated())) return;
    const problem = batch.status === "finalizing" ? undefined : isStuck ? stuck : await work();
    if (problem && status !== "cancelling" && batch.counts.completed + batch.counts.failed === 0) {
      must(await store.failed(run, [problem]));
      return;
    }
    // Finish with the existing results, because they were billed.
    must(await store.finalizing(run, problem));
    await writeAll();
    const ms = Math.round(performance.now() - beganMs);
    log.info({ batch: batch.id, account: batch.account, run: run.run, ms }, "batch");
  } catch (error) {
    if (!(error instanceof RunOver) && !over.signal.aborted) {
      brokeOff = true;
      throw error;
    }
    if (!lost.signal.aborted) await store.release(run).catch(() => {});
  } finally {
    stopping.removeEventListener("abort", stop);
    ended.abort();
    await holding;
    // After the last renewal, which would undo it. While the database is unavailable the lock expires on its own.
    if (brokeOff) await pause().catch(() => {});
  }
}

const ofBatch = (code: string, message: string): BatchError => ({ code, line: null, message, param: null });
const rest = "Lines that are missing in the files of the batch have no result.";
const stuck = ofBatch("internal_error", `The batch could not be completed. Send its id to your operator. ${rest}`);

function fileGone(error: unknown): BatchError {
  if (!(error instanceof FileNotFound)) throw error;
  return ofBatch("input_file_not_found", `The input file no longer exists. ${rest}`);
}

/** Page size in memory. */
const page = { lines: 200, bytes: 4 * 1024 * 1024 };

/** Writes the results, without empty files. The files are published when the batch ends. */
async function writeOutput(
  deps: { readonly store: Pick<BatchStore, "results">; readonly files: Pick<Files, "write"> },
  batch: Batch,
  signal: AbortSignal,
): Promise<{ readonly output: OutputFile | undefined; readonly errors: OutputFile | undefined }> {
  async function* linesOf(isError: boolean): AsyncGenerator<string> {
    for (let after = 0; ; ) {
      const results = await deps.store.results(batch.id, isError, after, page);
      for (const { body } of results) yield `${body}\n`;
      const last = results.at(-1);
      if (!last) return;
      after = last.line;
    }
  }
  async function write(isError: boolean): Promise<OutputFile | undefined> {
    const [some] = await deps.store.results(batch.id, isError, 0, { lines: 1, bytes: 1 });
    if (!some) return undefined;
    const written = await deps.files.write(
      batch.account,
      Readable.from(linesOf(isError), { objectMode: false }),
      signal,
    );
    return { ...written, filename: `${batch.id}_${isError ? "error" : "output"}.jsonl` };
  }
  return { output: await write(false), errors: await write(true) };
}

// Retry schedule of batches whose run failed. Pure.
const maxPauseMs = 15 * 60_000;
/** Maximum wait for the file store, because the results were billed. */
const maxWaitMs = 7 * 24 * 3_600_000;

/** `barren`: consecutive runs without a result, from 1. */
const pauseMs = (barren: number, firstMs: number): number =>
  Math.min(maxPauseMs, firstMs * 2 ** Math.min(barren - 1, 20));

function waitsTooLong({ finalizing, cancelling }: Batch["times"], nowMs: number): boolean {
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

const outputWaits = (nextMs: number): BatchError =>
  ofOutput(
    "output_waits",
    `The result files cannot be written at the moment. The results are stored; the next attempt is at ` +
      `${new Date(nextMs).toISOString()}.`,
  );

const outputNotWritten = ofOutput(
  "output_not_written",
  "The result files could not be written for 7 days. Send the batch id to your operator: its results are stored.",
);
