// One run of one batch, from wherever the run before it came to an end: validate, work through the lines that have no result,
// write the files. INVARIANTS: a line's request id is the same at every run and its attempts only rise, so that it is billed
// once however often it ran; a result stands in the database before it counts; an overtaken run changes nothing.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { FileNotFound } from "../files/errors.ts";
import type { Files } from "../files/files.ts";
import type { BatchStatus } from "./batch.ts";
import { ResultWriter } from "./result-writer.ts";
import type { BatchRun, BatchStore } from "./store.ts";
import { type Validation, validate } from "./validate.ts";
import { type LineDeps, RunOver, workLines } from "./work-lines.ts";
import { writeOutput } from "./write-output.ts";

export interface RunDeps extends LineDeps {
  readonly store: BatchStore;
  readonly files: Pick<Files, "content" | "write">;
  readonly log: Logger;
  /** Whoever runs a batch and is not heard of for so long has lost it. */
  readonly lockMs: number;
}

/** Lines that run when this control plane is to stop get so long. */
const stopLimitMs = 4_000;
/** A batch that makes every control plane fail must not do so for ever. */
const mostRuns = 100;

/** Resolves when the batch has ended or the run is over. `stopping`: nothing new begins, what runs gets a few seconds. */
export async function runBatch(deps: RunDeps, run: BatchRun, stopping: AbortSignal): Promise<void> {
  const { store, log, lockMs } = deps;
  const { batch } = run;
  let status: BatchStatus = batch.status;
  /** Aborted when what runs is to break off. */
  const over = new AbortController();
  /** Aborted when the batch is somebody else's: nothing that is still known counts. */
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
      const now = await store.renew(run, lockMs).catch((error) => {
        if (sentMs < untilMs) return status;
        log.warn({ err: error, batch: batch.id }, "a batch could not be held; it is taken up again");
        return undefined;
      });
      if (now === undefined) lose();
      else status = now;
      untilMs = sentMs + lockMs;
    }
  }

  const results = new ResultWriter(store, run, lose, lost.signal);
  const must = (isOurs: boolean): void => {
    if (!isOurs) throw new RunOver();
  };
  const input = () => deps.files.content(batch.account, batch.inputFile);

  async function validated(): Promise<boolean> {
    const found = await input().then(
      ({ body }) => validate(body, batch.endpoint, (name) => deps.models.resolve(name, batch.account) !== undefined),
      fileGone,
    );
    if (!found.ok) {
      must(await store.failed(run, found.errors));
      return false;
    }
    must(await store.began(run, found));
    return true;
  }

  async function work(): Promise<void> {
    const { body } = await input();
    const why = () => {
      if (status === "cancelling") return "batch_cancelled";
      return Date.now() >= batch.times.expires ? "batch_expired" : undefined;
    };
    try {
      await workLines(deps, { run, body, results, why, over: over.signal, stopping });
    } finally {
      body.destroy();
      await results.flush();
    }
    must(!lost.signal.aborted);
  }

  const holding = hold();
  const beganMs = performance.now();
  try {
    if (run.run > mostRuns) {
      const message = "The batch could not be run. Tell your operator its id.";
      await store.failed(run, [{ code: "internal_error", line: null, message, param: null }]);
      return;
    }
    if (batch.status === "validating" && !(await validated())) return;
    if (batch.status !== "finalizing") await work();
    must(await store.finalizing(run));
    must(await store.end(run, await writeOutput(deps, batch, over.signal)));
    const ms = Math.round(performance.now() - beganMs);
    log.info({ batch: batch.id, account: batch.account, run: run.run, ms }, "batch");
  } catch (error) {
    if (!(error instanceof RunOver) && !over.signal.aborted) throw error;
    if (!lost.signal.aborted) await store.release(run).catch(() => {});
  } finally {
    stopping.removeEventListener("abort", stop);
    ended.abort();
    await holding;
  }
}

function fileGone(error: unknown): Validation {
  if (!(error instanceof FileNotFound)) throw error;
  const message = "The input file is not there any more.";
  return { ok: false, errors: [{ code: "input_file_not_found", line: null, message, param: null }] };
}
