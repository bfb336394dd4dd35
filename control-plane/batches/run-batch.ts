// One run of one batch, continuing the run before: validate, run the lines without a result, write the files. INVARIANTS: a
// line's request id is the same in every run and its attempts only increase, so it is billed once; a result is stored before
// it counts; a run that was taken over changes nothing.

import { Readable } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";
import type { ErrorCode } from "../error-codes.ts";
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
  await new RunningBatch(deps, run, stopping).work();
}

class RunningBatch {
  readonly #deps: RunDeps;
  readonly #run: BatchRun;
  readonly #stopping: AbortSignal;
  readonly #results: ResultWriter;
  /** Aborts running lines. */
  readonly #over = new AbortController();
  /** Aborted when another run took over: later results do not count. */
  readonly #lost = new AbortController();
  readonly #ended = new AbortController();
  /** As last read. */
  #status: BatchStatus;
  /** The output could not be written. */
  #isUnwritten = false;

  constructor(deps: RunDeps, run: BatchRun, stopping: AbortSignal) {
    this.#deps = deps;
    this.#run = run;
    this.#stopping = stopping;
    this.#status = run.batch.status;
    this.#results = new ResultWriter(deps.store, run, this.#lose, this.#lost.signal);
  }

  async work(): Promise<void> {
    const { store } = this.#deps;
    let hasFailed = false;
    if (this.#stopping.aborted) this.#stop();
    else this.#stopping.addEventListener("abort", this.#stop, { once: true });
    const holding = this.#hold();
    try {
      await this.#steps();
    } catch (error) {
      if (!(error instanceof RunOver) && !this.#over.signal.aborted) {
        hasFailed = true;
        throw error;
      }
      if (!this.#lost.signal.aborted) await store.release(this.#run).catch(() => {});
    } finally {
      this.#stopping.removeEventListener("abort", this.#stop);
      this.#ended.abort();
      await holding;
      // After the last renewal, which would undo it. While the database is unavailable the lock expires on its own.
      if (hasFailed) await this.#waitForNextRun().catch(() => {});
    }
  }

  readonly #stop = (): void =>
    void wait(stopLimitMs, undefined, { signal: this.#ended.signal }).then(
      () => this.#over.abort(),
      () => {},
    );

  readonly #lose = (): void => {
    this.#lost.abort();
    this.#over.abort();
  };

  async #hold(): Promise<void> {
    const { store, log, lockMs } = this.#deps;
    let untilMs = performance.now() + lockMs;
    while (!this.#ended.signal.aborted && !this.#lost.signal.aborted) {
      await pause(lockMs / 4, this.#ended.signal);
      if (this.#ended.signal.aborted) return;
      const sentMs = performance.now();
      try {
        const status = await store.renew(this.#run, lockMs);
        if (status === undefined) return this.#lose();
        this.#status = status;
        untilMs = sentMs + lockMs;
      } catch (error) {
        if (performance.now() < untilMs) continue;
        const batch = this.#run.batch.id;
        log.warn({ err: error, batch }, "could not renew the lock of a batch; it will be run again");
        this.#lose();
      }
    }
  }

  async #steps(): Promise<void> {
    const { store, log } = this.#deps;
    const { batch, run, barren } = this.#run;
    const beganMs = performance.now();
    const isStuck = barren > maxBarrenRuns;
    if (batch.status === "validating" && !isStuck && !(await this.#validate())) return;
    const problem = batch.status === "finalizing" ? undefined : isStuck ? stuck : await this.#runLines();
    if (problem && this.#status !== "cancelling" && batch.counts.completed + batch.counts.failed === 0)
      return must(await store.failed(this.#run, [problem]));
    // Finish with the existing results, because they were billed.
    must(await store.finalizing(this.#run, problem));
    await this.#writeFiles();
    log.info({ batch: batch.id, account: batch.account, run, ms: Math.round(performance.now() - beganMs) }, "batch");
  }

  #input() {
    const { account, inputFile } = this.#run.batch;
    return this.#deps.files.input(account, inputFile);
  }

  /** False: the file is invalid, and the batch failed. */
  async #validate(): Promise<boolean> {
    const { store, models } = this.#deps;
    const { account, endpoint } = this.#run.batch;
    const found = await this.#input().then(
      (body) => validate(body, endpoint, (name) => models.resolve(name, account) !== undefined),
      (error): Validation => ({ ok: false, errors: [fileGone(error)] }),
    );
    must(await (found.ok ? store.began(this.#run, found) : store.failed(this.#run, found.errors)));
    return found.ok;
  }

  /** Returns why lines will never get a result; undefined: all have theirs. */
  async #runLines(): Promise<BatchError | undefined> {
    const body = await this.#input().catch(fileGone);
    if ("code" in body) return body;
    const why = () => {
      if (this.#status === "cancelling") return "batch_cancelled";
      return this.#deps.nowMs() >= this.#run.batch.times.expires ? "batch_expired" : undefined;
    };
    const { signal: over } = this.#over;
    try {
      await workLines(this.#deps, {
        run: this.#run,
        body,
        results: this.#results,
        why,
        over,
        stopping: this.#stopping,
      });
    } finally {
      body.destroy();
      await this.#results.flush();
    }
    must(!this.#lost.signal.aborted);
    return undefined;
  }

  async #writeFiles(): Promise<void> {
    const { store, log, nowMs } = this.#deps;
    const { batch } = this.#run;
    try {
      must(await store.end(this.#run, await writeOutput(this.#deps, batch, this.#over.signal)));
    } catch (error) {
      if (error instanceof RunOver || this.#over.signal.aborted) throw error;
      this.#isUnwritten = true;
      if (!waitsTooLong(batch.times, nowMs())) throw error;
      log.error({ err: error, batch: batch.id, account: batch.account }, "gave up writing the output of a batch");
      must(await store.failed(this.#run, [outputNotWritten]));
    }
  }

  /** The fault may persist: the delay grows with each run. */
  async #waitForNextRun(): Promise<void> {
    const { store, log, firstPauseMs, nowMs } = this.#deps;
    const { batch, run, barren } = this.#run;
    const ms = pauseMs(barren, firstPauseMs);
    const atMs = nowMs() + ms;
    await store.pause(this.#run, ms, this.#isUnwritten ? outputWaits(atMs) : undefined);
    log.info({ batch: batch.id, run, nextRunAt: new Date(atMs) }, "batch waits for its next run");
  }
}

/** `isOurs`: the write succeeded, because no other run took over. */
function must(isOurs: boolean): void {
  if (!isOurs) throw new RunOver();
}

const ofBatch = (code: ErrorCode, message: string): BatchError => ({ code, line: null, message, param: null });
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

// The prefix `output_` marks errors that an output clears.
const outputWaits = (nextMs: number): BatchError =>
  ofBatch(
    "output_waits",
    `The result files cannot be written at the moment. The results are stored; the next attempt is at ` +
      `${new Date(nextMs).toISOString()}.`,
  );

const outputNotWritten = ofBatch(
  "output_not_written",
  "The result files could not be written for 7 days. Send the batch id to your operator: its results are stored.",
);
