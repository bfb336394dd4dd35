// Runs the lines of a batch without a result, a bounded number at a time, each only where there is capacity.
import type { Readable } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import type { ModelDirectory } from "../catalog/served-model.ts";
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
  await new Lines(deps, at, await deps.store.done(at.run.batch.id)).work();
}

interface Line extends InputLine {
  readonly line: number;
  readonly text: string;
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

class Lines {
  readonly #deps: LineDeps;
  readonly #at: LinesAtWork;
  /** Results of earlier runs. */
  readonly #done: Awaited<ReturnType<BatchStore["done"]>>;
  readonly #running = new Set<Promise<void>>();
  #runningChars = 0;
  /** Running requests, which may hold money. */
  #requests = 0;
  /** Ended requests that were not refused for lack of funds. */
  #answers = 0;
  #failure: unknown;
  #isExpired = false;
  #caller: { readonly caller: Promise<Caller | undefined>; readonly untilMs: number } | undefined;

  constructor(deps: LineDeps, at: LinesAtWork, done: Awaited<ReturnType<BatchStore["done"]>>) {
    this.#deps = deps;
    this.#at = at;
    this.#done = done;
  }

  async work(): Promise<void> {
    // Wait for running lines even when the file becomes unreadable: the batch is held for them.
    await this.#beginAll().catch(this.#fail);
    await Promise.all(this.#running);
    if (this.#failure !== undefined) throw this.#failure;
  }

  readonly #fail = (error: unknown): void => {
    this.#failure ??= error;
  };

  async #beginAll(): Promise<void> {
    const { run, body } = this.#at;
    for await (const { line, text = "" } of readLines(body, maxLineBytes)) {
      if (this.#failure !== undefined) return;
      if (this.#done.lines.has(line)) continue;
      const read = readInputLine(text, run.batch.endpoint);
      // Already reported by the validation: a file does not change.
      if (isProblem(read)) continue;
      while (this.#isFull(text)) await Promise.race(this.#running);
      const begun = await this.#slot(read.model);
      if (typeof begun === "string") await this.#addUnrun(line, read.customId, begun);
      else this.#start({ ...read, line, text }, begun);
    }
  }

  #isFull(text: string): boolean {
    const { size } = this.#running;
    return size >= this.#deps.maxConcurrent || (size > 0 && this.#runningChars + text.length > maxTextBytes);
  }

  #start(line: Line, end: () => void): void {
    this.#runningChars += line.text.length;
    const task: Promise<void> = this.#run(line, end)
      .catch(this.#fail)
      .finally(() => {
        this.#running.delete(task);
        this.#runningChars -= line.text.length;
      });
    this.#running.add(task);
  }

  /** Runs a line until it has a result. `first`: ends the slot of its first attempt. */
  async #run(line: Line, first: () => void): Promise<void> {
    const { run, results } = this.#at;
    let end: (() => void) | NotRun = first;
    let attempts = attemptsBefore(run.run);
    let ran: Answer | undefined;
    for (let broken = 0; ; end = await this.#slot(line.model)) {
      // A line that ran and broke is reported as it ended: it may have been billed.
      if (typeof end === "string") return ran ? this.#add(line, ran) : this.#addUnrun(line.line, line.customId, end);
      try {
        const caller = await this.#currentCaller();
        if (!caller) return await this.#add(line, revoked);
        const answersBefore = this.#answers;
        const answer = await this.#request(line, caller, attempts);
        if (answer.kind === "stopped") throw new RunOver();
        if (answer.kind === "answered") {
          try {
            return await results.add({ ...this.#resultOf(line, answer), tokens: answer.tokens });
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
        const isPoor = answer.why === "funds" && this.#requests === 0 && this.#answers === answersBefore;
        if (isPoor || broken >= maxBroken) return await this.#add(line, answer.otherwise);
        end();
        end = () => {};
        await this.#pause(answer.afterMs);
      } finally {
        if (typeof end === "function") end();
      }
    }
  }

  async #request({ line, text }: Line, caller: Caller, attempts: number): Promise<LineAnswer> {
    const { batch } = this.#at.run;
    const work: LineWork = {
      caller,
      endpoint: batch.endpoint,
      text,
      attempts,
      requestId: requestIdOf(batch.id, line),
      admittedAtMs: batch.times.created,
    };
    this.#requests += 1;
    try {
      const answer = await this.#deps.runLine(work, this.#at.over);
      if (answer.kind !== "again" || answer.why !== "funds") this.#answers += 1;
      return answer;
    } finally {
      this.#requests -= 1;
    }
  }

  /** Reads the caller again after seconds, and at once after an error. */
  #currentCaller(): Promise<Caller | undefined> {
    if (this.#caller && performance.now() < this.#caller.untilMs) return this.#caller.caller;
    const { account, key } = this.#at.run.batch;
    const caller = this.#deps.callerOf(account, key);
    this.#caller = { caller, untilMs: performance.now() + callerForMs };
    caller.catch(() => {
      this.#caller = undefined;
    });
    return caller;
  }

  /** Why no more lines start; undefined: they do. */
  #whyNot(): NotRun | undefined {
    const { why, results } = this.#at;
    const isFull = this.#done.bytes + results.addedBytes >= this.#deps.maxOutputBytes;
    return why() ?? (isFull ? "batch_output_full" : undefined);
  }

  /** Waits for capacity. Call the returned function when the line has ended. */
  async #slot(model: string): Promise<(() => void) | NotRun> {
    const { account } = this.#at.run.batch;
    for (;;) {
      if (this.#isOver || this.#failure !== undefined) throw new RunOver();
      const reason = this.#whyNot();
      if (reason) return reason;
      const deployId = this.#deps.models.resolve(model, account)?.deployId;
      // The model does not exist any more: the line reports it.
      if (deployId === undefined) return () => {};
      if (this.#deps.pace.mayBegin(account, deployId)) return this.#deps.pace.begin(account, deployId);
      await wait(pollEveryMs);
    }
  }

  get #isOver(): boolean {
    return this.#at.over.aborted || this.#at.stopping.aborted;
  }

  async #pause(ms: number): Promise<void> {
    const untilMs = performance.now() + ms;
    while (performance.now() < untilMs && !this.#isOver && !this.#whyNot()) await wait(Math.min(pollEveryMs, ms));
  }

  #resultOf({ line, customId }: Line, answer: Answer) {
    const body = answeredLine(this.#at.run.batch.id, line, customId, answer);
    return { line, isError: answer.status >= 400, body, tokens: undefined };
  }

  #add(line: Line, answer: Answer): Promise<void> {
    return this.#at.results.add(this.#resultOf(line, answer));
  }

  async #addUnrun(line: number, customId: string, reason: NotRun): Promise<void> {
    const { run, results } = this.#at;
    // Stored before the first result: the next run must know the reason of the others.
    if (reason === "batch_expired" && !this.#isExpired && !(await this.#deps.store.expired(run))) throw new RunOver();
    this.#isExpired ||= reason === "batch_expired";
    await results.add({
      line,
      isError: true,
      body: notRunLine(run.batch.id, line, customId, reason),
      tokens: undefined,
    });
  }
}
