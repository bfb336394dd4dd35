// Runs the lines of a batch without a result, a bounded number at a time, each only where there is capacity.
import type { Readable } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import type { ModelDirectory } from "../catalog/served-model.ts";
import type { BatchEndpoint } from "./batch.ts";
import { type InputLine, isProblem, maxLineBytes, readInputLine } from "./input-line.ts";
import {
  answeredLine,
  attemptsBefore,
  type LineAnswer,
  type LineWork,
  type NotRun,
  notRunLine,
  type RunLine,
  requestIdOf,
} from "./line.ts";
import type { Pace } from "./pace.ts";
import { readLines } from "./read-lines.ts";
import type { ResultWriter } from "./result-writer.ts";
import type { BatchRun, BatchStore } from "./store.ts";

export interface LineDeps {
  readonly store: Pick<BatchStore, "done" | "expired">;
  readonly models: ModelDirectory;
  readonly pace: Pace;
  readonly runLine: RunLine;
  /** Returns the current caller of the key; undefined: it was revoked. */
  readonly callerOf: (account: AccountId, key: KeyId) => Promise<Caller | undefined>;
  /** Maximum concurrent lines of one batch. */
  readonly maxConcurrent: number;
  /** Maximum bytes of one batch's results: see `maxOutputBytes`. */
  readonly maxOutputBytes: number;
}

export interface LinesAtWork {
  readonly run: BatchRun;
  readonly body: Readable;
  readonly results: ResultWriter;
  /** Why no more lines start; undefined: they do. */
  readonly why: () => NotRun | undefined;
  /** Aborts running lines. */
  readonly over: AbortSignal;
  /** Starts no more lines here; the batch continues elsewhere. */
  readonly stopping: AbortSignal;
}

/** A run ended before its batch did. */
export class RunOver extends Error {
  override readonly name = "RunOver";
}

const pollEveryMs = 50;
const callerForMs = 5_000;
const maxBroken = 3;
/** Maximum characters of a batch's running lines, except for a single longer line. */
const maxTextBytes = 16 * 1024 * 1024;

const revoked = {
  status: 401,
  body: JSON.stringify({
    error: {
      message: "The API key that the batch was created with was revoked.",
      type: "authentication_error",
      param: null,
      code: "invalid_api_key",
    },
  }),
};

/** Resolves when every line has its result; otherwise throws RunOver, or the error of the file or database. */
export async function workLines(deps: LineDeps, at: LinesAtWork): Promise<void> {
  const { run, results, over, stopping } = at;
  const { batch } = run;
  const done = await deps.store.done(batch.id);
  const endpoint: BatchEndpoint = batch.endpoint;
  const running = new Set<Promise<void>>();
  let runningChars = 0;
  /** Running requests, which may hold money, and the number of ended ones that were not refused for lack of funds. */
  let atWork = 0;
  let answers = 0;
  let failure: unknown;
  let isExpired = false;
  let known: { readonly caller: Promise<Caller | undefined>; readonly untilMs: number } | undefined;

  const why = (): NotRun | undefined =>
    at.why() ?? (done.bytes + results.addedBytes < deps.maxOutputBytes ? undefined : "batch_output_full");

  const callerNow = (): Promise<Caller | undefined> => {
    if (known && performance.now() < known.untilMs) return known.caller;
    known = { caller: deps.callerOf(batch.account, batch.key), untilMs: performance.now() + callerForMs };
    // Look up the caller again after an error, instead of repeating it for seconds.
    known.caller.catch(() => {
      known = undefined;
    });
    return known.caller;
  };

  /** Waits for capacity. Call the returned function when the line has ended. */
  async function place(model: string): Promise<(() => void) | NotRun> {
    for (;;) {
      if (over.aborted || stopping.aborted || failure !== undefined) throw new RunOver();
      const reason = why();
      if (reason) return reason;
      const deployId = deps.models.resolve(model, batch.account)?.deployId;
      // The model does not exist any more: the line reports it.
      if (deployId === undefined) return () => {};
      if (deps.pace.mayBegin(batch.account, deployId)) return deps.pace.begin(batch.account, deployId);
      await wait(pollEveryMs);
    }
  }

  async function pause(ms: number): Promise<void> {
    const untilMs = performance.now() + ms;
    while (performance.now() < untilMs && !over.aborted && !stopping.aborted && !why())
      await wait(Math.min(pollEveryMs, ms));
  }

  async function request(work: LineWork): Promise<LineAnswer> {
    atWork += 1;
    try {
      const answer = await deps.runLine(work, over);
      if (answer.kind !== "again" || answer.why !== "funds") answers += 1;
      return answer;
    } finally {
      atWork -= 1;
    }
  }

  async function one(line: number, text: string, { customId, model }: InputLine, first: () => void): Promise<void> {
    const answered = (answer: { readonly status: number; readonly body: string }) => ({
      line,
      isError: answer.status >= 400,
      body: answeredLine(batch.id, line, customId, answer),
      tokens: undefined,
    });
    let end: (() => void) | NotRun = first;
    let attempts = attemptsBefore(run.run);
    let ran: { readonly status: number; readonly body: string } | undefined;
    for (let broken = 0; ; end = await place(model)) {
      // A line that ran and broke is reported as it ended: it may have been billed.
      if (typeof end === "string") return ran ? results.add(answered(ran)) : unrun(line, customId, end);
      try {
        const caller = await callerNow();
        if (!caller) return await results.add(answered(revoked));
        const answersBefore = answers;
        const work = { caller, endpoint, text, attempts, requestId: requestIdOf(batch.id, line) };
        const answer = await request({ ...work, admittedAtMs: batch.times.created });
        if (answer.kind === "stopped") throw new RunOver();
        if (answer.kind === "answered") {
          try {
            return await results.add({ ...answered(answer), tokens: answer.tokens });
          } finally {
            answer.letGo?.();
          }
        }
        attempts = answer.attempts;
        if (answer.why === "broken") {
          ran = answer.otherwise;
          broken += 1;
        }
        // No funds while no other line holds any: waiting would free none.
        const isPoor = answer.why === "funds" && atWork === 0 && answers === answersBefore;
        if (isPoor || broken >= maxBroken) return await results.add(answered(answer.otherwise));
        end();
        end = () => {};
        await pause(answer.afterMs);
      } finally {
        if (typeof end === "function") end();
      }
    }
  }

  const fail = (error: unknown): void => {
    failure ??= error;
  };

  async function unrun(line: number, customId: string, reason: NotRun): Promise<void> {
    // Stored before the first result: the next run must know the reason of the others.
    if (reason === "batch_expired" && !isExpired && !(await deps.store.expired(run))) throw new RunOver();
    isExpired ||= reason === "batch_expired";
    await results.add({ line, isError: true, body: notRunLine(batch.id, line, customId, reason), tokens: undefined });
  }

  async function beginAll(): Promise<void> {
    for await (const { line, text = "" } of readLines(at.body, maxLineBytes)) {
      if (failure !== undefined) return;
      if (done.lines.has(line)) continue;
      const read = readInputLine(text, endpoint);
      // Already reported by the validation: a file does not change.
      if (isProblem(read)) continue;
      while (running.size >= deps.maxConcurrent || (running.size > 0 && runningChars + text.length > maxTextBytes))
        await Promise.race(running);
      const begun = await place(read.model);
      if (typeof begun === "string") {
        await unrun(line, read.customId, begun);
        continue;
      }
      runningChars += text.length;
      const task: Promise<void> = one(line, text, read, begun)
        .catch(fail)
        .finally(() => {
          running.delete(task);
          runningChars -= text.length;
        });
      running.add(task);
    }
  }

  // Wait for running lines even when the file becomes unreadable: the batch is held for them.
  await beginAll().catch(fail);
  await Promise.all(running);
  if (failure !== undefined) throw failure;
}
